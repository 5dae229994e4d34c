"""The rate at which space is reclaimed: slow enough not to disturb commits, and unlimited when space is short."""

from __future__ import annotations

import time
from collections.abc import Callable

WORK_SHARE = 0.25  # maximum share of time: copying holds the GIL that others need
PAUSE_MAX_S = 1.0


class RateLimiter:
    """`hurry` returns True while pauses must be skipped."""

    def __init__(
        self,
        bytes_per_s: int,
        hurry: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._hurry = hurry
        self._clock = clock
        self._sleep = sleep
        self._since = clock()

    def pause(self, size: int) -> None:
        """Call after copying `size` bytes: blocks for as long as they should take at the configured rate."""
        worked_s = self._clock() - self._since
        pause_s = max(size / self._bytes_per_s - worked_s, worked_s * (1 / WORK_SHARE - 1))
        if not self._hurry():
            self._sleep(min(pause_s, PAUSE_MAX_S))
        self._since = self._clock()
