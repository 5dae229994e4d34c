"""Reading from storage for consumers that are behind, for all topics of a broker: how much at a time, whose turn it is.

Two queues, both fair between tenants. Reads wait until the memory limiter allows one more, and few are under way at a time. What
was read is handed out a little each turn of the loop, so that producers and readers of the tail, who are served as
things happen, never wait for more than one such piece, however many are behind.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from messaging.background import BackgroundLoop
from messaging.broker.core.fair_queue import FairQueue
from messaging.broker.core.memory_limiter import MemoryAccount
from messaging.broker.runtime.topics.backlog_reader import TURN_BYTES

if TYPE_CHECKING:
    from messaging.broker.core.subscription import Subscription
    from messaging.broker.runtime.topics.backlog_read import BacklogRead
    from messaging.broker.runtime.topics.backlog_reader import BacklogReader
    from messaging.broker.runtime.topics.dispatcher import Dispatcher

READS_MAX = 2  # under way at a time: more keep commits waiting for the disk, and nobody is served sooner


class BacklogScheduler:
    def __init__(self, account: MemoryAccount) -> None:
        self.account = account
        self.health = BackgroundLoop("dispatch", recurs=False)
        self.reads = 0
        self.reads_joined = 0  # times a subscription found what another's read had brought, or was bringing
        self.readers: dict[BacklogReader, None] = {}  # topics with something read; who was asked last to give back comes last
        self._asked: FairQueue[tuple[BacklogReader, BacklogRead]] = FairQueue()
        self._under_way = 0
        self._served: FairQueue[tuple[Dispatcher, Subscription]] = FairQueue()
        self._turn_due = False

    @property
    def reads_waiting(self) -> int:
        return len(self._asked)

    # --- handing out

    def serve(self, dispatcher: Dispatcher, subscription: Subscription) -> None:
        """Its turn to be handed something from storage comes, one turn of the loop later at the earliest."""
        self._served.push(dispatcher.topic.name.tenant, (dispatcher, subscription))
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
                self._served.push(dispatcher.topic.name.tenant, following)
        except Exception as error:  # of this one; the others go on
            self.health.failed(error, topic=dispatcher.topic.text, subscription=subscription.name)
        self._turn_later()

    # --- reading

    def ask(self, backlog: BacklogReader, read: BacklogRead) -> None:
        """`read` begins as soon as there is memory for it and its tenant's turn comes."""
        self._asked.push(backlog.tenant, (backlog, read))
        self._begin()

    def withdraw(self, backlog: BacklogReader, read: BacklogRead) -> None:
        """Nobody wants it any more. Harmless if it has begun."""
        self._asked.discard(backlog.tenant, (backlog, read))

    def _begin(self) -> None:
        while self._asked and self._under_way < READS_MAX:
            following = self._asked.pop(self._fits)
            if following is None:
                if not self._reclaim():
                    return
                continue
            backlog, read = following
            self._under_way += 1
            self.reads += 1
            self.account.take(backlog.tenant, read.size_bytes)
            backlog.begin(read)

    def _fits(self, tenant: str, item: tuple[BacklogReader, BacklogRead]) -> bool:
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
        for backlog in list(self.readers):
            del self.readers[backlog]
            self.readers[backlog] = None
            if backlog.give_back():
                return True
        return False
