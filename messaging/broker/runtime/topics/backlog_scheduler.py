"""Backlog reads and their delivery, for all topics of a broker. Two queues, both fair between tenants: reads that wait for memory
(`core/backlog/read_queue.py`), and subscriptions for which something was read. Those are sent a little in each turn of the loop, so
that producers and consumers that keep up never wait for more than one such piece, however many are behind.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from messaging.background import BackgroundLoop
from messaging.broker.core.backlog.read import BacklogRead
from messaging.broker.core.backlog.read_queue import ReadQueue
from messaging.broker.core.fair_queue import FairQueue
from messaging.broker.core.memory_limiter import MemoryAccount
from messaging.broker.core.subscription import Subscription

TURN_BYTES = 64 << 10  # sent at a time, or one entry


class BacklogDispatcher(Protocol):
    """Sends a subscription what was read for it."""

    @property
    def tenant(self) -> str: ...

    @property
    def topic_name(self) -> str: ...

    def dispatch_backlog(self, subscription: Subscription, bytes_max: int) -> bool:
        """Sends about `bytes_max`. Whether there is more that can be sent now."""


class ReadOwner(Protocol):
    """The reads of one topic: `backlog_reader.py`."""

    tenant: str

    def begin(self, read: BacklogRead) -> None:
        """Its turn has come."""

    def give_back(self) -> bool:
        """Lets go of what was read for subscriptions that take nothing now. Whether there were any."""

    def sweep(self) -> None:
        """Once a second: subscriptions that take nothing keep less and less."""


class BacklogScheduler:
    def __init__(self, account: MemoryAccount) -> None:
        self.health = BackgroundLoop("dispatch", recurs=False)
        self.reads_joined = 0  # times a subscription found what another's read had brought, or was bringing
        self.readers: dict[ReadOwner, None] = {}  # topics with something read; the one asked last to give back comes last
        self._reads: ReadQueue[ReadOwner] = ReadQueue(account)
        self._due: FairQueue[tuple[BacklogDispatcher, Subscription]] = FairQueue()
        self._turn_due = False

    @property
    def reads(self) -> int:
        """Since the start."""
        return self._reads.begun

    @property
    def reads_under_way(self) -> int:
        return self._reads.under_way

    @property
    def reads_waiting(self) -> int:
        return self._reads.waiting

    # --- sending what was read

    def schedule(self, dispatcher: BacklogDispatcher, subscription: Subscription) -> None:
        """`subscription` can be sent something from storage: in its turn, one turn of the loop later at the earliest."""
        self._due.push(dispatcher.tenant, (dispatcher, subscription))
        self._turn_later()

    def _turn_later(self) -> None:
        if self._due and not self._turn_due:
            self._turn_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        following = self._due.pop()
        if following is None:
            return
        dispatcher, subscription = following
        try:
            if dispatcher.dispatch_backlog(subscription, TURN_BYTES):
                self._due.push(dispatcher.tenant, following)
        except Exception as error:  # of this one; the others go on
            self.health.failed(error, topic=dispatcher.topic_name, subscription=subscription.name)
        self._turn_later()

    # --- reading

    def ask(self, owner: ReadOwner, read: BacklogRead) -> None:
        """`read` begins as soon as there is memory for it and its tenant's turn comes."""
        self._reads.ask(owner.tenant, owner, read)
        self._begin()

    def withdraw(self, owner: ReadOwner, read: BacklogRead) -> None:
        """Nobody wants it any more. Harmless if it has begun."""
        self._reads.withdraw(owner.tenant, owner, read)

    def ended(self) -> None:
        """A read that was under way is over."""
        self._reads.ended()
        self._begin()

    def resized(self, tenant: str, before: int, after: int) -> None:
        """A read holds `after` bytes from now on: more or less than was expected, or 0 once nobody needs it."""
        self._reads.resized(tenant, before, after)
        if after < before:
            self._begin()

    def _begin(self) -> None:
        while True:
            following = self._reads.following()
            if following is not None:
                owner, read = following
                owner.begin(read)
            elif not self._reads.short_of_memory or not self._reclaim():
                return

    def _reclaim(self) -> bool:
        """Takes back what was read for subscriptions that take nothing now. Whether that gave anything."""
        for owner in list(self.readers):
            del self.readers[owner]
            self.readers[owner] = None
            if owner.give_back():
                return True
        return False
