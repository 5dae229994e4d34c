"""Consumers over a raw connection: permits, acknowledgements, redelivery, seeking, Failover, leaving."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.runtime.wire.connection import Connection
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import AppendFailed, Corrupt, Position, Unavailable
from tests.support.broker_world import BrokerWorld, MakeWorld
from tests.support.raw_client import RawClient, Received, batch_frame, send_frame
from tests.support.waiting import eventually

C = pb.Command
TOPIC = "persistent://acme/orders/t"
SHARED, EXCLUSIVE, FAILOVER = pb.Subscribe.Shared, pb.Subscribe.Exclusive, pb.Subscribe.Failover


async def filled(world: BrokerWorld, count: int, topic: str = TOPIC) -> RawClient:
    """A producer that has sent `count` messages: its connection."""
    client = await world.connected("owner")
    await client.producer(topic)
    if count:
        client.write(*(send_frame(index, b"%d" % index) for index in range(count)))
        for _ in range(count):
            await client.expect("SEND_RECEIPT")
    return client


def id_of(one: Received, **fields: Any) -> pb.MessageId:
    message_id = one.body.message_id
    return pb.MessageId(ledger_id=message_id.ledger_id, entry_id=message_id.entry_id, **fields)


def ack(client: RawClient, *ids: pb.MessageId, consumer_id: int = 1, kind: Any = pb.Ack.Individual, **fields: Any) -> None:
    client.say(C.ACK, consumer_id=consumer_id, ack_type=kind, message_id=ids, **fields)


def texts(found: list[Received]) -> list[bytes]:
    return [one.text for one in found]


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
    from messaging.adminrpc.schema import TopicCreate

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
    await eventually(lambda: not world.service.topics.loaded[TOPIC].subscriptions)


# --- acknowledgements


async def test_what_is_acknowledged_does_not_come_again(world: BrokerWorld) -> None:
    await filled(world, 5)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    found = await client.messages(5)
    for index in (0, 2, 3):
        ack(client, id_of(found[index]))
    await client.quiet()
    await client.close()
    again = await world.connected("reader")
    await eventually(lambda: not world.service.topics.loaded[TOPIC].subscriptions["s"].consumers)
    await again.subscribe(TOPIC, permits=10)
    assert texts(await again.messages(2)) == [b"1", b"4"]
    assert await again.quiet() == []


async def test_an_answer_to_an_acknowledgement_comes_when_it_is_durable(world: BrokerWorld) -> None:
    await filled(world, 2)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    found = await client.messages(2)
    world.ledgers.hold()
    ack(client, id_of(found[0]), request_id=7)
    await eventually(lambda: bool(world.ledgers._held))
    assert await client.quiet() == []
    world.ledgers.release()
    answer = await client.expect("ACK_RESPONSE")
    assert (answer.request_id, answer.consumer_id) == (7, 1)
    assert not answer.HasField("error")
    ack(client, id_of(found[0]), request_id=8)  # acknowledged already
    assert (await client.expect("ACK_RESPONSE")).request_id == 8


async def test_an_acknowledgement_that_is_not_stored_says_so(world: BrokerWorld) -> None:
    await filled(world, 2)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    found = await client.messages(2)
    world.ledgers.fail_appends(AppendFailed("disk"))
    ack(client, id_of(found[0]), request_id=7)
    answer = await client.expect("ACK_RESPONSE")
    assert answer.error == pb.PersistenceError
    assert not world.service.ready()[0]


async def test_acknowledging_up_to(world: BrokerWorld) -> None:
    await filled(world, 5)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, sub_type=EXCLUSIVE, permits=10)
    found = await client.messages(5)
    ack(client, id_of(found[2]), kind=pb.Ack.Cumulative, request_id=1)
    await client.expect("ACK_RESPONSE")
    assert world.service.topics.loaded[TOPIC].subscriptions["s"].backlog_entries == 2


async def test_acknowledging_up_to_is_not_for_shared(world: BrokerWorld) -> None:
    await filled(world, 3)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    found = await client.messages(3)
    ack(client, id_of(found[2]), kind=pb.Ack.Cumulative, request_id=1)
    assert (await client.expect("ACK_RESPONSE")).error == pb.NotAllowedError
    assert world.service.topics.loaded[TOPIC].subscriptions["s"].backlog_entries == 3


async def test_a_batch_acknowledged_in_part_comes_with_what_is_left(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    client.write(batch_frame(0, [b"%d" % index for index in range(10)]))
    await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, permits=10)
    (entry,) = await client.messages(1)
    ack(client, id_of(entry, ack_set=[0b1111111011]), request_id=1)
    await client.expect("ACK_RESPONSE")
    client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=[id_of(entry)])
    client.say(C.FLOW, consumer_id=1, message_permits=9)
    (again,) = await client.messages(1)
    assert list(again.body.ack_set) == [1019]
    assert again.body.redelivery_count == 1
    ack(client, id_of(entry, ack_set=[0b100]), request_id=2)  # the other nine
    await client.expect("ACK_RESPONSE")
    assert world.service.topics.loaded[TOPIC].subscriptions["s"].backlog_entries == 0


async def test_a_consumer_at_its_bound_goes_on_as_soon_as_it_acknowledges(make_world: MakeWorld) -> None:
    """Acknowledging one batch freed room for its messages, and nobody looked: stuck until the next publish or flow."""
    world = await make_world(consumer_unacked_max=20)
    client = await filled(world, 0)
    client.write(*(batch_frame(10 * index, [b"x"] * 10) for index in range(4)))
    for _ in range(4):
        await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, permits=1000)
    found = await client.messages(2)
    assert await client.quiet() == []
    ack(client, id_of(found[0]))
    (third,) = await client.messages(1)
    ack(client, id_of(found[1]), id_of(third))
    await client.messages(1)


async def test_another_consumers_acknowledgement_frees_one_at_its_bound(make_world: MakeWorld) -> None:
    world = await make_world(consumer_unacked_max=2)
    await filled(world, 4)
    holder, other = await world.connected("reader"), await world.connected("reader")
    await holder.subscribe(TOPIC, permits=1000)
    found = await holder.messages(2)
    await other.subscribe(TOPIC, consumer_id=5)
    ack(other, id_of(found[0]), consumer_id=5)
    await other.quiet()
    assert texts(await holder.messages(1)) == [b"2"]


# --- coming again


async def test_a_disconnect_hands_on_with_the_same_count(world: BrokerWorld) -> None:
    await filled(world, 4)
    gone, stays = await world.connected("reader"), await world.connected("reader")
    await gone.subscribe(TOPIC, permits=10)
    await gone.messages(4)
    await stays.subscribe(TOPIC, consumer_id=9, permits=10)
    assert await stays.quiet() == []
    await gone.close()
    found = await stays.messages(4)
    assert texts(found) == [b"0", b"1", b"2", b"3"]
    assert [one.body.redelivery_count for one in found] == [0] * 4


async def test_each_request_raises_the_count_by_one(world: BrokerWorld) -> None:
    await filled(world, 3)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=100)
    found = await client.messages(3)
    for count in (1, 2, 3):
        client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=[id_of(found[1])])
        (again,) = await client.messages(1)
        assert (again.text, again.body.redelivery_count) == (b"1", count)
    client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    assert [one.body.redelivery_count for one in await client.messages(3)] == [1, 4, 1]


async def test_a_request_with_foreign_ids_harms_nothing(world: BrokerWorld) -> None:
    await filled(world, 1)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=100)
    await client.messages(1)
    for entry_id in (2**32, 2**63, 2**64 - 1):
        ids = [pb.MessageId(ledger_id=2, entry_id=entry_id), pb.MessageId(ledger_id=entry_id, entry_id=0)]
        client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=ids)
        ack(client, *ids)
        for one in ids:
            ack(client, pb.MessageId(ledger_id=one.ledger_id, entry_id=one.entry_id, ack_set=[1]))
    assert await client.quiet() == []


# --- Failover and Exclusive


async def test_failover_hands_over_and_says_who_is_active(world: BrokerWorld) -> None:
    await filled(world, 3)
    first, second = await world.connected("reader"), await world.connected("reader")
    await first.subscribe(TOPIC, sub_type=FAILOVER, permits=10)
    assert (await first.expect("ACTIVE_CONSUMER_CHANGE")).is_active
    await second.subscribe(TOPIC, sub_type=FAILOVER, permits=10)
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
    assert (await other.expect("ERROR")).error == pb.ConsumerBusy


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"sub_type": pb.Subscribe.Key_Shared}, pb.NotAllowedError),
        ({"subscription": ""}, pb.InvalidTopicName),
        ({"subscription": "pulsar.dedup"}, pb.InvalidTopicName),
        ({"sub_type": SHARED, "read_compacted": True}, pb.NotAllowedError),
        ({"topic": "persistent://acme/orders/none", "force_topic_creation": False}, pb.TopicNotFound),
    ],
)
async def test_subscriptions_that_are_refused(world: BrokerWorld, fields: dict[str, Any], code: int) -> None:
    client = await world.connected("reader")
    client.say(C.SUBSCRIBE, **{"topic": TOPIC, "subscription": "s", "sub_type": SHARED, "consumer_id": 1} | fields)
    assert (await client.expect("ERROR")).error == code


async def test_durable_and_not_durable_do_not_mix(world: BrokerWorld) -> None:
    client = await world.connected("reader")
    await client.subscribe(TOPIC)
    client.say(C.SUBSCRIBE, topic=TOPIC, subscription="s", sub_type=SHARED, consumer_id=2, durable=False)
    assert (await client.expect("ERROR")).error == pb.NotAllowedError


async def test_asking_twice_for_the_same_consumer(world: BrokerWorld) -> None:
    client = await world.connected("reader")
    await client.subscribe(TOPIC)
    await client.subscribe(TOPIC)
    assert len(world.service.topics.loaded[TOPIC].subscriptions["s"].consumers) == 1


# --- seeking


async def test_a_seek_closes_the_consumer_then_succeeds(world: BrokerWorld) -> None:
    await filled(world, 4)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    found = await client.messages(4)
    for one in found:
        ack(client, id_of(one))
    request_id = client.say(C.SEEK, consumer_id=1, message_id=id_of(found[2]))
    closing = await client.expect("CLOSE_CONSUMER")
    assert (closing.consumer_id, closing.request_id) == (1, frames.UNSOLICITED)
    assert (await client.expect("SUCCESS")).request_id == request_id
    await client.subscribe(TOPIC, permits=10)
    assert texts(await client.messages(2)) == [b"2", b"3"]  # inclusive


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"message_id": pb.MessageId(ledger_id=2**64 - 1, entry_id=2**64 - 1)}, [b"0", b"1", b"2"]),
        ({"message_id": pb.MessageId(ledger_id=2**63 - 1, entry_id=2**63 - 1)}, []),
        ({"message_publish_time": 1_001}, [b"1", b"2"]),
        ({"message_publish_time": 0}, [b"0", b"1", b"2"]),
        ({"message_publish_time": 10**12}, []),
    ],
)
async def test_where_a_seek_leads(world: BrokerWorld, fields: dict[str, Any], expected: list[bytes]) -> None:
    await filled(world, 3)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    await client.messages(3)
    client.say(C.SEEK, consumer_id=1, **fields)
    await client.expect("CLOSE_CONSUMER")
    await client.expect("SUCCESS")
    await client.subscribe(TOPIC, permits=10)
    assert texts(await client.messages(len(expected))) == expected
    assert await client.quiet() == []


async def test_whoever_comes_back_during_a_seek_is_let_in_after_it(world: BrokerWorld) -> None:
    """The C++ client does not repeat a first SUBSCRIBE that is refused for now: it waits for its timeout."""
    await filled(world, 2)
    client, other = await world.connected("reader"), await world.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    found = await client.messages(2)
    world.ledgers.hold()
    client.say(C.SEEK, consumer_id=1, message_id=id_of(found[0]))
    await client.expect("CLOSE_CONSUMER")
    await eventually(lambda: bool(world.ledgers._held))
    other.say(C.SUBSCRIBE, topic=TOPIC, subscription="s", sub_type=SHARED, consumer_id=1)
    assert await other.quiet() == []
    world.ledgers.release()
    await client.expect("SUCCESS")
    await other.expect("SUCCESS")
    other.say(C.FLOW, consumer_id=1, message_permits=10)
    assert texts(await other.messages(2)) == [b"0", b"1"]


async def test_a_seek_that_names_nothing(world: BrokerWorld) -> None:
    client = await world.connected("reader")
    await client.subscribe(TOPIC)
    client.say(C.SEEK, consumer_id=1)
    assert (await client.expect("ERROR")).error == pb.NotAllowedError
    assert await client.quiet() == []


async def test_a_seek_by_time_passes_what_cannot_be_read(world: BrokerWorld) -> None:
    """Metadata is the producer's; a message whose metadata is none must not close a topic to seeking."""
    from crc32c import crc32c

    client = await filled(world, 2)
    covered = (3).to_bytes(4, "big") + b"\xff\xff\xff" + b"x"
    head = pb.Command(type=C.SEND, send=pb.Send(producer_id=1, sequence_id=2)).SerializeToString()
    rest = len(head).to_bytes(4, "big") + head + b"\x0e\x01" + crc32c(covered).to_bytes(4, "big") + covered
    client.write(len(rest).to_bytes(4, "big") + rest)
    await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC)
    client.say(C.GET_LAST_MESSAGE_ID, consumer_id=1)
    assert (await client.expect("GET_LAST_MESSAGE_ID_RESPONSE")).last_message_id.entry_id == 2
    client.say(C.SEEK, consumer_id=1, message_publish_time=1_001)
    assert {(await client.next()).name, (await client.next()).name} == {"CLOSE_CONSUMER", "SUCCESS"}


