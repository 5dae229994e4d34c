"""When the next commit is due, for those who read from clients: while it is delayed, reading makes nothing durable any sooner.

A peer that sends message after message may then be left unread until the commit is due: one read brings them all. Only a store
that delays commits ever changes this, for about a millisecond at a time.
"""

from __future__ import annotations

from collections.abc import Callable


class NextCommit:
    """`number` counts the times at which one was due."""

    __slots__ = ("_waiting", "delayed", "number")

    def __init__(self) -> None:
        self.delayed = False
        self.number = 0
        self._waiting: list[Callable[[], None]] = []

    def delay(self) -> None:
        self.delayed = True

    def when_due(self, act: Callable[[], None]) -> None:
        """Calls `act`, which must not raise, when it is due. Call while it is delayed."""
        self._waiting.append(act)

    def due(self) -> None:
        """What has come so far is for the commit that begins now; for what comes later the one after it is delayed."""
        self.number += 1
        waiting, self._waiting = self._waiting, []
        for act in waiting:
            act()

    def end_delay(self) -> None:
        """From now on commits are not delayed."""
        self.delayed = False
        self.due()
