"""Messages that are refused while those before them wait for a rate limit: each refusal waits for its place.

Seen: refusals were not counted, so that the connection was read on and they took any amount of memory."""

from __future__ import annotations

from messaging.broker.core.memory.ingress_limiter import PARKED_BYTES_MAX
from messaging.broker.runtime.topics.limits.publish_limits import ACT_BYTES
from messaging.protocol import pulsar_pb2 as pb
from tests.support.brokers.virtual_broker import VirtualClient, VirtualWorld, virtually
from tests.support.clients.raw_client import send_frame

READ = 500  # refused messages at a time


def damaged(count: int) -> bytes:
    frame = send_frame(9, b"x")
    return (frame[:-1] + b"y") * count  # of which the checksum is wrong


async def refused_until_paused(world: VirtualWorld) -> tuple[VirtualClient, int]:
    """Many turns, each with a read where the connection is read; the number of reads."""
    await world.set_policies(publish_rate_messages=1)
    client = await world.producing()
    client.publish(0, 100)
    reads = 0
    for _ in range(60):
        if client.receiver.reading:
            client.data_received(damaged(READ))
            reads += 1
        await world.pass_s(0.01)
    return client, reads


@virtually()
async def test_refusals_that_wait_pause_their_connection(world: VirtualWorld) -> None:
    client, reads = await refused_until_paused(world)
    assert not client.receiver.reading
    assert PARKED_BYTES_MAX < reads * READ * ACT_BYTES + 100 * 100 < 2 * PARKED_BYTES_MAX
    await world.pass_s(120)
    assert client.stored() == 100
    assert client.receiver.reading
    assert sum(answer.type == pb.Command.SEND_ERROR for answer in client.others) == reads * READ
    assert (world.service.ingress_limiter.parked_bytes, world.service.memory_limiter.ingress.used_bytes) == (0, 0)


@virtually()
async def test_refusals_of_a_producer_that_leaves_are_forgotten(world: VirtualWorld) -> None:
    client, _ = await refused_until_paused(world)
    client.connection_lost(None)
    await world.pass_s(1)
    assert (world.service.ingress_limiter.parked_bytes, world.service.memory_limiter.ingress.used_bytes) == (0, 0)
