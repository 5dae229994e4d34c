"""Rates from running totals: events per second over the last few samples. Pure: the caller passes the time."""

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
        """Nothing changed within the window, so the owner may stop sampling."""
        return self.a_second == 0.0 and len(self._samples) > 1


class Rates:
    """Several running totals of one object, sampled together; rates are computed only when they are read."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: list[tuple[int, tuple[float, ...]]] = []

    def sample(self, now_ms: int, totals: tuple[float, ...]) -> None:
        samples = self._samples
        samples.append((now_ms, totals))
        while len(samples) > 2 and samples[1][0] <= now_ms - WINDOW_MS:
            samples.pop(0)

    def all(self, count: int) -> list[float]:
        """Per second, for each of the `count` totals; zeros before the second sample."""
        if len(self._samples) < 2:
            return [0.0] * count
        (first_ms, first), (last_ms, last) = self._samples[0], self._samples[-1]
        elapsed_ms = last_ms - first_ms
        return [(after - before) * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0 for before, after in zip(first, last, strict=True)]

    @property
    def quiet(self) -> bool:
        return len(self._samples) > 1 and self._samples[0][1] == self._samples[-1][1]
