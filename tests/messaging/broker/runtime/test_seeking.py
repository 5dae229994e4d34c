"""Seeks over a raw connection: where they lead, and consumers that come back during one."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.broker_world import BrokerWorld
from tests.support.consuming import TOPIC, ack, filled, id_of, texts
from tests.support.waiting import eventually

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
