"""Carries out what `commit_delay.py` decides: after a commit the next one waits a moment, and what it waits for is read at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from messaging.storage.local.device.timer import LoopTimer
from messaging.storage.local.write.commit_delay import CommitDelay
from messaging.storage.next_commit import NextCommit


class DelayedCommits:
    """Lives on the loop. `ended` is called after each delay: the next commit may begin."""

    def __init__(self, loop: asyncio.AbstractEventLoop, next_commit: NextCommit, delay_max_s: float) -> None:
        """Raises `OSError` if the system has no such timers."""
        self.delay = CommitDelay(delay_max_s)
        self.ended: Callable[[], None] = lambda: None
        self._loop = loop
        self._next_commit = next_commit
        self._timer = LoopTimer(loop, self._over)

    def commit_begins(self) -> None:
        if self.delay.delay_s and not self.delay.trying:  # a try changes nothing for readers: it may be a closed loop
            self._next_commit.delay()

    def nothing_waits(self) -> None:
        if self._next_commit.delayed:
            self._next_commit.end_delay()

    def begin_after(self, items: Sequence[Sequence[Any]]) -> bool:
        """A commit of these items ended. Returns whether the next is delayed."""
        messages = size_bytes = 0
        for state, _, _, _, end_offsets, _, size in items:
            if end_offsets is not None and not state.reserved:  # acknowledgements follow the messages
                messages += len(end_offsets)
                size_bytes += size
        delay_s = self.delay.committed(time.perf_counter(), messages, size_bytes)
        if delay_s:
            self._timer.start(delay_s)
            return True
        if self._next_commit.delayed:
            self._next_commit.end_delay()
        return False

    def close(self) -> None:
        self._timer.close()

    def _over(self) -> None:
        # What is read again comes in the next turn, so the commit begins in the one after it.
        self._loop.call_soon(self._loop.call_soon, self.ended)
        self._next_commit.due()
