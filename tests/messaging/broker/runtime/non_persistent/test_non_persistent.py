"""Non-persistent topics over the binary protocol: deliver or drop, and nothing that is stored."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from messaging.adminrpc.topics import StatsAsked
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.broker.runtime.topics.dispatch.dispatcher import READERS_AT_ONCE
from messaging.errors import NotReady
from messaging.permissions.model import Principal
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.consuming import ack, texts
from tests.support.clients.producer_sink import ProducerWatch
from tests.support.clients.raw_client import batch_frame, delayed_frame, send_frame
from tests.support.non_persistent import NAME, TOPIC, both, ids, of_type
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
TYPES = [pb.Subscribe.Exclusive, pb.Subscribe.Shared, pb.Subscribe.Failover, pb.Subscribe.Key_Shared]


@pytest.mark.parametrize("kind", TYPES)
async def test_messages_go_to_whoever_is_there(world: BrokerWorld, kind: Any) -> None:
    producer, consumer = await both(world, kind)
    producer.write(send_frame(0, b"a"), send_frame(1, b"b"), batch_frame(2, [b"c", b"d"]), send_frame(4, b"x" * 100_000))
    receipts = [await producer.expect("SEND_RECEIPT") for _ in range(4)]
    assert [one.sequence_id for one in receipts] == [0, 1, 2, 4]
    assert {(one.message_id.ledger_id, one.message_id.entry_id) for one in receipts} == {(0, 0)}
    found = await of_type(consumer, "MESSAGE")
    assert ids(found) == [(0, 0, -1)] * 4
    assert [found[0].text, found[1].text, len(found[3].text)] == [b"a", b"b", 100_000]


async def test_nobody_gets_what_was_published_before(world: BrokerWorld) -> None:
    producer = await world.connected("owner")
    await producer.producer(TOPIC)
    producer.write(send_frame(0, b"before"))
    await producer.expect("SEND_RECEIPT")
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=10)  # at the earliest
    producer.write(send_frame(1, b"after"))
    await producer.expect("SEND_RECEIPT")
    assert texts(await consumer.messages(1)) == [b"after"]
    assert await consumer.quiet() == []


async def test_every_subscription_gets_what_its_consumers_have_permits_for(world: BrokerWorld) -> None:
    producer, many = await both(world)
    few = await world.connected("owner")
    await few.subscribe(TOPIC, "few", permits=1)
    for index in range(3):
        producer.write(send_frame(index, b"%d" % index))
        await producer.expect("SEND_RECEIPT")
    assert texts(await of_type(many, "MESSAGE")) == [b"0", b"1", b"2"]
    few.say(C.FLOW, consumer_id=1, message_permits=10)
    assert texts(await of_type(few, "MESSAGE")) == [b"0"]
    stats = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats
    assert (stats["msgInCounter"], stats["msgOutCounter"], stats["msgDropCounter"]) == (3, 4, 2)
    assert stats["subscriptions"]["few"]["msgDropCounter"] == 2 and stats["subscriptions"]["s"]["msgDropCounter"] == 0
    assert (stats["storageSize"], stats["backlogSize"], stats["subscriptions"]["few"]["msgBacklog"]) == (0, 0, 0)
    assert not stats["subscriptions"]["few"]["isDurable"]


async def test_many_subscriptions_get_everything_in_order(world: BrokerWorld) -> None:
    """More than are sent a message at once."""
    producer, consumer = await both(world)
    for number in range(60):
        await consumer.subscribe(TOPIC, f"s{number}", consumer_id=10 + number, permits=100)
    for index in range(20):
        producer.write(send_frame(index, b"%d" % index))
    for _ in range(20):
        await producer.expect("SEND_RECEIPT")
    found = [await consumer.next() for _ in range(20 * 60 + 10)]  # one of them has 10 permits
    for number in range(60):
        assert [int(one.text) for one in found if one.body.consumer_id == 10 + number] == list(range(20))
    assert await consumer.quiet() == []
    topic = await world.service.topics.get(NAME, create=False)
    assert world.service.memory_limiter.ingress.used_bytes == 0 and not topic.closed


async def test_closing_the_topic_ends_what_is_on_its_way(world: BrokerWorld) -> None:
    consumer = await world.connected("owner")
    for number in range(60):
        await consumer.subscribe(TOPIC, f"s{number}", consumer_id=10 + number, permits=100)
    await consumer.quiet()  # the permits have come
    topic = await world.service.topics.get(NAME, create=False)
    producer = await world.sessions.open_producer(Principal("admin"), TOPIC, None, ProducerWatch())
    producer.publish([OutgoingMessage(b"x")], lambda positions, error: None)
    assert [one.messages_out for one in topic.subscriptions.table.values()] == [1] * READERS_AT_ONCE + [0] * (60 - READERS_AT_ONCE)
    topic.begin_close(NotReady("it is unloaded"))
    await consumer.quiet()
    assert sum(one.messages_out + one.messages_dropped for one in topic.subscriptions.table.values()) == READERS_AT_ONCE
    assert not world.service.topics.services.loops.dispatch_turns.turns.waiting


async def test_delivery_times_acknowledgements_and_seeks_mean_nothing(world: BrokerWorld) -> None:
    producer, consumer = await both(world, pb.Subscribe.Shared)
    producer.write(delayed_frame(0, b"later", int(time.time() * 1000) + 600_000))
    (found,) = await consumer.messages(1)
    assert found.text == b"later"
    at = pb.MessageId(ledger_id=0, entry_id=0)
    ack(consumer, at, request_id=7)
    answer = await consumer.expect("ACK_RESPONSE")
    assert not answer.HasField("error")
    ack(consumer, pb.MessageId(ledger_id=99, entry_id=7))
    consumer.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    consumer.say(C.SEEK, consumer_id=1, message_id=at)
    await consumer.expect("SUCCESS")
    consumer.say(C.SEEK, consumer_id=1, message_publish_time=1)
    await consumer.expect("SUCCESS")
    consumer.say(C.GET_LAST_MESSAGE_ID, consumer_id=1)
    assert (await consumer.expect("ERROR")).error == pb.NotAllowedError
    producer.write(send_frame(1, b"b"))
    assert texts(await consumer.messages(1)) == [b"b"]


async def test_cumulative_acknowledgements_mean_nothing(world: BrokerWorld) -> None:
    producer, consumer = await both(world)
    producer.write(send_frame(0, b"a"))
    await consumer.messages(1)
    ack(consumer, pb.MessageId(ledger_id=0, entry_id=0), kind=pb.Ack.Cumulative, request_id=3)
    assert not (await consumer.expect("ACK_RESPONSE")).HasField("error")
    producer.write(send_frame(1, b"b"))
    assert texts(await consumer.messages(1)) == [b"b"]


async def test_the_compacted_topic_cannot_be_read(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    client.say(C.SUBSCRIBE, topic=TOPIC, subscription="s", consumer_id=1, sub_type=pb.Subscribe.Exclusive, read_compacted=True)
    assert (await client.expect("ERROR")).error == pb.NotAllowedError


async def test_a_subscription_ends_with_its_last_consumer(world: BrokerWorld) -> None:
    _, consumer = await both(world, pb.Subscribe.Shared)
    await consumer.subscribe(TOPIC, consumer_id=2)
    topic = await world.service.topics.get(NAME, create=False)
    consumer.say(C.CLOSE_CONSUMER, consumer_id=1)
    await consumer.expect("SUCCESS")
    assert topic.subscriptions.find("s") is not None
    consumer.say(C.CLOSE_CONSUMER, consumer_id=2)
    await consumer.expect("SUCCESS")
    assert topic.subscriptions.table == {} and await world.meta.subscriptions(TOPIC) == []
    await consumer.subscribe(TOPIC, consumer_id=3, sub_type=pb.Subscribe.Exclusive)
    consumer.say(C.UNSUBSCRIBE, consumer_id=3)
    await consumer.expect("SUCCESS")
    assert topic.subscriptions.table == {}


async def test_durable_or_not_it_is_one_subscription(world: BrokerWorld) -> None:
    _, consumer = await both(world)
    for durable in (True, False):
        consumer.say(C.SUBSCRIBE, topic=TOPIC, subscription="s", consumer_id=5, sub_type=pb.Subscribe.Shared, durable=durable)
        assert (await consumer.expect("ERROR")).error == pb.ConsumerBusy


async def test_an_initial_subscription_is_not_made(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC, initial_subscription_name="s")
    assert (await world.service.topics.get(NAME, create=False)).subscriptions.table == {}


async def test_deduplication_does_not_apply(world: BrokerWorld) -> None:
    await world.feed(("namespace", "acme/orders", {"policies": {"deduplication": True}}))
    producer, consumer = await both(world)
    producer.write(send_frame(5, b"a"), send_frame(5, b"a"), send_frame(4, b"b"))
    assert [(await producer.expect("SEND_RECEIPT")).sequence_id for _ in range(3)] == [5, 5, 4]
    assert texts(await consumer.messages(3)) == [b"a", b"a", b"b"]


async def test_exclusive_producers(world: BrokerWorld) -> None:
    one, other = await world.connected("owner"), await world.connected("owner")
    success = await one.producer(TOPIC, producer_access_mode=pb.Producer.Exclusive)
    assert success.topic_epoch == 0
    other.say(C.PRODUCER, topic=TOPIC, producer_id=1, producer_access_mode=pb.Producer.Exclusive)
    assert (await other.expect("ERROR")).error == pb.ProducerFenced
    other.say(C.PRODUCER, topic=TOPIC, producer_id=2)
    assert (await other.expect("ERROR")).error == pb.ProducerBusy
    success = await other.producer(TOPIC, producer_id=3, producer_access_mode=pb.Producer.ExclusiveWithFencing)
    assert success.topic_epoch == 1
    one.write(send_frame(0, b"x"))
    assert (await one.expect("SEND_ERROR")).error == pb.PersistenceError


async def test_damaged_messages_are_refused_in_their_place(world: BrokerWorld) -> None:
    producer, consumer = await both(world)
    damaged = bytearray(send_frame(1, b"payload"))
    damaged[-1] ^= 1
    producer.write(send_frame(0, b"a"), bytes(damaged), send_frame(2, b"c"))
    assert [(await producer.next()).name for _ in range(3)] == ["SEND_RECEIPT", "SEND_ERROR", "SEND_RECEIPT"]
    assert texts(await consumer.messages(2)) == [b"a", b"c"]


# --- no matter how much is published


async def test_a_consumer_that_does_not_read_costs_no_memory(world: BrokerWorld) -> None:
    producer, consumer = await both(world, permits=1_000_000)
    consumer.stop_reading()
    payload, sent = b"x" * 10_000, 0
    topic = await world.service.topics.get(NAME, create=False)
    for round_ in range(40):
        producer.write(*(send_frame(round_ * 100 + index, payload) for index in range(100)))
        for _ in range(100):
            await producer.expect("SEND_RECEIPT")
        sent += 100
        limiter = world.service.memory_limiter
        assert limiter.used_bytes < 8 << 20 and limiter.ingress.used_bytes == 0
    (subscription,) = topic.subscriptions.table.values()
    assert subscription.messages_out + subscription.messages_dropped == sent
    assert 0 < subscription.messages_out < sent // 2
    assert world.service.memory_limiter.used_bytes < 8 << 20  # of 40 MB published: what lies in the connection's buffer


async def test_a_slow_subscription_takes_nothing_from_the_others(world: BrokerWorld) -> None:
    producer, stalled = await both(world, permits=1_000_000)
    stalled.stop_reading()
    reading = await world.connected("owner")
    await reading.subscribe(TOPIC, "other", permits=1_000_000)
    for index in range(2000):
        producer.write(send_frame(index, b"x" * 10_000))
        await producer.expect("SEND_RECEIPT")
    found = await reading.messages(2000)
    assert len(found) == 2000


async def test_small_messages_that_wait_for_many_subscriptions_take_little_memory(world: BrokerWorld) -> None:
    """Seen: each had a list of all subscriptions of its own, many times the bytes for which it was counted."""
    consumer = await world.connected("owner")
    for number in range(400):
        await consumer.subscribe(TOPIC, f"s{number}", consumer_id=10 + number)
    topic = await world.service.topics.get(NAME, create=False)
    producer = await world.sessions.open_producer(Principal("admin"), TOPIC, None, ProducerWatch())
    tracemalloc.start()
    try:
        for _ in range(500):
            producer.publish([OutgoingMessage(b"x")], lambda positions, error: None)
        used_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used_bytes < 500 * 1500
    topic.begin_close(NotReady("it is unloaded"))
    assert world.service.memory_limiter.ingress.used_bytes == 0
