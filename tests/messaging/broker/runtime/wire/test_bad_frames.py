"""Bytes that are no frames: they end the connection they came on, and no other."""

from __future__ import annotations

import random

import pytest
from crc32c import crc32c

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.publishing import TOPIC
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.worlds.broker_world import BrokerWorld

GOOD = send_frame(0, b"x" * 50)


def simple(body: bytes, *, total: int | None = None, size: int | None = None) -> bytes:
    """A command's frame whose lengths may lie."""
    return (
        (len(body) + 4 if total is None else total).to_bytes(4, "big")
        + (len(body) if size is None else size).to_bytes(4, "big")
        + body
    )


PING = pb.Command(type=pb.Command.PING, ping=pb.Ping()).SerializeToString()
BAD = {
    "no command": (0).to_bytes(4, "big") + bytes(8),
    "five bytes": (5).to_bytes(4, "big") + bytes(8),
    "too large": (5 * 1024 * 1024 + 10 * 1024 + 1).to_bytes(4, "big") + bytes(8),
    "2 GiB": b"\x7f\xff\xff\xff" + GOOD[4:],
    "4 GiB": b"\xff\xff\xff\xff" + GOOD[4:],
    "2 GiB of a SEND and a bit": b"\x80\x00\x00\x00" + GOOD[4:],
    "a command larger than its frame": simple(PING, size=1000),
    "a command of 4 GiB": simple(PING, size=2**32 - 1),
    "no protobuf": simple(b"\xff" * 20),
    "an unknown type": simple(b"\x08\x46"),
    "a SEND without fields": simple(b"\x08\x06"),
    "a SEND with another body": simple(b"\x08\x06\x92\x01\x00"),
    "a SEND cut in its varint": simple(b"\x08\x06\x32\x02\x08\xff" + bytes(20)),
    "a SEND whose length leads back": simple(b"\x08\x06\x32\x10\x08\x01\x10\x01\x4a\xf5" + b"\xff" * 8 + b"\x01" + bytes(4)),
    **{
        f"a {name} without its body": simple(pb.Command(type=kind).SerializeToString())  # type: ignore[arg-type]
        for name, kind in pb.Command.Type.items()
        if name not in ("PING", "PONG")
    },
    "text": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


async def two(world: BrokerWorld) -> tuple[RawClient, RawClient]:
    """One that misbehaves, with a producer and a consumer, and one that must not notice."""
    bad, good = await world.connected("owner"), await world.connected("owner")
    await bad.producer(TOPIC)
    await bad.subscribe(TOPIC, permits=10)
    await good.producer(TOPIC)
    await good.subscribe(TOPIC, permits=10)
    return bad, good


async def unharmed(world: BrokerWorld, good: RawClient) -> None:
    """The other connection publishes and receives, alone."""
    good.write(send_frame(0, b"hello"))
    names = {(await good.next()).name, (await good.next()).name}
    assert names == {"SEND_RECEIPT", "MESSAGE"}
    assert len(world.service.peers.connections) == 1
    topic = world.service.topics.loaded[TOPIC]
    assert len(topic.producers) == 1
    assert len(topic.subscriptions.table["s"].consumers) == 1


@pytest.mark.parametrize("name", BAD)
async def test_what_is_no_frame_ends_its_connection_only(world: BrokerWorld, name: str) -> None:
    bad, good = await two(world)
    bad.write(BAD[name])
    assert await bad.gone() == []
    await unharmed(world, good)


@pytest.mark.parametrize("name", BAD)
async def test_what_came_whole_before_it_counts(world: BrokerWorld, name: str) -> None:
    """A good message in the same write, before the bad frame: stored or not, but never half."""
    bad, _ = await two(world)
    bad.write(GOOD, BAD[name])
    await bad.gone()
    stored = world.service.topics.loaded[TOPIC].ledger_list.entries
    assert stored in (0, 1)


async def test_metadata_that_does_not_fit_is_not_stored(world: BrokerWorld) -> None:
    bad, good = await two(world)
    covered = (1000).to_bytes(4, "big") + b"short"
    command = pb.Command(type=pb.Command.SEND, send=pb.Send(producer_id=1, sequence_id=0)).SerializeToString()
    rest = len(command).to_bytes(4, "big") + command + b"\x0e\x01" + crc32c(covered).to_bytes(4, "big") + covered
    bad.write(len(rest).to_bytes(4, "big") + rest)
    assert await bad.gone() == []
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 0
    await unharmed(world, good)


@pytest.mark.parametrize("seed", range(30))
async def test_a_damaged_stream_harms_nobody_else(world: BrokerWorld, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """A plausible conversation with a few bytes changed: whatever it means now, the broker goes on and logs no traceback."""
    chance = random.Random(seed)
    bad, good = await two(world)
    ack = pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=[pb.MessageId(ledger_id=2, entry_id=0)])
    again = pb.RedeliverUnacknowledgedMessages(consumer_id=1, message_ids=[pb.MessageId(ledger_id=2, entry_id=0)])
    talk = bytearray(
        b"".join(
            [
                GOOD,
                frames.command(pb.Command.FLOW, flow=pb.Flow(consumer_id=1, message_permits=5)),
                frames.command(pb.Command.ACK, ack=ack),
                frames.command(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, redeliver_unacknowledged_messages=again),
                frames.command(pb.Command.SEEK, seek=pb.Seek(consumer_id=1, request_id=3, message_publish_time=5)),
                frames.command(pb.Command.LOOKUP, lookup=pb.Lookup(topic=TOPIC, request_id=4)),
                send_frame(1, b"y"),
            ]
        )
    )
    for _ in range(chance.randint(1, 6)):
        talk[chance.randrange(len(talk))] = chance.randrange(256)
    bad.write(bytes(talk))
    await bad.close()
    assert "NACK" not in await good.quiet()
    topic = world.service.topics.loaded.get(TOPIC)
    assert topic is None or topic.closed is None
    await good.quiet()
    assert [record for record in caplog.records if record.exc_info] == []


async def test_frames_in_single_bytes(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, permits=10)
    for byte in send_frame(0, b"slowly") + send_frame(1, b"and on"):
        client.write(bytes([byte]))
        await client.writer.drain()
    found = {(await client.next()).name for _ in range(4)}
    assert found == {"SEND_RECEIPT", "MESSAGE"}


async def test_a_message_of_the_largest_size(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, permits=10)
    payload = bytes(world.service.settings.message_bytes_max)
    client.write(send_frame(0, payload))
    found = {one.name: one for one in [await client.next(), await client.next()]}
    assert found["MESSAGE"].text == payload
