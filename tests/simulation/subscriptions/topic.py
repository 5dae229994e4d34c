"""A subscription, the real one, on a model of its topic: the log is a list of blocks, the time an argument, a crash a method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursor import Cursor
from messaging.broker.core.dead_letters import DeadLetterPolicy, DeadLetterRecord, DeadLetters
from messaging.broker.core.delayed.index import DelayedIndex, MemoryIndex
from messaging.broker.core.delayed.topic_delays import DelayPolicy, TopicDelays
from messaging.broker.core.dispatch import key_shared
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.key_shared_mode import KeySharedSettings
from messaging.broker.core.subscription import SeekTarget, Subscription
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList
from tests.simulation.checker import Violated
from tests.simulation.subscriptions.blocks import Draft, block_of
from tests.simulation.subscriptions.client import Sink, sink_of
from tests.simulation.subscriptions.cursor_log import CursorLog
from tests.simulation.subscriptions.model import Entry, Fate, Model

START_MS = 1_790_000_000_000
TICK_MS = 1_000
UNACKED_MAX, UNACKED_OF_ALL_MAX = 40, 70  # messages
LEDGER_ENTRIES = 120

Delivered = Callable[["Topic", Consumer, Entry, int], None]


class Topic:
    """`delivered` is told of each delivery before the model is."""

    def __init__(self, kind: SubscriptionType, random: Random, delivered: Delivered) -> None:
        self.kind = kind
        self.random = random
        self.model = Model()
        self.counts: Counter[str] = Counter()
        self.now_ms = START_MS
        self.ttl_ms = 0
        self.look_ahead = key_shared.LOOK_AHEAD_PER_CONSUMER
        self.policy = DelayPolicy(True, TICK_MS, random.random() < 0.5)
        self.redeliver_max: int | None = random.choice((None, 1, 3))
        self.partition = random.choice((-1, 0, 1))
        self.moving: list[Position] = []  # dead letters that are in the target and not acknowledged yet
        self.ledger_list = LedgerList([(1, -1)])
        self._consumer_ids = 0
        self._delivered = delivered
        self._log = CursorLog(random)
        self._begin(Cursor())

    def _begin(self, cursor: Cursor) -> None:
        index: DelayedIndex = MemoryIndex(self.policy.resolution_ms)
        self.delays = TopicDelays(index, lambda size: True)
        self.subscription = Subscription(
            "s",
            cursor,
            self.ledger_list,
            topic="persistent://t/n/a",
            partition=self.partition,
            unacked_max=UNACKED_MAX,
            unacked_of_all_max=UNACKED_OF_ALL_MAX,
            key_shared=KeySharedSettings(points=5),
        )
        self.limit_redeliveries(self.redeliver_max)

    @property
    def consumers(self) -> list[Consumer]:
        return list(self.subscription.consumers)

    # --- what is published

    def publish(self, drafts: Sequence[Draft]) -> None:
        """One block."""
        ledger_id, first = self.ledger_list.last_id, self.ledger_list.last_entry + 1
        block = block_of(drafts, Position(ledger_id, first), self.now_ms)
        for entry_id, one in enumerate(drafts, first):
            self._store(Position(ledger_id, entry_id), block, one)
        self.ledger_list.confirm(ledger_id, block.last_entry)
        if block.last_entry > LEDGER_ENTRIES:
            self.ledger_list.add(ledger_id + 1)
            self._drop_settled_ledgers()
        self.dispatch()

    def _store(self, position: Position, block: EntryBlock, draft: Draft) -> None:
        number = self.counts[f"of {draft.producer}"] = self.counts[f"of {draft.producer}"] + 1
        message = draft.chunk[0] if draft.chunk else 0
        if draft.chunk:
            self.model.messages.setdefault(message, (draft.chunk[2], []))[1].append(position)
        self.model.stored(Entry(position, block, draft.producer, number, draft.key, draft.size, self.now_ms, draft.due_ms, message))

    def _drop_settled_ledgers(self) -> None:
        while len(self.ledger_list.ids) > 2 and self.subscription.cursor.mark_delete.ledger_id > self.ledger_list.first_id:
            self.sync()
            self.model.drop(self.ledger_list.drop_first())
            self._log.begin_anew(self.subscription.cursor)

    # --- consumers

    def attach(self, *, priority: int = 0) -> Consumer:
        self._consumer_ids += 1
        consumer = Consumer(self._consumer_ids, f"c{self._consumer_ids}", Sink(self.deliver), priority=priority)
        active = self.subscription.active
        self.subscription.admit(consumer, self.kind)
        self.subscription.attach(consumer, self.kind)
        self._follow_active(active)
        self.dispatch()
        return consumer

    def detach(self, consumer: Consumer) -> None:
        active = self.subscription.active
        self.subscription.detach(consumer)
        self._left(consumer)
        self._follow_active(active)
        self.dispatch()

    def _left(self, consumer: Consumer) -> None:
        for position in self.model.held_by(consumer):
            del self.model.with_whom[position]
        if not self.subscription.consumers and self.redeliver_max is None:
            self.model.asked_again.clear()

    def _follow_active(self, before: Consumer | None) -> None:
        if self.subscription.active is not before:
            self.model.forget_holders()

    def flow(self, consumer: Consumer, permits: int) -> None:
        sink_of(consumer).permits += permits
        consumer.flow(permits, self.now_ms)
        self.dispatch()

    def readable(self, consumer: Consumer, readable: bool) -> None:
        sink_of(consumer).writable = readable
        consumer.wake()
        self.dispatch()

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None) -> None:
        """None: all that it holds."""
        model = self.model
        if self.subscription.active is None:
            for position in model.held_by(consumer) if positions is None else positions:
                if model.with_whom.get(position) is consumer:
                    del model.with_whom[position]
                    model.asked_again[position] = model.asked_again.get(position, 0) + 1
        elif consumer is self.subscription.active:
            model.forget_holders()
        self.subscription.redeliver(consumer, positions)
        self.dispatch()

    # --- what is settled

    def acknowledge(self, consumer: Consumer | None, positions: Sequence[Position], fate: Fate = Fate.ACKNOWLEDGED) -> None:
        for position in positions:
            delta = self.subscription.acknowledge(consumer, position.ledger_id, (position.entry_id,), self.now_ms)
            stored = self._log.append([delta])
            self.model.settle(self._settled_with(position), fate, stored)
        self.dispatch()

    def _settled_with(self, position: Position) -> list[Position]:
        """Of a chunked message all chunks in the same ledger go together."""
        cursor = self.subscription.cursor
        return [one for one in self.model.whole_messages([position]) if one == position or cursor.acknowledged(one)]

    def acknowledge_part(self, consumer: Consumer, position: Position, left: int) -> None:
        before = self.model.left.get(position, (1 << self.model.entries[position].size) - 1)
        delta = self.subscription.acknowledge_batch(consumer, position, [left], self.now_ms)
        stored = self._log.append([delta])
        if before & left:
            self.model.settle_part(position, before & left, stored)
        else:
            self.model.settle([position], Fate.ACKNOWLEDGED, stored)
        self.dispatch()

    def acknowledge_up_to(self, position: Position, fate: Fate) -> None:
        stored = self._log.append([self.subscription.acknowledge_up_to(position, self.now_ms)])
        self.model.settle([one for one in self.model.open if one <= position], fate, stored)
        self.dispatch()

    def seek(self, to: Position, words: int = 0) -> None:
        """After `to`; `words`: what stays open of the batch that follows it."""
        for consumer in self.consumers:
            self.subscription.detach(consumer)
        following = self.ledger_list.next_after(to)
        target = SeekTarget(to, following, (words,)) if words else SeekTarget(to)
        stored = self._log.append(self.subscription.reset(target))
        self.model.seek(to, stored)
        if words:
            self.model.settle_part(following, words, stored)
        self.moving.clear()
        self.sync()

    def expire_chunks(self, silent_ms: int) -> list[Position]:
        found = self.subscription.state.unfinished_chunks(self.now_ms, silent_ms)
        broken = [one for one in found if one in self.model.open and self._can_be_whole(self.model.entries[one].message)]
        if broken:
            raise Violated(f"{broken} are chunks of a message that is stored as a whole, and were given up")
        self.acknowledge(None, found, Fate.EXPIRED)
        return found

    def _can_be_whole(self, message: int) -> bool:
        dead = self.subscription.state.redeliveries.is_dead
        return self.model.is_whole(message) and not any(dead(one) for one in self.model.messages[message][1])

    # --- dead letters: in the target first, then acknowledged

    def limit_redeliveries(self, count_max: int | None) -> None:
        self.redeliver_max = count_max
        record = None if count_max is None else DeadLetterRecord(1, DeadLetterPolicy("p", count_max, "persistent://t/n/d", "o", ""))
        self.subscription.follow_dead_letters(None if record is None else DeadLetters(record))
        self.dispatch()

    def begin_move(self, count: int) -> None:
        found = self.subscription.state.redeliveries.first_dead(count)
        for position in found:
            if position not in self.model.open:
                raise Violated(f"{position} goes to the dead letters and is not in the backlog")
            self.model.target[position] += 1
        self.moving = found

    def end_move(self) -> None:
        moved, self.moving = self.moving, []
        self.acknowledge(None, moved, Fate.DEAD_LETTERED)
        self.sync()  # what was being moved is forgotten when this is durable

    # --- time, storage, crashes

    def pass_time(self, time_ms: int) -> None:
        self.now_ms += time_ms
        self.delays.advance(self.now_ms, self.policy)
        self.dispatch()

    def sync(self) -> None:
        """All changes so far are durable."""
        self._log.sync(self.subscription.cursor)

    def crash(self) -> None:
        """Consumers are gone."""
        for stored in self._log.lose():
            self.model.take_back(stored)
        self.model.asked_again.clear()
        self.model.forget_holders()
        self._begin(self._log.restore(self.ledger_list))
        self.sync()
        if self.moving:
            self.end_move()

    # --- dispatching

    @property
    def expired_before_ms(self) -> int:
        return self.now_ms - self.ttl_ms if self.ttl_ms else 0

    def dispatch(self) -> None:
        """The loop of the topic. Each turn has to make progress."""
        subscription = self.subscription
        for _ in range(10_000):
            if not subscription.can_dispatch() or (due := subscription.next_due()) is None:
                return
            source, position = due
            if position not in self.model.entries:
                raise Violated(f"{position} was asked for and does not exist")
            block = self.model.entries[position].block
            if block.deliver_at_ms is not None and subscription.delays:
                if subscription.state.delays is None:
                    subscription.state.use_delays(self.delays)
                self.delays.advance(self.now_ms, self.policy)
            made = subscription.assign(source, block, position, block.last_entry, self.expired_before_ms, self.now_ms)
            if subscription.state.delayed is not None:
                self.delays.count(subscription.state.delayed)
            if made.deltas:
                self._expired(block, made.deltas, made.expired_entries)
            for consumer, given, first, last, counts, _, picked in made.deliveries:
                sink_of(consumer).deliver_picked(consumer, given, picked or list(range(first, last)), counts)
            if not made.more:
                return
        raise Violated(f"dispatching does not end: it stands at {subscription.next_due()}")

    def _expired(self, block: EntryBlock, deltas: Sequence[bytes], count: int) -> None:
        positions = [Position(block.ledger_id, entry) for entry in range(block.first_entry, block.last_entry + 1)]
        found = [one for one in positions if one in self.model.open and self.subscription.cursor.acknowledged(one)]
        if block.broker_time_ms >= self.expired_before_ms or len(found) != count:
            raise Violated(f"{found} were acknowledged as expired; {count} are said to be")
        self.model.settle(found, Fate.EXPIRED, self._log.append(deltas))

    def deliver(self, consumer: Consumer, position: Position, count: int) -> None:
        model = self.model
        if position not in model.entries:
            raise Violated(f"{consumer.name} was sent {position}, which does not exist")
        entry = model.entries[position]
        self._delivered(self, consumer, entry, count)
        self.counts["deliveries"] += 1
        sink_of(consumer).permits -= model.unacked_in(entry)
        model.with_whom[position] = consumer
        if self.subscription.active is not None:
            model.reached = position
            model.numbers[entry.producer] = entry.number
