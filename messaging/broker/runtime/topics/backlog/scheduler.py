"""Schedules backlog reads and the delivery of what they read, for all topics of a broker.

There are two queues, both fair between tenants: reads that wait for memory (`core/backlog/read_queue.py`), and subscriptions with
blocks ready to send. Each turn of the event loop sends a small slice of the latter, so producers and consumers that keep up never
wait for more than one slice, however many subscriptions are behind.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from messaging.background import BackgroundLoop
from messaging.broker.core.backlog.read import BacklogRead
from messaging.broker.core.backlog.read_queue import ReadQueue
from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.core.subscription import Subscription
from messaging.fairness.queue import FairQueue
from messaging.storage.ledger_store import READ_BYTES

ROOM_FOR_READS = 16  # of the largest size, in the account
TURN_BYTES = 64 << 10  # bytes sent per slice, or one entry


class BacklogDispatcher(Protocol):
    """Sends a subscription the blocks that were read for it."""

    @property
    def tenant(self) -> str: ...

    @property
    def topic_name(self) -> str: ...

    def dispatch_backlog(self, subscription: Subscription, bytes_max: int) -> bool:
        """Sends about `bytes_max`. Returns whether more can be sent now."""


class ReadOwner(Protocol):
    """The reads of one topic; implemented by `backlog/reader.py`."""

    tenant: str

    def begin(self, read: BacklogRead) -> None:
        """Starts the read: memory is available and it is its tenant's turn."""

    def give_back(self) -> bool:
        """Releases blocks held for subscriptions that cannot take messages now. Returns whether there were any."""

    def sweep(self) -> None:
        """Called once a second: subscriptions that take nothing keep less each time."""


class BacklogScheduler:
    def __init__(self, account: MemoryAccount, health: BackgroundLoop | None = None) -> None:
        self._health = health or BackgroundLoop("dispatch", recurs=False)
        self.reads_joined = 0  # how often a subscription reused a block that another's read had brought or was bringing
        self.readers: dict[ReadOwner, None] = {}  # topics with blocks in memory, the one most recently asked to release some last
        self._reads: ReadQueue[ReadOwner] = ReadQueue(account)
        self._account = account
        self._due: FairQueue[tuple[BacklogDispatcher, Subscription]] = FairQueue()
        self._turn_due = False

    @property
    def reads(self) -> int:
        """The number of reads since the start."""
        return self._reads.begun

    @property
    def reads_under_way(self) -> int:
        return self._reads.under_way

    @property
    def reads_waiting(self) -> int:
        return self._reads.waiting

    def read_bytes(self, wanted_bytes: int) -> int:
        """How large reads are of who reads on: as the store wants, and small enough for several of them."""
        return min(wanted_bytes, max(READ_BYTES, self._account.limit_bytes // ROOM_FOR_READS))

    # --- sending what was read

    def schedule(self, dispatcher: BacklogDispatcher, subscription: Subscription) -> None:
        """Schedules `subscription` to be sent blocks from storage, in turn, in the next turn of the event loop at the earliest."""
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
        except Exception as error:  # of this subscription; the others continue
            self._health.failed(error, topic=dispatcher.topic_name, subscription=subscription.name)
        self._turn_later()

    # --- reading

    def ask(self, owner: ReadOwner, read: BacklogRead) -> None:
        """Queues `read`. It starts as soon as there is memory for it and it is its tenant's turn."""
        self._reads.ask(owner.tenant, owner, read)
        self._begin()

    def withdraw(self, owner: ReadOwner, read: BacklogRead) -> None:
        """Cancels a queued read that is no longer needed. Has no effect once the read has started."""
        self._reads.withdraw(owner.tenant, owner, read)

    def ended(self) -> None:
        """A read in progress has ended."""
        self._reads.ended()
        self._begin()

    def resized(self, tenant: str, before: int, after: int) -> None:
        """Sets the memory that a read holds to `after` bytes: more or less than expected, or 0 once nobody needs it."""
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
        """Releases blocks held for subscriptions that cannot take messages now. Returns whether that freed any memory."""
        for owner in list(self.readers):
            del self.readers[owner]
            self.readers[owner] = None
            if owner.give_back():
                return True
        return False
