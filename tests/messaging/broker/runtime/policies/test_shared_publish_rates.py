"""Publish rates of the broker, of each tenant, and of topics by a setting; in virtual time."""

from __future__ import annotations

import pytest

from messaging.limits.sizes import BATCH_MESSAGES_MAX, BATCHED_MESSAGE_BYTES_MIN
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.brokers.virtual_broker import TOPIC, VirtualWorld, virtually

OTHER = f"{TOPIC}-other"


@virtually(max_publish_rate_per_topic_in_messages=100, max_publish_rate_per_topic_in_bytes=1_000_000)
async def test_the_settings_are_the_default_of_the_policy(world: VirtualWorld) -> None:
    client = await world.producing()
    client.publish(0, 5000)
    await world.pass_s(10)
    assert client.stored() == pytest.approx(1000, rel=0.02)
    await world.set_policies(publish_rate_messages=0)
    await world.pass_s(0.1)
    assert client.stored() == 5000
    assert (await world.loaded()).publisher.limits is not None, "the limit of bytes holds"
    client.publish(5000, 5002, b"x" * 2_000_000)
    await world.pass_s(1)
    assert client.stored() == 5001


@virtually(broker_publisher_throttling_max_message_rate=1000, tenant_publish_rate_in_messages=400)
async def test_broker_and_tenants_have_limits_of_their_own(world: VirtualWorld) -> None:
    topics = [TOPIC, OTHER, "persistent://other/things/t", "persistent://public/default/t"]
    clients = [await world.producing(topic) for topic in topics]
    for client in clients:
        client.publish(0, 8000)
    await world.pass_s(10)
    counts = [client.stored() for client in clients]
    assert sum(counts) == pytest.approx(10_000, rel=0.02)
    assert [counts[0] + counts[1], counts[2], counts[3]] == pytest.approx([3333] * 3, rel=0.05)


@virtually()
async def test_non_persistent_topics_obey(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=100)
    client = await world.producing("non-persistent://acme/orders/t")
    await client.subscribe("non-persistent://acme/orders/t", subscription="s")
    client.flow(10_000)
    client.publish(0, 2000)
    await world.pass_s(10)
    assert client.stored() == pytest.approx(1000, rel=0.02)
    assert client.messages[1] == client.stored()
    await world.pass_s(11)
    assert client.stored() == 2000
    assert world.service.memory_limiter.ingress.used_bytes == 0


@virtually(namespace_publish_rate_in_messages=500, namespace_publish_rate_in_bytes=10**9)
async def test_namespaces_have_limits_of_their_own(world: VirtualWorld) -> None:
    topics = [TOPIC, OTHER, "persistent://acme/strict/t"]
    await world.feed(("namespace", "acme/strict", {"policies": {}}))
    clients = [await world.producing(topic) for topic in topics]
    for client in clients:
        client.publish(0, 8000)
    await world.pass_s(10)
    counts = [client.stored() for client in clients]
    assert counts == pytest.approx([2500, 2500, 5000], rel=0.03)


@virtually(broker_publisher_throttling_max_byte_rate=1_000_000, tenant_publish_rate_in_bytes=300_000)
async def test_broker_and_tenants_have_limits_in_bytes(world: VirtualWorld) -> None:
    topics = [TOPIC, "persistent://other/things/t", "persistent://public/default/t"]
    for topic in topics:
        (await world.producing(topic)).publish(0, 1000, b"x" * 5000)
    await world.pass_s(10)
    totals = [(await world.loaded(topic)).totals.bytes_in for topic in topics]
    assert totals == pytest.approx([3_000_000] * 3, rel=0.02)


@virtually(broker_publisher_throttling_max_message_rate=1000)
async def test_a_send_that_says_that_it_holds_very_many_messages_is_a_debt_of_its_tenant(world: VirtualWorld) -> None:
    """While it is compressed nobody can count them. Others were held up for two minutes by one."""
    greedy = await world.producing("persistent://other/things/t")
    metadata = pb.Metadata(producer_name="greedy", sequence_id=0, publish_time=1, num_messages_in_batch=BATCH_MESSAGES_MAX)
    metadata.compression, metadata.uncompressed_size = pb.LZ4, BATCH_MESSAGES_MAX * BATCHED_MESSAGE_BYTES_MIN
    client = await world.producing()
    for sequence_id in range(3):
        metadata.sequence_id = sequence_id
        greedy.data_received(frames.build_send(1, sequence_id, metadata, b"x", BATCH_MESSAGES_MAX))
    client.publish(0, 8000)
    await world.pass_s(10)
    assert greedy.stored() == 1
    assert client.stored() == pytest.approx(5000, rel=0.03)
