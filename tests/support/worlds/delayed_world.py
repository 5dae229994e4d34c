"""Subscriptions of one topic that share its delayed messages, without a loop: time passes when a test says so, and timers run when
their time has come."""

from __future__ import annotations

from collections import defaultdict

from pyroaring import BitMap

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.delayed.changes import reached
from messaging.broker.core.delayed.index import DelayedIndex, MemoryIndex
from messaging.broker.core.delayed.overrides import Overrides, acknowledge_cancelled
from messaging.broker.core.delayed.topic_delays import DelayPolicy, TopicDelays
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList
from tests.support.run_disk import RunDisk

START_MS = 1_790_000_000_000
SEAL_ENTRIES = 7


class Sink:
    """Writes down what it is handed, and when."""

    def __init__(self, world: DelayedWorld) -> None:
        self.writable = True
        self.received: list[tuple[Position, int]] = []
        self._world = world

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, redelivery_counts: list[int] | None) -> int:
        for index in range(first, last):
            self.received.append((Position(block.ledger_id, block.first_entry + index), self._world.now_ms))
        return last - first

    def deliver_picked(self, consumer: Consumer, block: EntryBlock, picked: list[int], redelivery_counts: list[int] | None) -> int:
        return sum(self.deliver(consumer, block, index, index + 1, None) for index in picked)

    def active_changed(self, consumer: Consumer, active: bool) -> None: ...

    def end_of_topic(self, consumer: Consumer) -> None: ...

    def closed(self, consumer: Consumer) -> None: ...