# --- asking and leaving


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
    assert (await one.expect("ERROR")).error == pb.ConsumerBusy
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


async def test_catching_up_from_storage(make_world: MakeWorld) -> None:
    """Nothing is left in memory: all of it is read from the log, in order."""
    world = await make_world()
    await filled(world, 300)
    await world.service.topics.unload(world.service.topics.loaded[TOPIC].name)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=1000)
    assert texts(await client.messages(300)) == [b"%d" % index for index in range(300)]
    assert world.service.topics.loaded[TOPIC].ledger_list.last >= Position(0, 0)


async def test_a_corrupt_record_is_passed_over_and_the_rest_comes(world: BrokerWorld) -> None:
    await filled(world, 5)
    topic = world.service.topics.loaded[TOPIC]
    ledger_id = topic.ledger_list.first.ledger_id
    await world.service.topics.unload(topic.name)
    client = await world.connected("reader")
    await client.subscribe(TOPIC)
    world.ledgers.fail_next("read", Corrupt("rotten", ledger_id, 0))
    client.say(C.FLOW, consumer_id=1, message_permits=10)
    assert texts(await client.messages(4)) == [b"1", b"2", b"3", b"4"]


async def test_a_store_that_is_away_for_a_moment_is_asked_again(world: BrokerWorld) -> None:
    await filled(world, 2)
    await world.service.topics.unload(world.service.topics.loaded[TOPIC].name)
    client = await world.connected("reader")
    await client.subscribe(TOPIC)
    world.ledgers.fail_next("read", Unavailable("busy"))
    client.say(C.FLOW, consumer_id=1, message_permits=10)
    assert texts(await client.messages(2)) == [b"0", b"1"]


