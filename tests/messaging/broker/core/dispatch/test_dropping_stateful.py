"""Random lives of a subscription of a non-persistent topic: every message is sent once or dropped, and nothing is remembered."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription_type import SubscriptionType
from tests.support.worlds.dropping_world import DroppingWorld

SINGLE = (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER)


class Dropping(RuleBasedStateMachine):
    @initialize(kind=st.sampled_from(list(SubscriptionType)))
    def begin(self, kind: SubscriptionType) -> None:
        self.kind = kind
        self.world = DroppingWorld()
        self.consumers: list[Consumer] = []
        self.messages = 0  # published
        self.owners: dict[str, Consumer] = {}  # of keys, as long as nobody came or left

    @rule(permits=st.integers(0, 30), priority=st.integers(0, 1))
    def attach(self, permits: int, priority: int) -> None:
        if not self.consumers or self.kind is not SubscriptionType.EXCLUSIVE:
            self.consumers.append(self.world.attach(self.kind, permits=permits, priority=priority))
            self.owners.clear()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        self.world.detach(consumer)
        self.owners.clear()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), permits=st.integers(1, 30))
    def flow(self, data: st.DataObject, permits: int) -> None:
        self.world.flow(data.draw(st.sampled_from(self.consumers)), permits)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), reads=st.booleans())
    def read(self, data: st.DataObject, reads: bool) -> None:
        self.world.read(data.draw(st.sampled_from(self.consumers)), reads)

    @rule(sizes=st.lists(st.sampled_from([1, 1, 1, 2, 5]), min_size=1, max_size=30), data=st.data())
    def publish(self, sizes: list[int], data: st.DataObject) -> None:
        keys = [data.draw(st.sampled_from("abcdefgh")) for _ in sizes]
        permits = {consumer: consumer.permits for consumer in self.consumers}
        reads = {consumer: self.world.sinks[consumer].writable for consumer in self.consumers}
        dropped = self.world.subscription.messages_dropped
        begin = self.world.published
        deliveries = self.world.publish(*sizes, keys=keys)
        self.messages += sum(sizes)
        given = [index for consumer in self.consumers for index in self.world.received[consumer] if index >= begin]
        assert len(given) == len(set(given))
        assert sum(sizes) - sum(sizes[index - begin] for index in given) == self.world.subscription.messages_dropped - dropped
        for delivery in deliveries:
            indexes = list(range(delivery.first, delivery.last)) if delivery.picked is None else delivery.picked
            assert reads[delivery.consumer] and permits[delivery.consumer] > 0
            assert permits[delivery.consumer] > sum(sizes[index] for index in indexes[:-1])
            assert delivery.consumer.permits == permits[delivery.consumer] - sum(sizes[index] for index in indexes)
            assert indexes == sorted(indexes)
            if self.kind is SubscriptionType.KEY_SHARED:
                assert all(self.owners.setdefault(keys[index], delivery.consumer) is delivery.consumer for index in indexes)
        if self.kind in SINGLE:
            assert {delivery.consumer for delivery in deliveries} <= {self.world.subscription.active}
        if len(given) < len(sizes) and self.kind is SubscriptionType.SHARED:
            assert not any(reads[consumer] and consumer.permits > 0 for consumer in self.consumers)
        if len(given) < len(sizes) and self.kind in SINGLE and (active := self.world.subscription.active) is not None:
            assert active.permits <= 0 or not reads[active]

    @invariant()
    def nothing_is_remembered(self) -> None:
        if hasattr(self, "world"):
            state = self.world.subscription.state
            assert not state.redeliveries.entries and state.chunks is None and state.delayed is None
            assert not state.cursor.individual_acks and state.cursor.memory_bytes == 0
            assert not any(consumer.held or consumer.unacked_messages or consumer.blocked for consumer in self.consumers)
            assert self.messages == self.world.subscription.messages_out + self.world.subscription.messages_dropped


TestDropping = Dropping.TestCase
