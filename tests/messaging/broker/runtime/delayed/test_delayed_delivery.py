"""Delayed messages through a real broker: over the wire, in batches, over a restart, under a full memory account."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.broker.runtime.admin.stats.stats import StatsContext, topic_stats
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.storage_broker import ADMIN, Inbox, Sender
from tests.support.clients.consuming import TOPIC, ack, id_of, texts
from tests.support.clients.publishing import producing, receipts
from tests.support.clients.raw_client import RawClient, delayed_frame, send_frame
from tests.support.clock import Clock, give
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

C = pb.Command
SHARED, EXCLUSIVE, FAILOVER = pb.Subscribe.Shared, pb.Subscribe.Exclusive, pb.Subscribe.Failover


@pytest.fixture
async def clock(world: BrokerWorld) -> Clock:
    return _clock_of(world)


def _clock_of(world: BrokerWorld, now_ms: int = 1_700_000_000_000) -> Clock:
    clock = Clock(now_ms)
    give(world.service, clock)
    world.service.sweep_memory()
    return clock


def passes(world: BrokerWorld, clock: Clock, time_ms: int) -> None:
    """The broker sees once a second that its timers and its clock have parted."""
    clock.pass_(time_ms)
    world.service.sweep_memory()


async def topic_of(world: BrokerWorld) -> Topic:
    return await world.service.topics.get(parse_topic(TOPIC), create=False)


async def stats_of(world: BrokerWorld, name: str = "s") -> dict[str, Any]:
    slices = TurnSlices(world.service.peers.turn_loop, "acme")
    stats = await topic_stats(await topic_of(world), StatsContext("b", 0, {}, world.service.problems, []), slices)
    figures: dict[str, Any] = stats["subscriptions"][name]
    return figures


async def sent(client: RawClient, *frames: bytes) -> None:
    client.write(*frames)
    await receipts(client, len(frames))


async def test_a_delayed_message_comes_when_it_is_due_and_others_do_not_wait(world: BrokerWorld, clock: Clock) -> None:
    producer = await producing(world)
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    await sent(producer, delayed_frame(0, b"late", clock() + 60_000), send_frame(1, b"now"), delayed_frame(2, b"past", 5))
    assert texts(await consumer.messages(2)) == [b"now", b"past"]
    assert await consumer.quiet() == []
    stats = await stats_of(world)
    assert (stats["msgDelayed"], stats["msgBacklog"], stats["msgBacklogNoDelayed"]) == (1, 3, 2)
    passes(world, clock, 58_000)
    assert await consumer.quiet() == []
    passes(world, clock, 2_000)
    (late,) = await consumer.messages(1)
    assert late.text == b"late" and late.body.redelivery_count == 0
    ack(consumer, id_of(late))
    await eventually(lambda: next(iter(world.service.topics)).subscriptions.table["s"].backlog_entries == 2)
    assert (await stats_of(world))["msgDelayed"] == 0


async def test_a_timer_delivers_it(make_world: MakeWorld) -> None:
    """With the clocks of the machine."""
    world = await make_world(delayed_delivery_tick_ms=1, delayed_delivery_strict=True)
    producer, consumer = await producing(world), await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    at_ms = world.service.now_ms() + 150
    await sent(producer, delayed_frame(0, b"late", at_ms), send_frame(1, b"now"))
    assert texts(await consumer.messages(2)) == [b"now", b"late"]
    assert world.service.now_ms() >= at_ms


async def test_a_timer_set_by_a_clock_that_was_wrong_for_a_moment_is_set_anew(world: BrokerWorld, clock: Clock) -> None:
    """An hour slow, and right again before the broker looks at it: the difference is in no two looks, and in the timer."""
    consumer, producer = await world.connected("owner"), await producing(world)
    await consumer.subscribe(TOPIC, permits=100)
    clock.now_ms -= 3_600_000
    await sent(producer, delayed_frame(0, b"late", clock() + 3_600_500))
    clock.now_ms += 3_600_000
    passes(world, clock, 800)
    assert texts(await consumer.messages(1)) == [b"late"]


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
async def test_other_types_get_it_at_once(world: BrokerWorld, clock: Clock, kind: int) -> None:
    producer, consumer = await producing(world), await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100, sub_type=kind)
    await sent(producer, delayed_frame(0, b"late", clock() + 60_000))
    if kind == FAILOVER:
        await consumer.expect("ACTIVE_CONSUMER_CHANGE")
    assert texts(await consumer.messages(1)) == [b"late"]


async def test_a_batch_with_a_delivery_time_is_delayed_as_a_whole(world: BrokerWorld, clock: Clock) -> None:
    producer, consumer = await producing(world), await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    await sent(producer, delayed_frame(0, b"many", clock() + 60_000, count=3))
    assert await consumer.quiet() == []
    passes(world, clock, 61_000)
    (entry,) = await consumer.messages(1)
    assert entry.text == b"many"
    await eventually(lambda: next(iter(next(iter(world.service.topics)).subscriptions.table["s"].consumers)).permits == 97)


async def test_a_negative_acknowledgement_does_not_delay_it_again(world: BrokerWorld, clock: Clock) -> None:
    producer, consumer = await producing(world), await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    await sent(producer, delayed_frame(0, b"late", clock() + 60_000))
    passes(world, clock, 61_000)
    (late,) = await consumer.messages(1)
    consumer.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=[id_of(late)])
    (again,) = await consumer.messages(1)
    assert again.body.redelivery_count == 1


async def test_nothing_is_early_or_lost_after_a_restart(world: BrokerWorld, make_world: MakeWorld, clock: Clock) -> None:
    producer, consumer = await producing(world), await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    times = [clock() + 60_000, clock() + 5_000, clock() + 600_000]
    await sent(producer, *(delayed_frame(index, b"%d" % index, at_ms) for index, at_ms in enumerate(times)), send_frame(3, b"now"))
    await consumer.messages(1)
    await world.service.topics.unload(parse_topic(TOPIC))
    after = await make_world(after=world)
    clock = _clock_of(after, clock() + 10_000)
    consumer = await after.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    assert texts(await consumer.messages(2)) == [b"1", b"now"]
    assert await consumer.quiet() == []
    passes(after, clock, 51_000)
    assert texts(await consumer.messages(1)) == [b"0"]
    passes(after, clock, 600_000)
    assert texts(await consumer.messages(1)) == [b"2"]


async def test_what_is_due_while_nobody_is_there_waits_for_the_next_consumer(world: BrokerWorld, clock: Clock) -> None:
    producer, consumer = await producing(world), await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    await sent(producer, delayed_frame(0, b"late", clock() + 60_000))
    await consumer.close()
    topic = await topic_of(world)
    await eventually(lambda: not topic.subscriptions.table["s"].consumers)
    passes(world, clock, 61_000)
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    assert texts(await consumer.messages(1)) == [b"late"]


async def test_the_memory_is_charged_and_given_back(world: BrokerWorld, clock: Clock) -> None:
    producer, consumer = await producing(world), await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    await sent(producer, *(delayed_frame(index, b"late", clock() + 60_000) for index in range(50)))
    await eventually(lambda: held_for_delays(world) > 500)
    await world.service.topics.unload(parse_topic(TOPIC))
    assert held_for_delays(world) == 0
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    await eventually(lambda: held_for_delays(world) > 500)
    passes(world, clock, 61_000)
    await consumer.messages(50)
    await eventually(lambda: held_for_delays(world) == 0)


def held_for_delays(world: BrokerWorld) -> int:
    """By the tenant: events of the audit log are charged to the platform."""
    return world.service.memory_limiter.records.tenants.get("acme", 0)


async def test_a_full_account_holds_delayed_messages_back_and_loses_none(world: BrokerWorld, clock: Clock) -> None:
    producer, consumer = await producing(world), await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    account = world.service.memory_limiter.records
    others = account.limit_bytes - account.used_bytes
    account.take("others", others)
    await sent(producer, send_frame(0, b"now"), delayed_frame(1, b"late", clock() + 60_000))
    assert texts(await consumer.messages(1)) == [b"now"]
    await sent(producer, send_frame(2, b"behind it"))
    assert await consumer.quiet() == []
    account.give("others", others)
    passes(world, clock, 2_000)
    assert texts(await consumer.messages(1)) == [b"behind it"]
    passes(world, clock, 60_000)
    assert texts(await consumer.messages(1)) == [b"late"]


async def test_a_local_producer_delays_too(world: BrokerWorld, clock: Clock) -> None:
    """As WebSockets do."""
    inbox = Inbox()
    consumer = await world.sessions.open_consumer(ADMIN, TOPIC, "s", "Shared", "earliest", True, None, inbox)
    consumer.flow(10)
    sender = await Sender.open(world.service, topic=TOPIC)
    done = asyncio.Event()
    sender.producer.publish(
        [OutgoingMessage(b"late", deliver_at_ms=clock() + 60_000), OutgoingMessage(b"now")], lambda *told: done.set()
    )
    await asyncio.wait_for(done.wait(), 10)
    await eventually(lambda: [message.payload for message in inbox.messages] == [b"now"])
    passes(world, clock, 61_000)
    await eventually(lambda: [message.payload for message in inbox.messages] == [b"now", b"late"])
