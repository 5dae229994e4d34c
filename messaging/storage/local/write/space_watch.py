"""Retries while the disk is full: deletes in this store or elsewhere free space."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.storage.local.log_thread import LogThread
from messaging.storage.local.write.allocator import SegmentAllocator

SPACE_RETRY_S = 1.0


class SpaceWatch:
    """Lives on the event loop. `on_loop` schedules a call there from any thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        thread: LogThread,
        allocator: SegmentAllocator,
        on_loop: Callable[[Callable[[], None]], None],
    ) -> None:
        self._loop = loop
        self._thread = thread
        self._allocator = allocator
        self._on_loop = on_loop
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def begin(self) -> None:
        """Called when the disk is full."""
        self._timer = None
        if not self._stopped:
            self._thread.post(self._retry)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _retry(self) -> None:
        if not self._allocator.retry_space():
            self._on_loop(self._later)

    def _later(self) -> None:
        if self._timer is None and not self._stopped:
            self._timer = self._loop.call_later(SPACE_RETRY_S, self.begin)
