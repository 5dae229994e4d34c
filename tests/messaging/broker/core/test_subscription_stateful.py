"""Anything that may happen to a subscription, in any order: nothing is lost, doubled without cause, or ever stuck."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import EARLIEST, Position
from tests.support.subscription_world import World, counted

PICK = st.integers(0, 10_000)


class SubscriptionMachine(RuleBasedStateMachine):
    kind: SubscriptionType

    @initialize(partition=st.integers(-1, 3))
    def begin(self, partition: int) -> None:
        self.world = World(partition=partition, unacked_max=40, unacked_of_all_max=70)
        self.sizes: dict[Position, int] = {}
        self.acked: set[Position] = set()
        self.with_whom: dict[Position, Consumer] = {}  # Shared: sent and not given back
        self.asked_again: dict[Position, int] = {}
        self.left: dict[Position, int] = {}  # of partly acknowledged batches, as the bits of an ack set
        self.reached: Position | None = None  # single reader: the last entry sent since reading began anew

    # --- what a topic and its clients do

    @rule(sizes=st.lists(st.sampled_from([1, 1, 1, 2, 7]), min_size=1, max_size=30))
    def publish(self, sizes: list[int]) -> None:
        ledger, first = self.world.ledger_list.ids[-1], self.world.ledger_list.lasts[-1] + 1
        self.sizes.update({Position(ledger, first + index): size for index, size in enumerate(sizes)})
        self.world.publish(sizes)
        self.look()

    @rule()
    def roll(self) -> None:
        self.world.roll()

    @rule(permits=st.integers(0, 60), priority=st.integers(0, 1))
    def attach(self, permits: int, priority: int) -> None:
        if self.kind is SubscriptionType.EXCLUSIVE and self.world.subscription.consumers:
            return
        if len(self.world.subscription.consumers) < 4:
            self.changing(lambda: self.world.attach(self.kind, permits, priority=priority))

    @rule(pick=PICK)
    def detach(self, pick: int) -> None:
        consumer = self.consumer(pick)
        if consumer is None:
            return
        self.with_whom = {position: whom for position, whom in self.with_whom.items() if whom is not consumer}
        if len(self.world.subscription.consumers) == 1:
            self.asked_again.clear()
        self.changing(lambda: self.world.detach(consumer))

    @rule(pick=PICK, permits=st.integers(1, 60))
    def flow(self, pick: int, permits: int) -> None:
        consumer = self.consumer(pick)
        if consumer is not None:
            self.world.flow(consumer, permits)
            self.look()

    @rule(pick=PICK, readable=st.booleans())
    def peer_reads(self, pick: int, readable: bool) -> None:
        consumer = self.consumer(pick)
        if consumer is not None:
            consumer.sink.writable = readable  # type: ignore[misc]
            self.world.dispatch()
            self.look()

    @rule(pick=PICK, entries=st.lists(PICK, min_size=1, max_size=20))
    def acknowledge(self, pick: int, entries: list[int]) -> None:
        consumer = self.consumer(pick)
        exist = list(self.sizes)
        if consumer is None or not exist:
            return
        chosen = [exist[index % len(exist)] for index in entries]
        self.forget(chosen)
        self.world.ack(consumer, *chosen)
        self.look()

    @rule(pick=PICK, entry=PICK, words=st.integers(1, 127))
    def acknowledge_part(self, pick: int, entry: int, words: int) -> None:
        consumer = self.consumer(pick)
        batches = [position for position, size in self.sizes.items() if size > 1 and position not in self.acked]
        if consumer is None or not batches:
            return
        position = batches[entry % len(batches)]
        every = (1 << self.sizes[position]) - 1
        left = self.left.get(position, every) & words
        if left:
            self.left[position] = left
        else:
            self.forget([position])
        self.world.subscription.acknowledge_batch(consumer, position, [words & every], 0)
        self.world.dispatch()
        self.look()

    @rule(pick=PICK)
    def acknowledge_all_sent(self, pick: int) -> None:
        consumer = self.consumer(pick)
        if consumer is None:
            return
        reached = self.reached
        chosen = [position for position in self.sizes if self.with_whom.get(position) or (reached and position <= reached)]
        self.forget(chosen)
        self.world.ack(consumer, *chosen)
        self.look()

    @rule(pick=PICK)
    def acknowledge_up_to(self, pick: int) -> None:
        exist = list(self.sizes)
        if exist:
            to = exist[pick % len(exist)]
            self.forget([position for position in exist if position <= to])
            self.world.subscription.acknowledge_up_to(to, 0)
            self.world.dispatch()
            self.look()

    @rule(pick=PICK, entries=st.lists(PICK, max_size=6))
    def ask_again(self, pick: int, entries: list[int]) -> None:
        """No entries: all that the consumer holds."""
        consumer = self.consumer(pick)
        exist = list(self.sizes)
        if consumer is None or not exist:
            return
        chosen = [exist[index % len(exist)] for index in entries]
        if self.kind is SubscriptionType.SHARED:
            for position in set(chosen) if chosen else list(self.with_whom):
                if self.with_whom.get(position) is consumer:
                    del self.with_whom[position]
                    self.asked_again[position] = self.asked_again.get(position, 0) + 1
        elif consumer is self.world.subscription.active:
            self.reached = None
        self.world.nack(consumer, *chosen)
        self.look()

    @rule(pick=PICK, earliest=st.booleans())
    def seek(self, pick: int, earliest: bool) -> None:
        """As the topic does it: consumers are gone first."""
        exist = list(self.sizes)
        to = EARLIEST if earliest or not exist else exist[pick % len(exist)]
        for consumer in list(self.world.subscription.consumers):
            self.world.subscription.detach(consumer)
        self.world.subscription.reset(SeekTarget(to))
        self.acked = {position for position in exist if position <= to}
        self.with_whom.clear()
        self.asked_again.clear()
        self.left.clear()
        self.reached = None
        self.look()

    @rule(consumer_max=st.sampled_from([0, 1, 5, 40, 10**6]), subscription_max=st.sampled_from([0, 1, 5, 70, 10**6]))
    def limits_change(self, consumer_max: int, subscription_max: int) -> None:
        self.world.subscription.state.limit_unacked(consumer_max, subscription_max)
        self.world.dispatch()
        self.look()

    # --- what must hold

    def consumer(self, pick: int) -> Consumer | None:
        consumers = list(self.world.subscription.consumers)
        return consumers[pick % len(consumers)] if consumers else None

    def unacked_in(self, position: Position) -> int:
        left = self.left.get(position)
        return self.sizes[position] if left is None else left.bit_count()

    def forget(self, positions: list[Position]) -> None:
        self.acked.update(positions)
        for position in positions:
            self.with_whom.pop(position, None)
            self.left.pop(position, None)
            self.asked_again.pop(position, None)

    def changing(self, act: Callable[[], object]) -> None:
        """Consumers come or go: a single reader begins anew where another one became active."""
        before = self.world.subscription.active
        # The active consumer changes before anything is sent, so what is sent belongs to the new reading.
        subscription = self.world.subscription
        dispatch, self.world.dispatch = self.world.dispatch, lambda: None  # type: ignore[method-assign]
        try:
            act()
        finally:
            self.world.dispatch = dispatch  # type: ignore[method-assign]
        if subscription.active is not before:
            self.reached = None
        self.world.dispatch()
        self.look()

    def look(self) -> None:
        """Every delivery had a cause."""
        for consumer in self.world.subscription.consumers:
            for position, count in counted(consumer):
                assert position in self.sizes
                assert position not in self.acked, f"{position} was acknowledged and came again"
                if self.kind is SubscriptionType.SHARED:
                    assert position not in self.with_whom, f"{position} came while another consumer holds it"
                    self.with_whom[position] = consumer
                    assert count == self.asked_again.get(position, 0)
                else:
                    assert consumer is self.world.subscription.active
                    assert self.reached is None or position > self.reached, f"{position} came again or out of order"
                    self.reached = position
                    assert count == 0

    @invariant()
    def is_never_stuck(self) -> None:
        if not hasattr(self, "world"):
            return
        subscription = self.world.subscription
        if not subscription.can_dispatch():
            return
        assert subscription.next_due() is None
        left = [position for position in self.sizes if position not in self.acked and position not in self.with_whom]
        if self.kind is not SubscriptionType.SHARED:
            left = [position for position in left if self.reached is None or position > self.reached]
        assert left == [], "a consumer wants messages, and these are sent to nobody"

    @invariant()
    def counts_what_is_held(self) -> None:
        if not hasattr(self, "world"):
            return
        subscription = self.world.subscription
        assert subscription.backlog_entries == len(self.sizes) - len(self.acked)
        unacked = subscription.unacked
        assert unacked.messages == sum(one.unacked_messages for one in subscription.consumers)
        assert unacked.blocked or unacked.messages < unacked.subscription_max
        assert not unacked.blocked or unacked.messages > unacked.subscription_max // 2, "it could never be blocked without an end"
        for consumer in subscription.consumers:
            held = [position for position, whom in self.with_whom.items() if whom is consumer]
            if self.kind is SubscriptionType.SHARED:
                assert consumer.unacked_messages == sum(self.unacked_in(position) for position in held)
                assert consumer.blocked or consumer.unacked_messages < subscription.unacked.consumer_max
                assert not consumer.blocked or consumer.unacked_messages > subscription.unacked.consumer_max // 2
                entries = {Position(ledger, entry) for ledger, bitmap in consumer.held.items() for entry in bitmap}
                assert entries == set(held)

    def teardown(self) -> None:
        """In the end somebody who takes everything gets everything."""
        if not hasattr(self, "world"):
            return
        for consumer in list(self.world.subscription.consumers):
            self.world.subscription.detach(consumer)
        self.with_whom.clear()
        last = self.world.attach(self.kind)
        self.world.subscription.state.limit_unacked(0, 0)
        self.world.flow(last, 10**6)
        assert [position for position, _ in counted(last)] == [position for position in self.sizes if position not in self.acked]


class SharedMachine(SubscriptionMachine):
    kind = SubscriptionType.SHARED


class FailoverMachine(SubscriptionMachine):
    kind = SubscriptionType.FAILOVER


class ExclusiveMachine(SubscriptionMachine):
    kind = SubscriptionType.EXCLUSIVE


TestShared = SharedMachine.TestCase
TestFailover = FailoverMachine.TestCase
TestExclusive = ExclusiveMachine.TestCase
for case in (TestShared, TestFailover, TestExclusive):
    case.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
