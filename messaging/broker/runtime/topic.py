"""A loaded topic: the one owner of its managed ledger, its producers and its subscriptions. Lives on the event loop; has no task of
its own, so an idle topic costs memory only.

Socket to log: `publish`. Log to sockets: `_confirmed` gives receipts and calls `dispatch`, which is also called whenever a consumer
gains permits, becomes writable again, or gives entries back.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursor import Cursor
from messaging.broker.core.entries import EntryBlock, for_log, from_log, header_of
from messaging.broker.core.producers import Producer, ProducerTable
from messaging.broker.core.rates import Rate
from messaging.broker.core.subscription import Assigned, Subscription
from messaging.broker.runtime.tail import Tail, TailCache
from messaging.errors import ConsumerBusy, MagnetarError, StorageFailed, SubscriptionNotFound, TopicTerminated
from messaging.protocol.frames import message_id_tail
from messaging.protocol.hot import Sent
from messaging.protocol.names import TopicName
from messaging.storage.cursor_log import CursorLog
from messaging.storage.managed_ledger import ManagedLedger, Storage
from messaging.storage.meta_seam import MetaConflict, SubscriptionRecord, TopicRecord
from messaging.storage.seam import EARLIEST, Corrupt, Position, StoreError

log = structlog.get_logger("broker.topic")

LATEST = Position(2**63 - 1, 2**63 - 1)
CATCH_UP_BYTES = 1 << 20  # one read of a subscription that is behind the cached tail
CATCH_UP_ENTRIES = 10_000
SEEK_RETURN_S = 60.0  # a reader that was closed by its own seek has this long to come back
DISPATCH_BLOCKS_MAX = 64  # blocks handed out before other topics get their turn of the loop


@dataclass(slots=True)
class TopicServices:
    """What every topic of a broker shares."""

    storage: Storage
    cursors: CursorLog
    tail_cache: TailCache
    clock_ms: Callable[[], int]
    unacked_max: int
    message_ttl_s: Callable[[TopicName], int]
    failed: Callable[[Topic, MagnetarError], None]  # the topic cannot go on and is to be unloaded
    active: Callable[[Topic], None]  # something happened: sample its rates


@dataclass(slots=True)
class TopicRates:
    messages_in: Rate = field(default_factory=Rate)
    bytes_in: Rate = field(default_factory=Rate)
    messages_out: Rate = field(default_factory=Rate)
    bytes_out: Rate = field(default_factory=Rate)

    def all(self) -> tuple[Rate, Rate, Rate, Rate]:
        return self.messages_in, self.bytes_in, self.messages_out, self.bytes_out


class Topic:
    def __init__(self, name: TopicName, services: TopicServices, ledger: ManagedLedger) -> None:
        self.name = name
        self.text = str(name)
        self.id_tail = message_id_tail(name.partition)
        self.services = services
        self.ledger = ledger
        self.chain = ledger.chain
        self.producers = ProducerTable()
        self.subscriptions: dict[str, Subscription] = {}
        self.tail = Tail(services.tail_cache)
        self.closed: MagnetarError | None = None
        self.messages_in = 0
        self.bytes_in = 0
        self.messages_out = 0
        self.bytes_out = 0
        self.rates = TopicRates()
        self.created_ms = ledger.record.created_ms
        self.last_published_ms = 0
        self._fetched: dict[Subscription, list[EntryBlock]] = {}
        self._fetches: set[asyncio.Task[None]] = set()

    # --- subscriptions

    def restore(self, record: SubscriptionRecord) -> Subscription:
        """A stored subscription, with the deltas that the last run left in the cursor log."""
        cursor = Cursor.restore(record.mark_delete, record.state)
        for delta in self.services.cursors.recovered_deltas(record.subscription_id):
            cursor.repeat(delta, self.chain)
        subscription = self._new_subscription(record.name, cursor, record.subscription_id, record.properties)
        self.services.cursors.adopted(record.subscription_id)
        return subscription

    def _new_subscription(self, name: str, cursor: Cursor, subscription_id: int, properties: dict[str, str]) -> Subscription:
        subscription = Subscription(
            name,
            cursor,
            self.chain,
            subscription_id=subscription_id,
            durable=subscription_id != 0,
            partition=self.name.partition,
            unacked_max=self.services.unacked_max,
            properties=properties,
        )
        self.subscriptions[name] = subscription
        return subscription

    async def create_subscription(self, name: str, start: Position, properties: dict[str, str] | None = None) -> Subscription:
        """A durable subscription whose first entry is at `start` (`EARLIEST`, `LATEST`, or that entry). Raises `MetaConflict`."""
        mark_delete = self.mark_delete_for(start)
        record = await self.services.storage.meta.create_subscription(
            self.text, name, created_ms=self.services.clock_ms(), mark_delete=mark_delete, properties=properties or {}
        )
        if name in self.subscriptions:  # two came at once; the store let only one through, so this is a non-durable one
            raise MetaConflict(name)
        return self._new_subscription(name, Cursor(mark_delete), record.subscription_id, record.properties)

    def create_reader(self, name: str, start: Position) -> Subscription:
        """A subscription that is not durable: it lives as long as its consumer."""
        return self._new_subscription(name, Cursor(self.mark_delete_for(start)), 0, {})

    def mark_delete_for(self, start: Position) -> Position:
        """The mark-delete position that makes `start` the first entry read."""
        if start == LATEST:
            return self.chain.last
        if start == EARLIEST:
            return self.chain.before(self.chain.first)
        return (
            min(Position(start.ledger_id, start.entry_id - 1), self.chain.last) if start.entry_id > 0 else self.chain.before(start)
        )

    def subscription(self, name: str) -> Subscription:
        try:
            return self.subscriptions[name]
        except KeyError:
            raise SubscriptionNotFound(f"topic {self.text} has no subscription {name!r}") from None

    async def delete_subscription(self, name: str) -> None:
        subscription = self.subscriptions.pop(name, None)
        if subscription is None:
            return
        self.close_consumers(subscription)
        if subscription.durable:
            await self.services.storage.meta.delete_subscription(self.text, name)

    def detach(self, subscription: Subscription, consumer: Consumer) -> None:
        subscription.detach(consumer)
        if not subscription.consumers:
            self._fetched.pop(subscription, None)
            self.drop_if_idle(subscription)
        self.dispatch(subscription)

    def drop_if_idle(self, subscription: Subscription) -> None:
        """A subscription that is not durable ends with its last consumer (but not while a seek has closed it for a moment)."""
        if not (subscription.durable or subscription.consumers or subscription.fenced):
            if self.subscriptions.get(subscription.name) is subscription:
                del self.subscriptions[subscription.name]

    async def seek(self, subscription: Subscription, mark_delete: Position) -> None:
        """Moves a subscription so that it reads on after `mark_delete`. Returns when that is durable.

        Its consumers are closed and connect again. Raises `ConsumerBusy` while another seek runs, `StorageFailed`."""
        if subscription.fenced:
            raise ConsumerBusy(f"subscription {subscription.name!r} is being moved by another seek: try again")
        subscription.fenced = True
        try:
            self.close_consumers(subscription)
            stored: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
            self.store(subscription, subscription.reset(mark_delete), stored.set_result)
            error = await stored
            if error is not None:
                raise StorageFailed(f"the seek of subscription {subscription.name!r} is not stored: {error}")
        finally:
            subscription.fenced = False
            if not subscription.durable:
                asyncio.get_running_loop().call_later(SEEK_RETURN_S, self.drop_if_idle, subscription)

    def close_consumers(self, subscription: Subscription) -> None:
        for consumer in list(subscription.consumers):
            subscription.detach(consumer)
            consumer.sink.closed(consumer)
        self._fetched.pop(subscription, None)

    def store(self, subscription: Subscription, delta: bytes, done: Callable[[StoreError | None], None] | None = None) -> None:
        """Makes a cursor's change durable; `done` (if any) runs when it is, at once where there is nothing to store."""
        if delta and subscription.durable:
            self.services.cursors.append(subscription.subscription_id, delta, done)
        elif done is not None:
            done(None)

    # --- socket to log

    def publish(self, producer: Producer, buf: bytes, sent: list[Sent], message_count: int) -> int:
        """Appends one block of a producer; receipts come through its sink. Returns the bytes appended.

        Raises `StoreError` where the log takes nothing: the topic then has to be opened again."""
        now_ms = self.services.clock_ms()
        data, stops = for_log(buf, sent)
        size = stops[-1]
        if len(buf) > 4 * size:  # a few frames of a large read: do not keep the whole read for them
            buf, sent = _repack(bytes(data), sent, stops)
            data = buf
        header = header_of(sent, producer.name_bytes, now_ms, message_count)
        producer.pending_blocks += 1

        def confirmed(error: StoreError | None) -> None:
            self._confirmed(producer, first, buf, sent, size, now_ms, message_count, error)

        try:
            first = self.ledger.append(header, data, stops, confirmed)
        except StoreError:
            producer.pending_blocks -= 1
            raise
        return size

    def _confirmed(
        self,
        producer: Producer,
        first: Position,
        buf: bytes,
        sent: list[Sent],
        size: int,
        now_ms: int,
        message_count: int,
        error: StoreError | None,
    ) -> None:
        producer.pending_blocks -= 1
        producer.sink.settled(size)
        if producer.on_drained is not None and not producer.pending_blocks:
            # After this call has sent the receipts.
            asyncio.get_running_loop().call_soon(producer.on_drained)
        if error is not None:
            self._fail(error)
            return
        block = EntryBlock(first.ledger_id, first.entry_id, buf, sent, now_ms, message_count)
        self.tail.add(block)
        self.messages_in += message_count
        self.bytes_in += block.payload_bytes
        producer.messages_in += message_count
        producer.bytes_in += block.payload_bytes
        self.last_published_ms = now_ms
        if not producer.closed:
            producer.sink.receipts(producer, sent, first)
        self.services.active(self)
        for subscription in self.subscriptions.values():
            if subscription.consumers:
                self.dispatch(subscription)

    def _fail(self, error: StoreError) -> None:
        if self.closed is None:
            self.services.failed(self, StorageFailed(f"topic {self.text} could not store messages: {error}"))

    # --- log to sockets

    def dispatch(self, subscription: Subscription) -> None:
        """Hands out what can be handed out now. Safe to call at any time."""
        for _ in range(DISPATCH_BLOCKS_MAX):
            if self.terminated:
                self._tell_end(subscription)
            if not subscription.wants() or self.closed is not None:
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

    @property
    def terminated(self) -> bool:
        return self.ledger.record.terminated_at is not None

    def _tell_end(self, subscription: Subscription) -> None:
        if subscription.backlog_entries:
            return
        for consumer in subscription.consumers:
            if not consumer.end_told:
                consumer.end_told = True
                consumer.sink.end_of_topic(consumer)

    def _carry_out(self, subscription: Subscription, assigned: Assigned) -> None:
        for consumer, block, first, last, redeliveries in assigned.deliveries:
            size = consumer.sink.deliver(consumer, block, first, last, redeliveries)
            consumer.bytes_out += size
            subscription.bytes_out += size
            self.bytes_out += size
            self.messages_out += block.messages_in(first, last)
        for delta in assigned.deltas:
            self.store(subscription, delta)

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
        task = asyncio.get_running_loop().create_task(self._read(subscription, position), name=f"catch up {self.text}")
        self._fetches.add(task)
        task.add_done_callback(self._fetches.discard)

    async def _read(self, subscription: Subscription, position: Position) -> None:
        try:
            blocks = await self.ledger.read(position, entries_max=CATCH_UP_ENTRIES, bytes_max=CATCH_UP_BYTES)
            self._fetched[subscription] = [from_log(block) for block in blocks]
        except Corrupt as error:
            log.error("entry.corrupt", topic=self.text, ledger_id=error.ledger_id, entry_id=error.entry_id, error=str(error))
            subscription.skip_to(Position(error.ledger_id, error.entry_id + 1))
        except (StoreError, ValueError) as error:
            log.error("read.failed", topic=self.text, position=str(position), error=str(error))
            asyncio.get_running_loop().call_later(1.0, self.dispatch, subscription)
            return
        finally:
            subscription.reading = False
        self.dispatch(subscription)

    # --- the end

    async def close(self, why: MagnetarError) -> None:
        """Closes producers and consumers, then the ledger; saves every cursor. The topic is not used again."""
        if self.closed is not None:
            return
        self.closed = why
        for producer in self.producers:
            producer.closed = True
            self.producers.detach(producer)
            producer.sink.closed(producer)
        for subscription in list(self.subscriptions.values()):
            self.close_consumers(subscription)
        for task in list(self._fetches):
            task.cancel()
        self.tail.clear()
        await self.ledger.close()
        await self.services.storage.meta.save_cursors(
            [state for state in (snapshot(one) for one in self.subscriptions.values()) if state]
        )

    async def terminate(self) -> Position:
        """No message is taken after this one. Returns the last position."""
        record = self.ledger.record
        last = self.chain.last
        self.ledger.record = await self.services.storage.meta.cas_topic(_terminated(record, last))
        for producer in self.producers:
            producer.closed = True
            self.producers.detach(producer)
            producer.sink.closed(producer)
        for subscription in self.subscriptions.values():
            self.dispatch(subscription)
        return last

    def check_writable(self) -> None:
        if self.terminated:
            raise TopicTerminated(
                f"topic {self.text} was terminated at {self.ledger.record.terminated_at}: it takes no more messages"
            )


def snapshot(subscription: Subscription) -> tuple[int, Position, bytes] | None:
    """What MetaStore keeps of a cursor; None for one that is not durable."""
    if not subscription.durable:
        return None
    return subscription.subscription_id, subscription.cursor.mark_delete, subscription.cursor.snapshot()


def _terminated(record: TopicRecord, last: Position) -> TopicRecord:
    return replace(record, terminated_at=last)


def _repack(data: bytes, sent: list[Sent], stops: array[int]) -> tuple[bytes, list[Sent]]:
    """The same entries over `data`, which holds them back to back."""
    moved, start = [], 0
    for one, stop in zip(sent, stops, strict=True):
        moved.append((one[0], one[1], start, start + one[3] - one[2], stop, one[5], one[6], one[7]))
        start = stop
    return data, moved
