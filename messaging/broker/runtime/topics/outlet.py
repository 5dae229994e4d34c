"""Log to sockets: hands the entries of a topic to its subscriptions, from memory where they are still there, else from storage.

`dispatch` is called whenever something may have become possible: a block is durable, a consumer gained permits, became writable
again or gave entries back. It is the only place where a delivery begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from messaging.broker.core.entries import EntryBlock, from_log
from messaging.broker.core.subscription import Assigned, Subscription
from messaging.broker.runtime.topics.services import TopicServices
from messaging.broker.runtime.topics.tail import Tail
from messaging.protocol.names import TopicName
from messaging.storage.managed_ledger import ManagedLedger
from messaging.storage.seam import Corrupt, Position, StoreError

log = structlog.get_logger("broker.outlet")

CATCH_UP_BYTES = 1 << 20  # one read of a subscription that is behind the cached tail
CATCH_UP_ENTRIES = 10_000
READ_RETRY_S = 1.0
DISPATCH_BLOCKS_MAX = 64  # blocks handed out before other topics get their turn of the loop


class Outlet:
    """`store` makes a cursor's change durable."""

    def __init__(
        self, name: TopicName, services: TopicServices, ledger: ManagedLedger, store: Callable[[Subscription, bytes], None]
    ) -> None:
        self.name = name
        self.services = services
        self.ledger = ledger
        self.tail = Tail(services.tail_cache)
        self.messages_out = 0
        self.bytes_out = 0
        self._store = store
        self._fetched: dict[Subscription, list[EntryBlock]] = {}
        self._reads: set[asyncio.Task[None]] = set()
        self._closed = False

    def dispatch(self, subscription: Subscription) -> None:
        """Hands out what can be handed out now. Safe to call at any time."""
        for _ in range(DISPATCH_BLOCKS_MAX):
            if self.ledger.terminated:
                _tell_end(subscription)
            if not subscription.wants() or self._closed:
                return
            position = subscription.next_position()
            if position is None:
                return
            block = self._find(subscription, position)
            if block is None:
                self._fetch(subscription, position)
                return
            now_ms = self.services.clock_ms()
            ttl_s = self.services.message_ttl_s(self.name)
            assigned = subscription.assign(block, position, now_ms - ttl_s * 1000 if ttl_s else 0, now_ms)
            self._carry_out(subscription, assigned)
            if not assigned.more:
                return
        asyncio.get_running_loop().call_soon(self.dispatch, subscription)

    def _carry_out(self, subscription: Subscription, assigned: Assigned) -> None:
        for consumer, block, first, last, redeliveries in assigned.deliveries:
            size = consumer.sink.deliver(consumer, block, first, last, redeliveries)
            consumer.bytes_out += size
            subscription.bytes_out += size
            self.bytes_out += size
            self.messages_out += block.messages_in(first, last)
        for delta in assigned.deltas:
            self._store(subscription, delta)

    def _find(self, subscription: Subscription, position: Position) -> EntryBlock | None:
        block = self.tail.find(position)
        if block is not None:
            return block
        for fetched in self._fetched.get(subscription, ()):
            if fetched.ledger_id == position.ledger_id and fetched.first_entry <= position.entry_id <= fetched.last_entry:
                return fetched
        return None

    def _fetch(self, subscription: Subscription, position: Position) -> None:
        if subscription.reading:
            return
        subscription.reading = True
        task = asyncio.get_running_loop().create_task(self._read(subscription, position), name=f"catch up {self.name}")
        self._reads.add(task)
        task.add_done_callback(self._reads.discard)

    async def _read(self, subscription: Subscription, position: Position) -> None:
        try:
            blocks = await self.ledger.read(position, entries_max=CATCH_UP_ENTRIES, bytes_max=CATCH_UP_BYTES)
            self._fetched[subscription] = [from_log(block) for block in blocks]
        except Corrupt as error:
            log.error("entry.corrupt", topic=str(self.name), ledger_id=error.ledger_id, entry_id=error.entry_id, error=str(error))
            subscription.skip_to(Position(error.ledger_id, error.entry_id + 1))
        except (StoreError, ValueError) as error:
            log.error("read.failed", topic=str(self.name), position=str(position), error=str(error))
            asyncio.get_running_loop().call_later(READ_RETRY_S, self.dispatch, subscription)
            return
        finally:
            subscription.reading = False
        self.dispatch(subscription)

    def forget(self, subscription: Subscription) -> None:
        """Lets go of what was read ahead for it."""
        self._fetched.pop(subscription, None)

    def close(self) -> None:
        self._closed = True
        for task in list(self._reads):
            task.cancel()
        self._fetched.clear()
        self.tail.clear()


def _tell_end(subscription: Subscription) -> None:
    if subscription.backlog_entries:
        return
    for consumer in subscription.consumers:
        if not consumer.end_told:
            consumer.end_told = True
            consumer.sink.end_of_topic(consumer)
