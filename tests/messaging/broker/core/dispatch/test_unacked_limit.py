"""The bound on unacknowledged messages is a Shared consumer's; it must never hold up the single reader of the other types."""

from __future__ import annotations

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.managed.ledger_list import LedgerList
from tests.support.worlds.subscription_world import World, received

BATCH = 100
UNACKED_MAX = 1_000


class Sink:
    writable = True

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, redelivery_counts: list[int] | None) -> int:
        return 0

    def deliver_picked(self, consumer: Consumer, block: EntryBlock, picked: list[int], redelivery_counts: list[int] | None) -> int:
        return 0

    def active_changed(self, consumer: Consumer, active: bool) -> None: ...

    def end_of_topic(self, consumer: Consumer) -> None: ...

    def closed(self, consumer: Consumer) -> None: ...


def entries_of_batches(count: int) -> EntryBlock:
    return EntryBlock(7, 0, b"x" * count, range(1, count + 1), 1, count * BATCH, counts=[BATCH] * count)


@pytest.mark.parametrize("kind", [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER])
def test_acknowledged_batches_never_block_a_single_reader(kind: SubscriptionType) -> None:
    count = 50  # five times the bound in messages, all acknowledged as they come
    ledger_list = LedgerList([(7, count - 1)])
    subscription = Subscription("s", Cursor(), ledger_list, unacked_max=UNACKED_MAX)
    consumer = Consumer(1, "c", Sink())
    subscription.attach(consumer, kind)
    block = entries_of_batches(count)
    received = 0
    for _ in range(count):
        consumer.permits = BATCH
        due = subscription.next_due()
        assert due is not None, f"nothing to read after {received} of {count} entries"
        assert subscription.can_dispatch()
        for delivery in subscription.assign(due[0], block, due[1], block.last_entry, 0, 0).deliveries:
            assert subscription.unacked_of(consumer) == 1
            for index in range(delivery.first, delivery.last):
                subscription.acknowledge(consumer, 7, [block.first_entry + index], 0)
                received += 1
    assert received == count
    assert subscription.unacked_of(consumer) == 0
    assert subscription.backlog_entries == 0


def test_a_shared_consumer_is_held_at_the_bound_and_goes_on_when_it_acknowledges() -> None:
    ledger_list = LedgerList([(7, 49)])
    subscription = Subscription("s", Cursor(), ledger_list, unacked_max=UNACKED_MAX)
    consumer = Consumer(1, "c", Sink())
    subscription.attach(consumer, SubscriptionType.SHARED)
    consumer.permits = 1_000_000
    block = entries_of_batches(50)
    due = subscription.next_due()
    assert due is not None
    first = subscription.assign(due[0], block, due[1], block.last_entry, 0, 0)
    assert sum(delivery.last - delivery.first for delivery in first.deliveries) == UNACKED_MAX // BATCH
    assert consumer.blocked
    assert not subscription.can_dispatch()
    subscription.acknowledge(consumer, 7, [0, 1, 2, 3], 0)
    assert not subscription.can_dispatch(), "more than half of the limit is left"
    subscription.acknowledge(consumer, 7, [4], 0)
    assert subscription.unacked_of(consumer) == UNACKED_MAX // 2
    assert subscription.can_dispatch()


def test_all_consumers_together_are_held_at_the_limit_of_the_subscription() -> None:
    world = World(unacked_max=0, unacked_of_all_max=10)
    consumers = [world.attach(SubscriptionType.SHARED, permits=100) for _ in range(3)]
    world.publish([1] * 30)
    positions_of = {consumer: received(consumer) for consumer in consumers}
    assert world.subscription.unacked.blocked
    assert sum(map(len, positions_of.values())) == 10
    everything = [(holder, position) for holder, positions in positions_of.items() for position in positions]
    for holder, position in everything[:4]:
        world.ack(holder, position)
    assert world.subscription.unacked.blocked
    world.ack(*everything[4])
    assert sum(len(received(consumer)) for consumer in consumers) == 5, "half of them is left, and five more make ten"


def test_partial_acknowledgements_lower_what_is_held_and_free_the_consumer() -> None:
    world = World(unacked_max=10)
    consumer = world.attach(SubscriptionType.SHARED, permits=100)
    other = world.attach(SubscriptionType.SHARED)
    (first, second) = world.publish([10, 10])
    assert received(consumer) == [first]
    assert consumer.blocked
    world.subscription.acknowledge_batch(consumer, first, [0b11111_11100], 0)
    assert (consumer.unacked_messages, consumer.blocked) == (8, True)
    world.subscription.acknowledge_batch(other, first, [0b11111_00000], 0)
    assert (consumer.unacked_messages, consumer.blocked) == (5, False)
    world.dispatch()
    assert received(consumer) == [second]
    world.nack(consumer, first)
    assert consumer.unacked_messages == 10
    world.ack(consumer, second)
    assert consumer.unacked_messages == 5, "the five messages of the first batch that are left came again"
    world.ack(consumer, first)
    assert (consumer.unacked_messages, world.subscription.unacked.messages) == (0, 0)


def test_a_changed_limit_holds_at_once() -> None:
    world = World(unacked_max=0)
    consumer = world.attach(SubscriptionType.SHARED, permits=100)
    positions = world.publish([1] * 20)
    assert len(received(consumer)) == 20
    world.subscription.state.limit_unacked(10, 0)
    assert consumer.blocked
    world.publish([1])
    assert received(consumer) == []
    world.subscription.state.limit_unacked(0, 10)
    world.dispatch()
    assert world.subscription.unacked.blocked and not consumer.blocked
    assert received(consumer) == []
    world.subscription.state.limit_unacked(0, 0)
    world.dispatch()
    assert len(received(consumer)) == 1
    world.subscription.state.limit_unacked(1, 1)
    world.ack(consumer, *positions[:-1])
    world.publish([1])
    assert received(consumer) == []
    world.detach(consumer)
    assert not world.subscription.unacked.blocked, "what it held is nobody's now"
    assert len(received(world.attach(SubscriptionType.SHARED, permits=5))) == 1
