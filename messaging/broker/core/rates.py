"""Rates from running totals: events a second over the last few samples. Pure: the caller says what time it is."""

from __future__ import annotations

WINDOW_MS = 5_000


class Rate:
    """Keeps the totals of the last `WINDOW_MS`, sampled by its owner; `a_second` is the slope over them."""

    __slots__ = ("_samples", "a_second")

    def __init__(self) -> None:
        self._samples: list[tuple[int, int]] = []
        self.a_second = 0.0

    def sample(self, now_ms: int, total: int) -> None:
        samples = self._samples
        samples.append((now_ms, total))
        while len(samples) > 2 and samples[1][0] <= now_ms - WINDOW_MS:
            samples.pop(0)
        first_ms, first_total = samples[0]
        self.a_second = (total - first_total) * 1000 / (now_ms - first_ms) if now_ms > first_ms else 0.0

    @property
    def quiet(self) -> bool:
        """Nothing happened within the window: the owner may stop sampling."""
        return self.a_second == 0.0 and len(self._samples) > 1
