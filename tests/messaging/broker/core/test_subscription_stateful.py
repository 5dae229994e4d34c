"""Anything that may happen to a subscription, in any order: nothing is lost, doubled without cause, or ever stuck."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from tests.support.examples import examples
from tests.support.subscription_machine import PICK, AnySubscription
from tests.support.worlds.subscription_world import World, counted


class SubscriptionMachine(AnySubscription):
    kind: SubscriptionType

    @initialize(partition=st.integers(-1, 3))
    def begin(self, partition: int) -> None:
        self.begin_in(World(partition=partition, unacked_max=40, unacked_of_all_max=70))
        self.bits_left: dict[Position, int] = {}  # of partly acknowledged batches, as the bits of an ack set
        self.reached: Position | None = None  # single reader: the last entry sent since reading began anew

    # --- what a topic and its clients do

    @rule(sizes=st.lists(st.sampled_from([1, 1, 1, 2, 7]), min_size=1, max_size=30))
    def publish(self, sizes: list[int]) -> None:
        self.sizes.update(zip(self.next_positions(len(sizes)), sizes, strict=True))
        self.world.publish(sizes)
        self.look()

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

    @rule(pick=PICK, entry=PICK, words=st.integers(1, 127))
    def acknowledge_part(self, pick: int, entry: int, words: int) -> None:
        consumer = self.consumer(pick)
        batches = [position for position, size in self.sizes.items() if size > 1 and position not in self.acked]
        if consumer is None or not batches:
            return
        position = batches[entry % len(batches)]
        every = (1 << self.sizes[position]) - 1
        left = self.bits_left.get(position, every) & words
        if left:
            self.bits_left[position] = left
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

    @rule(consumer_max=st.sampled_from([0, 1, 5, 40, 10**6]), subscription_max=st.sampled_from([0, 1, 5, 70, 10**6]))
    def limits_change(self, consumer_max: int, subscription_max: int) -> None:
        self.world.subscription.state.limit_unacked(consumer_max, subscription_max)
        self.world.dispatch()
        self.look()

    # --- what must hold

    def unacked_in(self, position: Position) -> int:
        left = self.bits_left.get(position)
        return self.sizes[position] if left is None else left.bit_count()

    def forget(self, positions: list[Position]) -> None:
        super().forget(positions)
        for position in positions:
            self.bits_left.pop(position, None)

    def given_back(self, consumer: Consumer, positions: list[Position]) -> None:
        if self.kind is SubscriptionType.SHARED:
            super().given_back(consumer, positions)
        elif consumer is self.world.subscription.active:
            self.reached = None

    def begun_anew(self) -> None:
        super().begun_anew()
        self.bits_left.clear()
        self.reached = None

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
        if not self.begun:
            return
        subscription = self.world.subscription
        if not subscription.can_dispatch():
            return
        assert subscription.next_due() is None
        unsent = [position for position in self.left if position not in self.with_whom]
        if self.kind is not SubscriptionType.SHARED:
            unsent = [position for position in unsent if self.reached is None or position > self.reached]
        assert unsent == [], "a consumer wants messages, and these are sent to nobody"

    @invariant()
    def counts_what_is_held(self) -> None:
        if not self.begun:
            return
        subscription = self.world.subscription
        assert subscription.backlog_entries == len(self.sizes) - len(self.acked)
        unacked = subscription.unacked
        assert unacked.messages == sum(consumer.unacked_messages for consumer in subscription.consumers)
        assert unacked.blocked or unacked.messages < unacked.subscription_max
        assert not unacked.blocked or unacked.messages > unacked.subscription_max // 2, "it could never be blocked without an end"
        for consumer in subscription.consumers:
            positions = [position for position, whom in self.with_whom.items() if whom is consumer]
            if self.kind is SubscriptionType.SHARED:
                assert consumer.unacked_messages == sum(self.unacked_in(position) for position in positions)
                assert consumer.blocked or consumer.unacked_messages < subscription.unacked.consumer_max
                assert not consumer.blocked or consumer.unacked_messages > subscription.unacked.consumer_max // 2
                entries = {Position(ledger, entry) for ledger, bitmap in consumer.held.items() for entry in bitmap}
                assert entries == set(positions)

    def teardown(self) -> None:
        """In the end somebody who takes everything gets everything."""
        if not self.begun:
            return
        self.detach_all()
        self.with_whom.clear()
        last = self.world.attach(self.kind)
        self.world.subscription.state.limit_unacked(0, 0)
        self.world.flow(last, 10**6)
        assert [position for position, _ in counted(last)] == self.left


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
    case.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
