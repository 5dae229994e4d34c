"""Consumers over a raw connection: permits, where they begin, which types go together, leaving."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.diagnosis import SubscriptionExplain
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.consuming import TOPIC, ack, filled, id_of, texts
from tests.support.clients.raw_client import batch_frame, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
SHARED, EXCLUSIVE, FAILOVER = pb.Subscribe.Shared, pb.Subscribe.Exclusive, pb.Subscribe.Failover


async def test_permits_are_messages_given_and_no_more(world: BrokerWorld) -> None:
    await filled(world, 10)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=3)
    assert texts(await client.messages(3)) == [b"0", b"1", b"2"]
    assert await client.quiet() == []
    client.say(C.FLOW, consumer_id=1, message_permits=2)
    assert texts(await client.messages(2)) == [b"3", b"4"]
    assert await client.quiet() == []


async def test_messages_are_the_bytes_that_were_sent(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    await client.subscribe(TOPIC, permits=10)
    whole = send_frame(7, b"payload")
    client.write(whole)
    found = {one.name: one for one in [await client.next(), await client.next()]}
    assert found["MESSAGE"].payload == whole[8 + int.from_bytes(whole[4:8], "big") :]
    message, receipt = found["MESSAGE"].body, found["SEND_RECEIPT"].body
    assert message.message_id == receipt.message_id
    assert not message.message_id.HasField("partition")
    assert (message.redelivery_count, list(message.ack_set)) == (0, [])


async def test_a_partition_is_named_in_ids(world: BrokerWorld) -> None:
    from messaging.adminrpc.topics import TopicCreate

    await world.admin.topics.create(TopicCreate(topic=TOPIC, partitions=3))
    client = await filled(world, 1, TOPIC + "-partition-2")
    await client.subscribe(TOPIC + "-partition-2", permits=10)
    (message,) = await client.messages(1)
    assert message.body.message_id.partition == 2
    client.say(C.GET_LAST_MESSAGE_ID, consumer_id=1)
    assert (await client.expect("GET_LAST_MESSAGE_ID_RESPONSE")).last_message_id.partition == 2


@pytest.mark.parametrize(("position", "expected"), [(pb.Subscribe.Earliest, [b"0", b"1"]), (pb.Subscribe.Latest, [])])
async def test_where_a_new_subscription_begins(world: BrokerWorld, position: Any, expected: list[bytes]) -> None:
    producer = await filled(world, 2)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10, initial_position=position)
    producer.write(send_frame(2, b"new"))
    assert texts(await client.messages(len(expected) + 1)) == [*expected, b"new"]


@pytest.mark.parametrize(
    ("ledger", "entry", "expected"),
    [
        (0, 0, [b"1", b"2"]),  # inclusive: the client drops it where it wants the next
        (2**64 - 1, 2**64 - 1, [b"0", b"1", b"2"]),
        (2**63 - 1, 2**63 - 1, []),
    ],
)
async def test_where_a_reader_begins(world: BrokerWorld, ledger: int, entry: int, expected: list[bytes]) -> None:
    await filled(world, 3)
    if ledger == 0:
        ledger, entry = world.service.topics.loaded[TOPIC].ledger_list.first.ledger_id, 1
    client = await world.connected("reader")
    start = pb.MessageId(ledger_id=ledger, entry_id=entry)
    await client.subscribe(TOPIC, "r", sub_type=EXCLUSIVE, durable=False, start_message_id=start, permits=10)
    assert texts(await client.messages(len(expected))) == expected
    assert await client.quiet() == []
    assert await world.meta.subscriptions(TOPIC) == []
    await client.close()
    await eventually(lambda: not world.service.topics.loaded[TOPIC].subscriptions.table)


async def test_failover_hands_over_and_says_who_is_active(world: BrokerWorld) -> None:
    await filled(world, 3)
    first, second = await world.connected("reader"), await world.connected("reader")
    await first.subscribe(TOPIC, sub_type=FAILOVER, permits=10, consumer_name="b")
    assert (await first.expect("ACTIVE_CONSUMER_CHANGE")).is_active
    await second.subscribe(TOPIC, sub_type=FAILOVER, permits=10, consumer_name="a")
    assert not (await second.expect("ACTIVE_CONSUMER_CHANGE")).is_active
    found = await first.messages(3)
    ack(first, id_of(found[0]))
    await first.quiet()
    await first.close()
    assert (await second.expect("ACTIVE_CONSUMER_CHANGE")).is_active
    again = await second.messages(2)
    assert [(one.text, one.body.redelivery_count) for one in again] == [(b"1", 0), (b"2", 0)]


@pytest.mark.parametrize(("first", "second"), [(EXCLUSIVE, EXCLUSIVE), (EXCLUSIVE, SHARED), (SHARED, FAILOVER)])
async def test_types_that_do_not_go_together(world: BrokerWorld, first: Any, second: Any) -> None:
    client = await world.connected("reader")
    await client.subscribe(TOPIC, sub_type=first)
    other = await world.connected("reader")
    other.say(C.SUBSCRIBE, topic=TOPIC, subscription="s", sub_type=second, consumer_id=1)
    error = await other.expect("ERROR")
    assert error.error == pb.ConsumerBusy
    told = await world.admin.diagnosis.explain(SubscriptionExplain(topic=TOPIC, subscription="s"))
    (step,) = [each for each in told.steps if each.code == "consumer.refused"]
    assert step.facts["refused"] == 1 and step.facts["why"] in error.message


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"subscription": ""}, pb.ProducerBusy),
        ({"subscription": "pulsar.dedup"}, pb.ProducerBusy),
        ({"sub_type": SHARED, "read_compacted": True}, pb.NotAllowedError),
        ({"topic": "persistent://acme/orders/none", "force_topic_creation": False}, pb.TopicNotFound),
    ],
)
async def test_subscriptions_that_are_refused(world: BrokerWorld, fields: dict[str, Any], code: int) -> None:
    client = await world.connected("reader")
    client.say(C.SUBSCRIBE, **{"topic": TOPIC, "subscription": "s", "sub_type": SHARED, "consumer_id": 1} | fields)
    assert (await client.expect("ERROR")).error == code


async def test_the_lower_priority_level_is_sent_what_it_asks_for_first(world: BrokerWorld) -> None:
    producer = await filled(world, 0)
    second, first = await world.connected("reader"), await world.connected("reader")
    await second.subscribe(TOPIC, permits=10, priority_level=1)
    await first.subscribe(TOPIC, permits=3, priority_level=0)
    await first.quiet(), await second.quiet()
    producer.write(*(send_frame(index, b"%d" % index) for index in range(5)))
    assert texts(await first.messages(3)) == [b"0", b"1", b"2"]
    assert texts(await second.messages(2)) == [b"3", b"4"]
    first.say(C.FLOW, consumer_id=1, message_permits=3)
    await first.quiet()
    producer.write(send_frame(5, b"5"))
    assert texts(await first.messages(1)) == [b"5"]


async def test_asking_twice_for_the_same_consumer(world: BrokerWorld) -> None:
    client = await world.connected("reader")
    await client.subscribe(TOPIC)
    await client.subscribe(TOPIC)
    assert len(world.service.topics.loaded[TOPIC].subscriptions.table["s"].consumers) == 1


async def test_last_message_ids(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    await client.subscribe(TOPIC)

    async def last() -> tuple[int, int]:
        client.say(C.GET_LAST_MESSAGE_ID, consumer_id=1)
        answer = await client.expect("GET_LAST_MESSAGE_ID_RESPONSE")
        assert answer.HasField("consumer_mark_delete_position")
        return answer.last_message_id.entry_id, answer.last_message_id.batch_index

    assert await last() == (frames.NO_ID, -1)
    client.write(send_frame(0, b"x"))
    await client.expect("SEND_RECEIPT")
    assert await last() == (0, -1)
    client.write(batch_frame(1, [b"a", b"b", b"c"]))
    await client.expect("SEND_RECEIPT")
    assert await last() == (1, 2)


async def test_consumer_stats(world: BrokerWorld) -> None:
    await filled(world, 3)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10, consumer_name="me")
    await client.messages(3)
    client.say(C.CONSUMER_STATS, consumer_id=1)
    stats = await client.expect("CONSUMER_STATS_RESPONSE")
    assert (stats.consumer_name, stats.type, stats.available_permits, stats.unacked_messages, stats.msg_backlog) == (
        "me",
        "Shared",
        7,
        3,
        3,
    )
    assert not stats.HasField("error_code")


async def test_unsubscribing_deletes_and_needs_to_be_alone(world: BrokerWorld) -> None:
    one, two = await world.connected("reader"), await world.connected("reader")
    await one.subscribe(TOPIC)
    await two.subscribe(TOPIC)
    one.say(C.UNSUBSCRIBE, consumer_id=1)
    assert (await one.expect("ERROR")).error == pb.MetadataError
    two.say(C.CLOSE_CONSUMER, consumer_id=1)
    await two.expect("SUCCESS")
    one.say(C.UNSUBSCRIBE, consumer_id=1)
    await one.expect("SUCCESS")
    assert await world.meta.subscriptions(TOPIC) == []
    one.say(C.UNSUBSCRIBE, consumer_id=1)
    assert (await one.expect("ERROR")).error == pb.MetadataError


async def test_unsubscribing_by_force_closes_the_others(world: BrokerWorld) -> None:
    one, two = await world.connected("reader"), await world.connected("reader")
    await one.subscribe(TOPIC)
    await two.subscribe(TOPIC, consumer_id=4)
    one.say(C.UNSUBSCRIBE, consumer_id=1, force=True)
    await one.expect("SUCCESS")
    assert (await two.expect("CLOSE_CONSUMER")).consumer_id == 4


async def test_closing_a_consumer_hands_its_messages_on(world: BrokerWorld) -> None:
    await filled(world, 2)
    one, two = await world.connected("reader"), await world.connected("reader")
    await one.subscribe(TOPIC, permits=10)
    await one.messages(2)
    await two.subscribe(TOPIC, permits=10)
    one.say(C.CLOSE_CONSUMER, consumer_id=1)
    await one.expect("SUCCESS")
    assert texts(await two.messages(2)) == [b"0", b"1"]
