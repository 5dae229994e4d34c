"""A subscription with its topic around it, without a loop: blocks are in memory, sinks write down what they are handed."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.dispatch.key_shared_mode import AUTO_SPLIT, DEFAULT_SETTINGS, KeySharedMode, KeySharedSettings
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList
from tests.support.clients.raw_client import batch_frame, send_frame


class Sink:
    def __init__(self) -> None:
        self.writable = True
        self.received: list[tuple[Position, int]] = []  # position, redelivery count
        self.active: list[bool] = []

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, redelivery_counts: list[int] | None) -> int:
        for index in range(first, last):
            count = redelivery_counts[index - first] if redelivery_counts else 0
            self.received.append((Position(block.ledger_id, block.first_entry + index), count))
        return last - first

    def deliver_picked(self, consumer: Consumer, block: EntryBlock, picked: list[int], redelivery_counts: list[int] | None) -> int:
        counts = redelivery_counts or [0] * len(picked)
        for index, count in zip(picked, counts, strict=True):
            self.received.append((Position(block.ledger_id, block.first_entry + index), count))
        return len(picked)

    def active_changed(self, consumer: Consumer, active: bool) -> None:
        self.active.append(active)

    def end_of_topic(self, consumer: Consumer) -> None: ...

    def closed(self, consumer: Consumer) -> None: ...


class World:
    """`publish` and `dispatch` do what the topic does."""

    def __init__(
        self,
        *,
        topic: str = "persistent://t/n/a",
        partition: int = -1,
        unacked_max: int = 50_000,
        unacked_of_all_max: int = 0,
        key_shared: KeySharedSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.ledger_list = LedgerList([(1, -1)])
        self.blocks: list[EntryBlock] = []
        self.subscription = Subscription(
            "s",
            Cursor(),
            self.ledger_list,
            topic=topic,
            partition=partition,
            unacked_max=unacked_max,
            unacked_of_all_max=unacked_of_all_max,
            key_shared=key_shared,
        )
        self.expired_before_ms = 0
        self.now_ms = 1_000
        self._ids = 0

    def publish(self, sizes: list[int], *, marker: bool = False) -> list[Position]:
        """One block; `sizes`: messages in each entry."""
        ledger = self.ledger_list.ids[-1]
        first = self.ledger_list.lasts[-1] + 1
        end_offsets = range(1, len(sizes) + 1)
        self.blocks.append(EntryBlock(ledger, first, b"x" * len(sizes), end_offsets, self.now_ms, sum(sizes), marker, sizes))
        self.ledger_list.confirm(ledger, first + len(sizes) - 1)
        self.dispatch()
        return [Position(ledger, first + index) for index in range(len(sizes))]

    def publish_keyed(self, keys: list[str], size: int = 1) -> list[Position]:
        """One block of entries of `size` messages each, with these keys."""
        ledger, first = self.ledger_list.ids[-1], self.ledger_list.lasts[-1] + 1
        payloads = [b"x"] * size
        entries = [send_frame(0, b"x", key=key) if size == 1 else batch_frame(0, payloads, key=key) for key in keys]
        end_offsets = array("I", accumulate(map(len, entries)))
        counts = [size] * len(keys)
        block = EntryBlock(ledger, first, b"".join(entries), end_offsets, self.now_ms, sum(counts), counts=counts)
        self.blocks.append(block)
        self.ledger_list.confirm(ledger, block.last_entry)
        self.dispatch()
        return [Position(ledger, first + index) for index in range(len(keys))]

    def roll(self) -> None:
        self.ledger_list.add(self.ledger_list.ids[-1] + 1)

    def attach(
        self,
        kind: SubscriptionType,
        permits: int = 0,
        *,
        name: str = "",
        priority: int = 0,
        key_shared: KeySharedMode = AUTO_SPLIT,
    ) -> Consumer:
        self._ids += 1
        consumer = Consumer(self._ids, name or f"c{self._ids}", Sink(), priority=priority)
        consumer.key_shared = key_shared
        self.subscription.admit(consumer, kind)
        self.subscription.attach(consumer, kind)
        if permits:
            self.flow(consumer, permits)
        return consumer

    def flow(self, consumer: Consumer, permits: int) -> None:
        consumer.flow(permits, self.now_ms)
        self.dispatch()

    def detach(self, consumer: Consumer) -> None:
        self.subscription.detach(consumer)
        self.dispatch()

    def ack(self, consumer: Consumer, *positions: Position) -> None:
        for position in positions:
            self.subscription.acknowledge(consumer, position.ledger_id, (position.entry_id,), self.now_ms)
        self.dispatch()

    def nack(self, consumer: Consumer, *positions: Position) -> None:
        self.subscription.redeliver(consumer, positions or None)
        self.dispatch()

    def dispatch(self) -> None:
        """The loop of the topic. Raises if it does not come to an end: every turn has to make progress."""
        for _ in range(10_000):
            if not self.subscription.can_dispatch():
                if self.subscription.unsettled:
                    continue
                return
            due = self.subscription.next_due()
            if due is None:
                return
            source, position = due
            read = self.block(position)
            assignment = self.subscription.assign(source, read, position, read.last_entry, self.expired_before_ms, self.now_ms)
            for consumer, block, first, last, redelivery_counts, _, picked in assignment.deliveries:
                if picked is None:
                    consumer.sink.deliver(consumer, block, first, last, redelivery_counts)
                else:
                    consumer.sink.deliver_picked(consumer, block, picked, redelivery_counts)
            if not assignment.more:
                return
        raise AssertionError(f"dispatch does not end: it stands at {self.subscription.next_due()}")

    def block(self, position: Position) -> EntryBlock:
        at = bisect_right(self.blocks, position, key=lambda block: Position(block.ledger_id, block.first_entry))
        block = self.blocks[at - 1] if at else None
        if block is not None and block.ledger_id == position.ledger_id and position.entry_id <= block.last_entry:
            return block
        raise AssertionError(f"{position} was asked for and does not exist")


def received(consumer: Consumer) -> list[Position]:
    """What came since this was last asked."""
    return [position for position, _ in counted(consumer)]


def counted(consumer: Consumer) -> list[tuple[Position, int]]:
    sink = consumer.sink
    assert isinstance(sink, Sink)
    taken, sink.received = sink.received, []
    return taken


def told(consumer: Consumer) -> list[bool]:
    """What Failover said since this was last asked: whether this consumer is active."""
    sink = consumer.sink
    assert isinstance(sink, Sink)
    taken, sink.active = sink.active, []
    return taken
