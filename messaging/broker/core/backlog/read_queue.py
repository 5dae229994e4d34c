"""Decides which backlog reads of a broker start next. Pure: reads wait until the memory account allows one more, are fair between
tenants, and only a few are in progress at a time.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from messaging.broker.core.backlog.read import BacklogRead
from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.fairness.queue import FairQueue

READS_MAX = 2  # under way at a time: more would delay commits, and bring nothing sooner

Owner = TypeVar("Owner")


class ReadQueue(Generic[Owner]):
    """After each event call `following` until it names no read."""

    __slots__ = ("_account", "_waiting", "begun", "under_way")

    def __init__(self, account: MemoryAccount) -> None:
        self._account = account
        self._waiting: FairQueue[tuple[Owner, BacklogRead]] = FairQueue()
        self.under_way = 0
        self.begun = 0  # since the start

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def short_of_memory(self) -> bool:
        """Reads wait, and it is not for others to end."""
        return bool(self._waiting) and self.under_way < READS_MAX

    def ask(self, tenant: str, owner: Owner, read: BacklogRead) -> None:
        self._waiting.push(tenant, (owner, read))

    def withdraw(self, tenant: str, owner: Owner, read: BacklogRead) -> None:
        """Nobody wants it any more. Harmless if it has begun."""
        self._waiting.discard(tenant, (owner, read))

    def following(self) -> tuple[Owner, BacklogRead] | None:
        """The read that begins now: it is under way, and its memory is taken."""
        if self.under_way >= READS_MAX:
            return None
        tenants: list[str] = []

        def fits(tenant: str, item: tuple[Owner, BacklogRead]) -> bool:
            _, read = item
            tenants.append(tenant)
            return self._account.allows(tenant, read.size_bytes)

        following = self._waiting.pop(fits)
        if following is not None:
            _, read = following
            self.under_way += 1
            self.begun += 1
            self._account.take(tenants[-1], read.size_bytes)
        return following

    def ended(self) -> None:
        """A read that was under way is over."""
        self.under_way -= 1

    def resized(self, tenant: str, before: int, after: int) -> None:
        """A read holds `after` bytes from now on: more or less than was expected, or 0 once nobody needs it."""
        if before:
            self._account.give(tenant, before)
        if after:
            self._account.take(tenant, after)
