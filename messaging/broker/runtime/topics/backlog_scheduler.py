"""Reading from storage for consumers that are behind, for all topics of a broker: how much at a time, whose turn it is.

Two queues, both fair between tenants. Reads wait until the memory limiter allows one more, and few are under way at a time. What
was read is handed out a little each turn of the loop, so that producers and readers of the tail, who are served as
things happen, never wait for more than one such piece, however many are behind.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from messaging.background import BackgroundLoop
from messaging.broker.core.backlog.read import BacklogRead
from messaging.broker.core.fair_queue import FairQueue
from messaging.broker.core.memory_limiter import MemoryAccount
from messaging.broker.core.subscription import Subscription

READS_MAX = 2  # under way at a time: more keep commits waiting for the disk, and nobody is served sooner
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
        self.account = account
        self.health = BackgroundLoop("dispatch", recurs=False)
        self.reads = 0
        self.reads_joined = 0  # times a subscription found what another's read had brought, or was bringing
        self.readers: dict[ReadOwner, None] = {}  # topics with something read; who was asked last to give back comes last
        self._asked: FairQueue[tuple[ReadOwner, BacklogRead]] = FairQueue()
        self._under_way = 0
        self._served: FairQueue[tuple[BacklogDispatcher, Subscription]] = FairQueue()
        self._turn_due = False

    @property
    def reads_under_way(self) -> int:
        return self._under_way

    @property
    def reads_waiting(self) -> int:
        return len(self._asked)

    # --- handing out

    def schedule(self, dispatcher: BacklogDispatcher, subscription: Subscription) -> None:
        """Its turn to be handed something from storage comes, one turn of the loop later at the earliest."""
        self._served.push(dispatcher.tenant, (dispatcher, subscription))
        self._turn_later()

    def _turn_later(self) -> None:
        if self._served and not self._turn_due:
            self._turn_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        following = self._served.pop()
        if following is None:
            return
        dispatcher, subscription = following
        try:
            if dispatcher.dispatch_backlog(subscription, TURN_BYTES):
                self._served.push(dispatcher.tenant, following)
        except Exception as error:  # of this one; the others go on
            self.health.failed(error, topic=dispatcher.topic_name, subscription=subscription.name)
        self._turn_later()

    # --- reading

    def ask(self, owner: ReadOwner, read: BacklogRead) -> None:
        """`read` begins as soon as there is memory for it and its tenant's turn comes."""
        self._asked.push(owner.tenant, (owner, read))
        self._begin()

    def withdraw(self, owner: ReadOwner, read: BacklogRead) -> None:
        """Nobody wants it any more. Harmless if it has begun."""
        self._asked.discard(owner.tenant, (owner, read))

    def _begin(self) -> None:
        while self._asked and self._under_way < READS_MAX:
            following = self._asked.pop(self._fits)
            if following is None:
                if not self._reclaim():
                    return
                continue
            owner, read = following
            self._under_way += 1
            self.reads += 1
            self.account.take(owner.tenant, read.size_bytes)
            owner.begin(read)

    def _fits(self, tenant: str, item: tuple[ReadOwner, BacklogRead]) -> bool:
        return self.account.allows(tenant, item[1].size_bytes)

    def ended(self) -> None:
        """A read that was under way is over."""
        self._under_way -= 1
        self._begin()

    def resized(self, tenant: str, before: int, after: int) -> None:
        """A read holds `after` bytes from now on: more or less than was expected, or 0 once nobody needs it."""
        if before:
            self.account.give(tenant, before)
        if after:
            self.account.take(tenant, after)
        if after < before and self._asked:
            self._begin()

    def _reclaim(self) -> bool:
        """Takes back what was read for consumers that take nothing now. Whether that gave anything."""
        for owner in list(self.readers):
            del self.readers[owner]
            self.readers[owner] = None
            if owner.give_back():
                return True
        return False