class DelayedWorld:
    """`room`: bytes that the delayed messages may take. `stored`: the index is filled when they are published, and is kept in runs;
    else it is in memory, and filled by reading."""

    def __init__(self, *, tick_ms: int = 1000, strict: bool = False, room: int = 1 << 30, stored: bool = False) -> None:
        self.now_ms = START_MS
        self.stored = stored
        self.disk = RunDisk()
        self.policy = DelayPolicy(True, tick_ms, strict)
        self.room = room
        self.ledger_list = LedgerList([(1, -1)])
        self.blocks: list[EntryBlock] = []
        self.times: dict[Position, int] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.expired_before_ms = 0
        self.received: dict[str, list[tuple[Position, int]]] = defaultdict(list)  # of consumers that are gone
        self.delays = self._new_delays()
        self._ids = 0

    def _new_delays(self) -> TopicDelays:
        resolution_ms = self.policy.resolution_ms
        self.runs = self.disk.restored(resolution_ms, SEAL_ENTRIES) if self.stored else None
        index: DelayedIndex = MemoryIndex(resolution_ms) if self.runs is None else self.runs
        return TopicDelays(index, lambda size: self.delays.memory_bytes + size <= self.room)

    def work(self) -> None:
        """The index is stored as far as it asks for it."""
        if self.runs is not None:
            self.disk.work(self.runs, self.now_ms)

    # --- what happens

    def publish(self, after_ms: list[int | None]) -> list[Position]:
        """One block; for each entry how long after now it is to be delivered, or None."""
        ledger, first = self.ledger_list.ids[-1], self.ledger_list.lasts[-1] + 1
        times = [0 if after is None else max(1, self.now_ms + after) for after in after_ms]
        count = len(times)
        delayed = times if any(times) else None
        data = b"x" * count
        self.blocks.append(EntryBlock(ledger, first, data, range(1, count + 1), self.now_ms, count, deliver_at_ms=delayed))
        self.ledger_list.confirm(ledger, first + count - 1)
        positions = [Position(ledger, first + index) for index in range(count)]
        self.times.update(zip(positions, times, strict=True))
        if delayed and self.stored:
            self.delays.published(ledger, first, delayed, self.policy.cutoff_ms(self.now_ms))
        self.dispatch()
        return positions

    def roll(self) -> None:
        self.ledger_list.add(self.ledger_list.ids[-1] + 1)

    def drop_first_ledger(self) -> None:
        """Retention does not need it any more."""
        gone = self.ledger_list.drop_first()
        self.blocks = [block for block in self.blocks if block.ledger_id != gone]

    def subscribe(self, name: str) -> Subscription:
        self.subscriptions[name] = Subscription(name, Cursor(), self.ledger_list)
        self.acknowledge_cancelled(name)
        return self.subscriptions[name]

    def acknowledge_cancelled(self, name: str) -> None:
        """For a subscription that is new, was moved, or recovered."""
        if self.delays.overrides is not None:
            acknowledge_cancelled(self.delays.overrides, self.subscriptions[name].cursor, self.ledger_list)

    def unsubscribe(self, name: str) -> None:
        subscription = self.subscriptions.pop(name)
        for consumer in list(subscription.consumers):
            subscription.detach(consumer)
        if subscription.state.delayed is not None:
            self.delays.leave(subscription.state.delayed)

    def attach(self, name: str, permits: int, kind: SubscriptionType = SubscriptionType.SHARED) -> Consumer:
        self._ids += 1
        subscription = self.subscriptions.get(name) or self.subscribe(name)
        consumer = Consumer(self._ids, f"c{self._ids}", Sink(self))
        subscription.admit(consumer, kind)
        subscription.attach(consumer, kind)
        consumer.flow(permits, self.now_ms)
        self.dispatch()
        return consumer

    def detach(self, name: str, consumer: Consumer) -> None:
        self.received[name] += taken(consumer)
        self.subscriptions[name].detach(consumer)
        self.dispatch()

    def may_change(self, position: Position) -> bool:
        """Whether a delayed message may be cancelled or rescheduled."""
        block, overrides = self.block(position), self.delays.overrides
        if not self.times[position] or (overrides is not None and overrides.is_cancelled(position)):
            return False
        return not reached(self.subscriptions.values(), position, block.broker_time_ms)

    def cancel(self, positions: list[Position]) -> None:
        for ledger_id in {position.ledger_id for position in positions}:
            entries = BitMap([position.entry_id for position in positions if position.ledger_id == ledger_id])
            self.delays.cancel(ledger_id, entries)
            for subscription in self.subscriptions.values():
                subscription.acknowledge(None, ledger_id, list(entries), self.now_ms)
        self.wake()

    def reschedule(self, position: Position, after_ms: int) -> None:
        override = None if self.delays.overrides is None else self.delays.overrides.time_of(position)
        former_ms = self.times[position] if override is None else override.former_ms
        self.times[position] = max(1, self.now_ms + after_ms)
        self.delays.reschedule(position, self.times[position], former_ms)
        self.wake()

    def restart(self) -> None:
        """The broker is killed and starts again: cursors are what is left, and what was decided."""
        overrides, pending = self.delays.overrides, self.delays.index.pending
        self.delays = self._new_delays()
        if overrides is not None:
            overrides.forget(self.ledger_list, self.now_ms, pending)
            self.delays.restore(Overrides.decode(overrides.encode()))
        for name, before in list(self.subscriptions.items()):
            for consumer in before.consumers:
                self.received[name] += taken(consumer)
            self.subscriptions[name] = Subscription(
                name, Cursor.restore(before.cursor.mark_delete, before.cursor.snapshot()), self.ledger_list
            )
            self.acknowledge_cancelled(name)

    def pass_(self, time_ms: int) -> None:
        """Time passes; timers run on the way."""
        end_ms = self.now_ms + time_ms
        for _ in range(100_000):
            wake_ms = self.delays.wake_ms(self.now_ms, self.policy)
            if wake_ms is None or wake_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, wake_ms)
            self.wake()
        else:
            raise AssertionError("the timer never rests")
        self.now_ms = end_ms

    def wake(self) -> None:
        self.delays.advance(self.now_ms, self.policy)
        self.work()
        self.delays.advance(self.now_ms, self.policy)
        self.dispatch()

    # --- what the topic does

    def dispatch(self) -> None:
        for subscription in self.subscriptions.values():
            self._dispatch(subscription)

    def _dispatch(self, subscription: Subscription) -> None:
        for _ in range(10_000):
            if self.delays.index.pending and subscription.delays and subscription.state.delays is None:
                subscription.state.use_delays(self.delays)
            due = subscription.next_due() if subscription.can_dispatch() else None
            if due is None and subscription.unsettled:
                continue
            if due is None:
                return
            source, position = due
            block = self.block(position)
            if block.deliver_at_ms is not None and subscription.delays:
                if subscription.state.delays is None:
                    subscription.state.use_delays(self.delays)
                    continue
                self.delays.advance(self.now_ms, self.policy)
            assignment = subscription.assign(source, block, position, block.last_entry, self.expired_before_ms, self.now_ms)
            if subscription.state.delayed is not None:
                self.delays.count(subscription.state.delayed)
            for delivery in assignment.deliveries:
                picked = delivery.picked or list(range(delivery.first, delivery.last))
                delivery.consumer.sink.deliver_picked(delivery.consumer, delivery.block, picked, delivery.redelivery_counts)
            if not assignment.more:
                return
        raise AssertionError(f"dispatch does not end: it stands at {subscription.next_due()}")

    def block(self, position: Position) -> EntryBlock:
        for block in self.blocks:
            if block.ledger_id == position.ledger_id and block.first_entry <= position.entry_id <= block.last_entry:
                return block
        raise AssertionError(f"{position} was asked for and does not exist")


def taken(consumer: Consumer) -> list[tuple[Position, int]]:
    """Positions with the time of delivery, since this was last asked."""
    sink = consumer.sink
    assert isinstance(sink, Sink)
    received, sink.received = sink.received, []
    return received


def positions(consumer: Consumer) -> list[Position]:
    return [position for position, _ in taken(consumer)]
