"""The topics of a broker that wait for delayed messages."""

from __future__ import annotations

import asyncio
from typing import Protocol

JUMP_MS = 1_000
JOBS_MAX = 2  # parts of indexes that are written or read at a time


class Waiting(Protocol):
    def wake(self) -> None:
        """Looks at the time and delivers what is due."""

    @property
    def waiting_entries(self) -> int: ...


class DelayTimers:
    def __init__(self) -> None:
        self.topics: dict[Waiting, None] = {}
        self.working = asyncio.Semaphore(JOBS_MAX)
        self._offset_ms: int | None = None

    def check_clock(self, now_ms: int, passed_ms: int) -> None:
        """Called about once a second. `passed_ms` is the clock that timers go by: where it and the time have parted, because the
        clock was set or the machine slept, every topic sets its timer anew."""
        offset_ms, before = now_ms - passed_ms, self._offset_ms
        if before is not None and abs(offset_ms - before) <= JUMP_MS:
            return
        self._offset_ms = offset_ms
        if before is not None:
            for one in list(self.topics):
                one.wake()