# --- peers that do not read, or do not answer


async def test_a_peer_that_does_not_read_gets_no_more_and_others_go_on(world: BrokerWorld) -> None:
    producer = await world.connected("owner")
    await producer.producer(TOPIC)
    stuck, good = await world.connected("reader"), await world.connected("reader")
    await stuck.subscribe(TOPIC, "stuck", permits=10_000)
    stuck._task.cancel()  # reads nothing from here on
    await good.subscribe(TOPIC, permits=10_000)
    for index in range(40):
        producer.write(send_frame(index, bytes(1 << 20)))
        await producer.expect("SEND_RECEIPT")
        await good.messages(1)
    held = world.service.topics.loaded[TOPIC].subscriptions["stuck"]
    (consumer,) = held.consumers
    assert not consumer.sink.writable
    assert consumer.messages_out < 30  # what the sockets' buffers and ours hold, not all of it


async def test_a_peer_that_stays_silent_is_gone_with_all_that_it_held(world: BrokerWorld) -> None:
    """Its buffer is not empty and never will be: waiting for that kept its messages from everybody else."""
    producer = await world.connected("owner")
    await producer.producer(TOPIC)
    stuck, good = await world.connected("reader"), await world.connected("reader")
    await stuck.subscribe(TOPIC, permits=10_000)
    stuck._task.cancel()
    stuck.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for index in range(12):
        producer.write(send_frame(index, bytes(1 << 20)))
        await producer.expect("SEND_RECEIPT")
    await good.subscribe(TOPIC, permits=10_000)
    subscription = world.service.topics.loaded[TOPIC].subscriptions["s"]
    connections = [one for one in world.service.peers.connections if isinstance(one, Connection)]
    (frozen,) = [one for one in connections if one.endpoints.consumers.get(1, (0, 0, 0))[2] is next(iter(subscription.consumers))]
    for _ in range(3):
        frozen.liveness.keep_alive()
    assert frozen.closed
    await eventually(lambda: len(subscription.consumers) == 1)
    found = [one.body.message_id.entry_id for one in await good.messages(12)]
    assert sorted(found) == list(range(12))
