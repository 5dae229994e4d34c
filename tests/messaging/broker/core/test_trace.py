"""`passage_of`: what is known of a message in a subscription, and no more."""

from __future__ import annotations

from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.core.trace import DeliveryRecord, Event, Where, passage_of
from messaging.storage.ledger_store import Position
from tests.support.delayed_world import DelayedWorld
from tests.support.subscription_world import World

SHARED = SubscriptionType.SHARED


def test_from_not_sent_to_acknowledged() -> None:
    world = World()
    (entry,) = world.publish([1])
    assert passage_of(world.subscription, entry, []).where is Where.WAITING
    consumer = world.attach(SHARED, permits=10, name="c")
    world.dispatch()
    held = passage_of(world.subscription, entry, [])
    assert (held.where, held.consumer, held.redeliveries, held.messages_left) == (Where.HELD, "c", 0, None)
    consumer.permits = 0
    world.nack(consumer, entry)
    again = passage_of(world.subscription, entry, [])
    assert (again.where, again.redeliveries) == (Where.AGAIN, 1)
    world.ack(consumer, entry)
    done = passage_of(world.subscription, entry, [])
    assert (done.where, done.redeliveries) == (Where.ACKNOWLEDGED, None)


def test_a_single_reader_was_sent_what_is_before_the_read_position() -> None:
    world = World()
    world.attach(SubscriptionType.EXCLUSIVE, permits=1, name="only")
    first, second = world.publish([1, 1])
    assert (passage_of(world.subscription, first, []).where, passage_of(world.subscription, first, []).consumer) == (
        Where.SENT,
        "only",
    )
    assert passage_of(world.subscription, second, []).where is Where.WAITING


def test_part_of_a_batch() -> None:
    world = World()
    consumer = world.attach(SHARED, permits=10)
    (entry,) = world.publish([4])
    world.subscription.acknowledge_batch(consumer, entry, (0b1010,), 0)
    assert passage_of(world.subscription, entry, []).messages_left == 2


def test_delayed_and_due() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    consumer = world.attach("s", 10)
    (entry,) = world.publish([1_000])
    assert passage_of(world.subscriptions["s"], entry, []).where is Where.DELAYED
    consumer.permits = 0
    world.pass_(2_000)
    assert passage_of(world.subscriptions["s"], entry, []).where is Where.DUE


def test_records_tell_how_it_ended_only_where_they_are_certain() -> None:
    world = World()
    first, second = world.publish([1, 1])
    world.subscription.acknowledge_up_to(second, 0)

    def record(event: Event, *, whole: bool, name: str = "s", ledger_id: int = 1) -> DeliveryRecord:
        return DeliveryRecord(5, event, name, "", ledger_id, 0, 0, whole)

    assert passage_of(world.subscription, first, [record(Event.EXPIRED, whole=True)]).where is Where.EXPIRED
    assert passage_of(world.subscription, first, [record(Event.DEAD_LETTERED, whole=True)]).where is Where.DEAD_LETTERED
    unsure = passage_of(world.subscription, first, [record(Event.EXPIRED, whole=False)])
    assert unsure.where is Where.ACKNOWLEDGED and len(unsure.records) == 1
    others = [record(Event.EXPIRED, whole=True, name="other"), record(Event.EXPIRED, whole=True, ledger_id=2)]
    assert passage_of(world.subscription, first, others).records == []
    assert passage_of(world.subscription, Position(1, 1), [record(Event.EXPIRED, whole=True)]).where is Where.ACKNOWLEDGED
