"""Frames that begin and hardly go on stopped the other producers of their tenant for 80 s: each held memory for all of its size."""

from __future__ import annotations

from messaging.broker.runtime.wire.connection import Connection
from tests.support.clients.raw_client import send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC = "persistent://acme/orders/t"
LARGE = send_frame(0, bytes(1 << 20))


def look(world: BrokerWorld) -> None:
    """One window is over."""
    for peer in list(world.service.peers.connections):
        peer.liveness.check_progress()


async def test_frames_that_do_not_go_on_leave_room_for_the_tenants_other_producers(make_world: MakeWorld) -> None:
    world = await make_world(memory_budget_bytes=16 << 20, message_bytes_max=1 << 20)
    account = world.service.memory_limiter.ingress
    for _ in range(20):
        slow = await world.connected("owner")
        await slow.producer(TOPIC)
        slow.write(LARGE[:100])
    good = await world.connected("owner")
    await good.producer(TOPIC)
    await eventually(lambda: world.service.ingress_limiter.paused > 0)
    assert 0 < account.tenants["acme"] <= account.limit_bytes // 4
    for number in range(50):
        good.write(send_frame(number, bytes(1000)))
        await good.expect("SEND_RECEIPT")


async def test_a_frame_that_does_not_go_on_ends_its_connection(world: BrokerWorld) -> None:
    slow, good = await world.connected("owner"), await world.connected("owner")
    await slow.producer(TOPIC)
    await good.producer(TOPIC)
    slow.write(LARGE[:8192])
    await eventually(lambda: world.service.memory_limiter.ingress.used_bytes > 1 << 20)
    look(world)
    slow.write(LARGE[8192:9000])
    (peer,) = [
        connection
        for connection in world.service.peers.connections
        if isinstance(connection, Connection) and connection.receiver.progress
    ]
    await eventually(lambda: peer.receiver.progress is not None and peer.receiver.progress.have_bytes == 9000)
    look(world)
    assert await slow.gone() == []
    assert world.service.memory_limiter.ingress.used_bytes == 0
    assert world.service.peers.refused["a frame came too slowly"] == 1
    good.write(send_frame(0, b"x"))
    await good.expect("SEND_RECEIPT")


async def test_a_frame_that_goes_on_is_waited_for(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    (peer,) = [connection for connection in world.service.peers.connections if isinstance(connection, Connection)]
    for start in range(0, len(LARGE), 256 << 10):
        client.write(LARGE[start : start + (256 << 10)])
        have = start + (256 << 10)
        if have < len(LARGE):
            await eventually(lambda have=have: getattr(peer.receiver.progress, "have_bytes", 0) == have)  # type: ignore[misc]
            look(world)
    await client.expect("SEND_RECEIPT")


async def test_a_frame_in_tiny_reads_is_few_objects(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    (peer,) = [connection for connection in world.service.peers.connections if isinstance(connection, Connection)]
    frame = send_frame(0, bytes(10_000))
    for at in range(0, len(frame) - 2, 2):
        peer.data_received(frame[at : at + 2])
        assert peer.receiver.inbound.pieces <= 1025
    peer.data_received(frame[at + 2 :])
    await client.expect("SEND_RECEIPT")
