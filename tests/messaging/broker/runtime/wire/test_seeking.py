"""Seeks over a raw connection: where they lead, and consumers that come back during one."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.clients.consuming import TOPIC, ack, filled, id_of, texts
from tests.support.clients.raw_client import batch_frame, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

C = pb.Command
SHARED, EXCLUSIVE, FAILOVER = pb.Subscribe.Shared, pb.Subscribe.Exclusive, pb.Subscribe.Failover


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
    await eventually(lambda: world.ledgers.kept_back > 0)
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


async def test_a_seek_into_a_batch_leaves_what_its_ack_set_leaves(make_world: MakeWorld) -> None:
    """The Java client names the messages of the batch from which it goes on. It is kept over a crash."""
    world = await make_world()
    client = await filled(world, 1)
    client.write(batch_frame(1, [b"a", b"b", b"c"]), send_frame(2, b"after"))
    batch = (await client.expect("SEND_RECEIPT")).message_id
    await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, permits=10)
    await client.messages(3)
    client.say(C.SEEK, consumer_id=1, message_id=pb.MessageId(ledger_id=batch.ledger_id, entry_id=1, ack_set=[-1 << 2]))
    await client.expect("CLOSE_CONSUMER")
    await client.expect("SUCCESS")
    for each in (world, await make_world(after=world)):
        again = await each.connected("reader")
        await again.subscribe(TOPIC, permits=10)
        found = await again.messages(2)
        assert [list(one.body.ack_set) for one in found] == [[0b100], []]
        again.say(C.CONSUMER_STATS, consumer_id=1)
        stats = await again.expect("CONSUMER_STATS_RESPONSE")
        assert (stats.available_permits, stats.unacked_messages) == (8, 2), "what is acknowledged takes no permit"
        await again.close()


async def test_a_seek_to_a_batch_with_all_its_messages(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    client.write(batch_frame(0, [b"a", b"b"]))
    batch = (await client.expect("SEND_RECEIPT")).message_id
    await client.subscribe(TOPIC, permits=10)
    await client.messages(1)
    client.say(C.SEEK, consumer_id=1, message_id=pb.MessageId(ledger_id=batch.ledger_id, entry_id=0, ack_set=[0b11]))
    await client.expect("CLOSE_CONSUMER")
    await client.expect("SUCCESS")
    await client.subscribe(TOPIC, permits=10)
    assert list((await client.messages(1))[0].body.ack_set) == []


async def test_an_acknowledgement_from_before_a_seek_changes_nothing_after_it(world: BrokerWorld) -> None:
    """Its batch had to be read for its size; the seek was faster."""
    client = await filled(world, 0)
    client.write(batch_frame(0, [b"a", b"b"]))
    batch = (await client.expect("SEND_RECEIPT")).message_id
    await client.subscribe(TOPIC, sub_type=EXCLUSIVE)
    reading = world.ledgers.delay("read")
    ids = {"ledger_id": batch.ledger_id, "entry_id": 0}
    ack(client, pb.MessageId(ack_set=[0b10], **ids), request_id=9)
    client.say(C.SEEK, consumer_id=1, message_id=pb.MessageId(**ids))
    await client.expect("CLOSE_CONSUMER")
    await client.expect("SUCCESS")
    reading.set()
    assert "moved" in (await client.expect("ACK_RESPONSE")).message
    await client.subscribe(TOPIC, sub_type=EXCLUSIVE, permits=10)
    assert list((await client.messages(1))[0].body.ack_set) == []


@pytest.mark.parametrize("kind", [SHARED, EXCLUSIVE, FAILOVER])
async def test_nothing_stale_follows_a_seek_while_messages_flow(world: BrokerWorld, kind: Any) -> None:
    producer, client = await filled(world, 50), await world.connected("reader")
    await client.subscribe(TOPIC, sub_type=kind)
    if kind == FAILOVER:
        await client.expect("ACTIVE_CONSUMER_CHANGE")
    client.say(C.FLOW, consumer_id=1, message_permits=1000)
    first = await client.messages(50)
    ack(client, *(id_of(one) for one in first[:10]))
    producer.write(*(send_frame(index, b"%d" % index) for index in range(50, 60)))
    client.write(
        client.frame(C.SEEK, consumer_id=1, message_id=id_of(first[5]))[0],
        client.frame(C.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=[id_of(first[7])])[0],
        client.frame(C.FLOW, consumer_id=1, message_permits=1000)[0],
    )
    while (await client.next()).name != "SUCCESS":
        pass
    producer.write(*(send_frame(index, b"%d" % index) for index in range(60, 70)))
    for _ in range(20):
        await producer.expect("SEND_RECEIPT")
    assert await client.quiet() == [], "its consumer is closed: nothing comes before it is back"
    await client.subscribe(TOPIC, sub_type=kind)
    if kind == FAILOVER:
        await client.expect("ACTIVE_CONSUMER_CHANGE")
    client.say(C.FLOW, consumer_id=1, message_permits=1000)
    assert texts(await client.messages(65)) == [b"%d" % index for index in range(5, 70)]


async def test_a_seek_to_the_first_chunk_brings_the_whole_message(world: BrokerWorld) -> None:
    """The client names the first chunk, and each chunk is an entry."""
    client = await filled(world, 1)
    for chunk in range(3):
        metadata = pb.Metadata(
            producer_name="raw",
            sequence_id=1,
            publish_time=5_000,
            uuid="raw-1",
            num_chunks_from_msg=3,
            total_chunk_msg_size=3,
            chunk_id=chunk,
        )
        client.write(frames.build_send(1, 1, metadata, b"abc"[chunk : chunk + 1]))
        receipt = await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, permits=10)
    await client.messages(4)
    client.say(C.SEEK, consumer_id=1, message_id=pb.MessageId(ledger_id=receipt.message_id.ledger_id, entry_id=1))
    await client.expect("CLOSE_CONSUMER")
    await client.expect("SUCCESS")
    await client.subscribe(TOPIC, permits=10)
    assert texts(await client.messages(3)) == [b"a", b"b", b"c"]
    assert await client.quiet() == []


@pytest.mark.parametrize("damaged", [[0], [2], [4], [1, 2, 3]])
async def test_a_seek_to_a_time_reads_past_damaged_entries(world: BrokerWorld, damaged: list[int]) -> None:
    """It failed for good where expiry, which looks up a time as well, passed over them."""
    client = await filled(world, 0)
    for index in range(5):  # each in a block of its own
        client.write(send_frame(index, b"%d" % index))
        await client.expect("SEND_RECEIPT")
    name = parse_topic(TOPIC)
    topic = await world.service.topics.get(name, create=False)
    ledger_id = topic.ledger_list.first.ledger_id
    await world.service.topics.unload(name)  # nothing of it is in memory
    for entry_id in damaged:
        world.ledgers.damage(ledger_id, entry_id)
    topic = await world.service.topics.get(name, create=False)
    for published_ms, sought in [(0, -1), (1_001, 0), (1_003, 2), (10**12, 4)]:
        mark_delete = await topic.entries.mark_delete_at_time(published_ms)
        at = mark_delete.entry_id if mark_delete.ledger_id == ledger_id else -1
        # Whether a damaged entry is older than that nobody knows: it counts as the next one that can be read.
        assert at <= sought and not set(range(at + 1, sought + 1)) - set(damaged), (published_ms, mark_delete)
