"""Whether a backlog grows, from samples of it. Pure: the caller passes the time."""

from __future__ import annotations

WINDOW_MS = 60_000
SPACING_MS = 5_000  # samples that come sooner after the last one kept are skipped
SPAN_MS_MIN = 30_000  # less says nothing: a burst is not a trend


class BacklogTrend:
    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: list[tuple[int, int]] = []

    def sample(self, now_ms: int, backlog: int) -> None:
        samples = self._samples
        if samples and now_ms - samples[-1][0] < SPACING_MS:
            return
        samples.append((now_ms, backlog))
        while samples[0][0] < now_ms - WINDOW_MS:
            samples.pop(0)

    @property
    def grows(self) -> bool:
        """Over the window the least of the later half of the samples is above the most of the earlier half."""
        samples = self._samples
        if len(samples) < 4 or samples[-1][0] - samples[0][0] < SPAN_MS_MIN:
            return False
        half = len(samples) // 2
        return min(backlog for _, backlog in samples[half:]) > max(backlog for _, backlog in samples[:half])
