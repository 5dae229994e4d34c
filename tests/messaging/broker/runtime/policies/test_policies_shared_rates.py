"""What rates of a whole namespace and a whole tenant do, exactly: in virtual time; see `test_policies.py`."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.protocol import pulsar_pb2 as pb
from tests.support.brokers.virtual_broker import TOPIC, VirtualClient, VirtualWorld, virtually

TOPICS = (TOPIC, f"{TOPIC}-2", "persistent://acme/others/t", "persistent://other/things/t")
PAYLOAD = b"x" * 1000
MANY = 1_000_000


async def set_on(world: VirtualWorld, level: str, **policies: Any) -> None:
    """On acme/orders, or on acme."""
    await world.feed(("namespace", "acme/others", {}))
    if level == "namespace":
        await world.set_policies(**policies)
    else:
        await world.feed(("tenant", "acme", {"policies": policies}))


async def published_in_10_s(world: VirtualWorld) -> list[int]:
    """By a producer of each topic, all of which have more to send."""
    await world.pass_s(1)
    clients = [await world.producing(topic) for topic in TOPICS]
    for client in clients:
        client.publish(0, 2500, PAYLOAD)
    await world.pass_s(10)
    return [client.stored() for client in clients]


async def consuming(world: VirtualWorld, topic: str) -> VirtualClient:
    client = world.client()
    await client.subscribe(topic, sub_type=pb.Subscribe.Shared)
    client.flow(MANY)
    return client


async def delivered_in_10_s(world: VirtualWorld, level: str, **policies: Any) -> list[int]:
    await world.feed(("namespace", "acme/others", {}))
    for topic in TOPICS:
        client = await world.producing(topic)
        for first in range(0, 2500, 500):
            client.publish(first, first + 500, PAYLOAD)
            await world.pass_s(0.1)
        assert client.stored() == 2500
    await set_on(world, level, **policies)
    clients = [await consuming(world, topic) for topic in TOPICS]
    await world.pass_s(10)
    for client in clients:
        client.read()
    return [client.messages.get(1, 0) for client in clients]


@virtually()
async def test_policy_namespace_publish_rate_messages_limits_its_topics_together(world: VirtualWorld) -> None:
    await set_on(world, "namespace", namespace_publish_rate_messages=100)
    first, second, *others = await published_in_10_s(world)
    assert first + second == pytest.approx(1000, rel=0.02)
    assert [first, second] == pytest.approx([500, 500], rel=0.1)
    assert others == [2500, 2500]


@virtually()
async def test_set_on_the_tenant_each_namespace_has_the_rate_for_itself(world: VirtualWorld) -> None:
    await set_on(world, "tenant", namespace_publish_rate_messages=100)
    first, second, third, fourth = await published_in_10_s(world)
    assert [first + second, third] == pytest.approx([1000, 1000], rel=0.02)
    assert fourth == 2500
    await set_on(world, "namespace", namespace_publish_rate_messages=0)  # the nearer level wins
    await world.pass_s(0.1)
    assert (await world.loaded()).ledger_list.entries == 2500


@virtually()
async def test_policy_namespace_publish_rate_bytes_limits_its_topics_together(world: VirtualWorld) -> None:
    await set_on(world, "namespace", namespace_publish_rate_bytes=100_000)
    _, _, *others = await published_in_10_s(world)
    size = sum([(await world.loaded(topic)).totals.bytes_in for topic in TOPICS[:2]])
    assert size == pytest.approx(1_000_000, rel=0.02)
    assert others == [2500, 2500]


@virtually()
async def test_policy_tenant_publish_rate_messages_limits_its_namespaces_together(world: VirtualWorld) -> None:
    await set_on(world, "tenant", tenant_publish_rate_messages=150)
    *of_acme, other = await published_in_10_s(world)
    assert sum(of_acme) == pytest.approx(1500, rel=0.02)
    assert other == 2500


@virtually()
async def test_policy_tenant_publish_rate_bytes_limits_its_namespaces_together(world: VirtualWorld) -> None:
    await set_on(world, "tenant", tenant_publish_rate_bytes=150_000)
    *_, other = await published_in_10_s(world)
    size = sum([(await world.loaded(topic)).totals.bytes_in for topic in TOPICS[:3]])
    assert size == pytest.approx(1_500_000, rel=0.02)
    assert other == 2500


@virtually()
async def test_policy_namespace_dispatch_rate_messages_limits_its_topics_together(world: VirtualWorld) -> None:
    first, second, *others = await delivered_in_10_s(world, "namespace", namespace_dispatch_rate_messages=100)
    assert first + second == pytest.approx(1000, rel=0.03)
    assert others == [2500, 2500]


@virtually()
async def test_policy_namespace_dispatch_rate_bytes_limits_its_topics_together(world: VirtualWorld) -> None:
    *_, other, last = await delivered_in_10_s(world, "namespace", namespace_dispatch_rate_bytes=100_000)
    size = sum([(await world.loaded(topic)).totals.bytes_out for topic in TOPICS[:2]])
    assert size == pytest.approx(1_000_000, rel=0.03)
    assert (other, last) == (2500, 2500)


@virtually()
async def test_policy_tenant_dispatch_rate_messages_limits_its_namespaces_together(world: VirtualWorld) -> None:
    *of_acme, other = await delivered_in_10_s(world, "tenant", tenant_dispatch_rate_messages=150)
    assert sum(of_acme) == pytest.approx(1500, rel=0.03)
    assert other == 2500


@virtually()
async def test_policy_tenant_dispatch_rate_bytes_limits_its_namespaces_together(world: VirtualWorld) -> None:
    *_, other = await delivered_in_10_s(world, "tenant", tenant_dispatch_rate_bytes=150_000)
    size = sum([(await world.loaded(topic)).totals.bytes_out for topic in TOPICS[:3]])
    assert size == pytest.approx(1_500_000, rel=0.03)
    assert other == 2500


@virtually(tenant_publish_rate_in_messages=100)
async def test_changes_of_a_tenants_rate_take_effect_at_once(world: VirtualWorld) -> None:
    """The setting is the default of every tenant."""
    client = await world.producing()
    client.publish(0, 20_000)
    await world.pass_s(10)
    assert client.stored() == pytest.approx(1000, rel=0.02)
    await world.feed(("tenant", "acme", {"policies": {"tenant_publish_rate_messages": 1000}}))
    await world.pass_s(10)
    assert client.stored() == pytest.approx(11_000, rel=0.02)
    await world.feed(("tenant", "acme", {"policies": {"tenant_publish_rate_messages": -1}}))
    await world.pass_s(0.1)
    assert client.stored() == 20_000
    assert (await world.loaded()).publisher.limits is None
