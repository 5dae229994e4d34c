"""`trace_in`: what is known of a message in a subscription, and no more."""

from __future__ import annotations

from messaging.broker.core.diagnosis.trace import DeliveryEvent, DeliveryRecord, TraceState, trace_in
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from tests.support.worlds.delayed_world import DelayedWorld
from tests.support.worlds.subscription_world import World

SHARED = SubscriptionType.SHARED


def test_from_not_sent_to_acknowledged() -> None:
    world = World()
    (entry,) = world.publish([1])
    assert trace_in(world.subscription, entry, []).where is TraceState.WAITING
    consumer = world.attach(SHARED, permits=10, name="c")
    world.dispatch()
    traced = trace_in(world.subscription, entry, [])
    assert (traced.where, traced.consumer, traced.redeliveries, traced.messages_left) == (TraceState.HELD, "c", 0, None)
    consumer.permits = 0
    world.nack(consumer, entry)
    again = trace_in(world.subscription, entry, [])
    assert (again.where, again.redeliveries) == (TraceState.AGAIN, 1)
    world.ack(consumer, entry)
    done = trace_in(world.subscription, entry, [])
    assert (done.where, done.redeliveries) == (TraceState.ACKNOWLEDGED, None)


def test_a_single_reader_was_sent_what_is_before_the_read_position() -> None:
    world = World()
    world.attach(SubscriptionType.EXCLUSIVE, permits=1, name="only")
    first, second = world.publish([1, 1])
    assert (trace_in(world.subscription, first, []).where, trace_in(world.subscription, first, []).consumer) == (
        TraceState.SENT,
        "only",
    )
    assert trace_in(world.subscription, second, []).where is TraceState.WAITING


def test_part_of_a_batch() -> None:
    world = World()
    consumer = world.attach(SHARED, permits=10)
    (entry,) = world.publish([4])
    world.subscription.acknowledge_batch(consumer, entry, (0b1010,), 0)
    assert trace_in(world.subscription, entry, []).messages_left == 2


def test_delayed_and_due() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    consumer = world.attach("s", 10)
    (entry,) = world.publish([1_000])
    assert trace_in(world.subscriptions["s"], entry, []).where is TraceState.DELAYED
    consumer.permits = 0
    world.pass_(2_000)
    assert trace_in(world.subscriptions["s"], entry, []).where is TraceState.DUE


def test_records_tell_how_it_ended_only_where_they_are_certain() -> None:
    world = World()
    first, second = world.publish([1, 1])
    world.subscription.acknowledge_up_to(second, 0)

    def record(event: DeliveryEvent, *, whole: bool, name: str = "s", ledger_id: int = 1) -> DeliveryRecord:
        return DeliveryRecord(5, event, name, "", ledger_id, 0, 0, whole)

    assert trace_in(world.subscription, first, [record(DeliveryEvent.EXPIRED, whole=True)]).where is TraceState.EXPIRED
    assert trace_in(world.subscription, first, [record(DeliveryEvent.DEAD_LETTERED, whole=True)]).where is TraceState.DEAD_LETTERED
    unsure = trace_in(world.subscription, first, [record(DeliveryEvent.EXPIRED, whole=False)])
    assert unsure.where is TraceState.ACKNOWLEDGED and len(unsure.records) == 1
    others = [record(DeliveryEvent.EXPIRED, whole=True, name="other"), record(DeliveryEvent.EXPIRED, whole=True, ledger_id=2)]
    assert trace_in(world.subscription, first, others).records == []
    other_entry = trace_in(world.subscription, Position(1, 1), [record(DeliveryEvent.EXPIRED, whole=True)])
    assert other_entry.where is TraceState.ACKNOWLEDGED
