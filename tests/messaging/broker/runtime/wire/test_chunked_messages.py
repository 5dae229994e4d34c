"""Chunked messages over a raw connection: on every type whole, from memory or from storage, and never in the way."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.adminrpc.topics import StatsAsked
from messaging.broker.core.dispatch.chunk_sets import CHUNK_BYTES
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.chunking import chunk_frame, chunk_frames
from tests.support.clients.consuming import TOPIC, ack, filled, id_of, texts
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.clock import Clock, give
from tests.support.dead_letters import dead_letters, metadata_of, moved, nack, set_policy, subscription_of
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

SHARED, EXCLUSIVE, FAILOVER = pb.Subscribe.Shared, pb.Subscribe.Exclusive, pb.Subscribe.Failover


async def published(world: BrokerWorld, *frames: bytes) -> RawClient:
    client = await filled(world, 0)
    client.write(*frames)
    for _ in frames:
        await client.expect("SEND_RECEIPT")
    return client


@pytest.mark.parametrize("sub_type", [SHARED, EXCLUSIVE, FAILOVER])
async def test_chunks_come_in_order_and_are_gone_when_acknowledged(world: BrokerWorld, sub_type: pb.Subscribe.SubType) -> None:
    await published(world, *chunk_frames(0, b"abcdef", 2), send_frame(1, b"plain"))
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=100, sub_type=sub_type)
    if sub_type == FAILOVER:
        await client.expect("ACTIVE_CONSUMER_CHANGE")
    found = await client.messages(4)
    assert texts(found) == [b"ab", b"cd", b"ef", b"plain"]
    ack(client, id_of(found[2]), request_id=1)
    await client.expect("ACK_RESPONSE")
    assert subscription_of(world).backlog_entries == 1


async def test_from_storage_too_all_chunks_go_to_one_consumer(make_world: MakeWorld) -> None:
    world = await make_world()
    interleaved = [
        frame for pair in zip(chunk_frames(0, b"abcdef", 2), chunk_frames(1, b"ABCDEF", 2), strict=True) for frame in pair
    ]
    await published(world, *interleaved)
    await world.service.topics.loaded[TOPIC].subscriptions.create("s", world.service.topics.loaded[TOPIC].ledger_list.first)
    after = await make_world(after=world)
    one, other = await after.connected("reader"), await after.connected("reader")
    await one.subscribe(TOPIC, permits=1)
    await other.subscribe(TOPIC, permits=1)
    assert texts(await one.messages(3)) == [b"ab", b"cd", b"ef"]
    assert texts(await other.messages(3)) == [b"AB", b"CD", b"EF"]
    assert await one.quiet() == []


async def test_a_message_that_its_producer_never_completed_does_not_hold_mark_delete(world: BrokerWorld) -> None:
    clock = Clock()
    give(world.service, clock)
    producer = await published(world, chunk_frame(0, b"x", 0, 3), chunk_frame(0, b"x", 1, 3), send_frame(1, b"plain"))
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=100)
    found = await client.messages(3)
    ack(client, id_of(found[2]))
    await client.quiet()

    async def upkeep() -> int:
        return (await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))).expired_entries

    clock.pass_(599_000)
    assert await upkeep() == 0
    clock.pass_(2_000)
    assert await upkeep() == 2
    assert subscription_of(world).backlog_entries == 0
    assert subscription_of(world).unacked.messages == 0
    producer.write(send_frame(2, b"later"))
    assert texts(await client.messages(1)) == [b"later"]


async def test_a_dead_letter_is_the_whole_message(world: BrokerWorld) -> None:
    await published(world, *chunk_frames(0, b"abcdef", 2))
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=100)
    await set_policy(world, max_redeliver_count=0)
    found = await client.messages(3)
    nack(client, found[1])
    await moved(world, 3)
    letters = await dead_letters(world, 3)
    assert texts(letters) == [b"ab", b"cd", b"ef"]
    said = [metadata_of(one) for one in letters]
    assert [(one.chunk_id, one.num_chunks_from_msg, one.uuid) for one in said] == [(number, 3, "raw-0") for number in range(3)]
    assert len({one.sequence_id for one in said}) == 1


def sampled(world: BrokerWorld, clock: Clock) -> None:
    """A second passes."""
    clock.pass_(1_000)
    world.service.metering.sample_rates()


async def test_rates_of_chunks_are_in_the_stats(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("messaging.broker.runtime.metering.metering.boottime_ms", clock)
    reader = await world.connected("reader")
    await reader.subscribe(TOPIC, permits=100)
    client = await filled(world, 1)
    await reader.messages(1)
    sampled(world, clock)
    client.write(*chunk_frames(1, b"abcdef", 2), send_frame(2, b"plain"))
    await reader.messages(4)
    for _ in range(4):
        await client.expect("SEND_RECEIPT")
    sampled(world, clock)
    found: dict[str, Any] = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats
    assert found["msgChunkPublished"]
    of_subscription = found["subscriptions"]["s"]
    rates = [one["chunkedMessageRate"] for one in (found["publishers"][0], of_subscription, of_subscription["consumers"][0])]
    assert all(0 < rate < found["msgRateIn"] for rate in rates), rates


async def test_hostile_names_of_messages_are_charged_to_their_tenant(world: BrokerWorld) -> None:
    await published(world, *(chunk_frame(number, b"x", 0, 2, uuid=f"{number}" * 50) for number in range(200)))
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=1_000)
    await client.messages(200)
    held = subscription_of(world)
    await eventually(lambda: held.state.chunks is not None and held.state.chunks.memory_bytes == CHUNK_BYTES * 200)
    world.service.cursor_memory.measure()
    assert world.service.memory_limiter.cursors.tenants["acme"] >= CHUNK_BYTES * 200
