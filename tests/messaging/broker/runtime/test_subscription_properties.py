"""Properties of subscriptions: given with the first SUBSCRIBE, or by administrators; durable."""

from __future__ import annotations

import pytest

from messaging.adminrpc.subscriptions import SubscriptionDelete, SubscriptionPropertiesSet, SubscriptionRef
from messaging.adminrpc.topics import StatsAsked
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.runtime.topics.subscriptions import properties as subscription_properties
from messaging.errors import MagnetarError, NotReady, PreconditionFailed
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST, LATEST, DiskFull
from tests.support.clients.consuming import TOPIC
from tests.support.clients.raw_client import RawClient
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld


def pairs(**properties: str) -> list[pb.KeyValue]:
    return [pb.KeyValue(key=key, value=value) for key, value in properties.items()]


async def shown(world: BrokerWorld, topic: str = TOPIC) -> dict[str, str]:
    answer = await world.admin.subscriptions.properties(SubscriptionRef(topic=topic, subscription="s"))
    return answer.properties


async def client_of(world: BrokerWorld, **properties: str) -> RawClient:
    client = await world.connected("reader")
    await client.subscribe(TOPIC, subscription_properties=pairs(**properties))
    return client


async def test_the_first_properties_stay_until_they_are_replaced(make_world: MakeWorld) -> None:
    """As a Pulsar 4.0.8 broker answered."""
    world = await make_world()
    await client_of(world)
    await client_of(world, a="1")
    assert await shown(world) == {"a": "1"}, "there were none before"
    await client_of(world, a="2", b="3")
    await client_of(world)
    assert await shown(world) == {"a": "1"}
    after = await make_world(after=world)
    await client_of(after, c="4")
    assert await shown(after) == {"a": "1"}
    await after.admin.subscriptions.set_properties(SubscriptionPropertiesSet(topic=TOPIC, subscription="s", properties={"x": "y"}))
    stats = (await after.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats
    assert stats["subscriptions"]["s"]["subscriptionProperties"] == {"x": "y"}
    last = await make_world(after=after)
    await client_of(last)
    assert await shown(last) == {"x": "y"}


async def test_of_a_partitioned_topic_every_partition_has_them(world: BrokerWorld) -> None:
    name = parse_topic("persistent://acme/orders/p")
    await world.service.topics.partitioned.create(name, 2, {})
    client = await world.connected("owner")
    for index in range(2):
        await client.subscribe(str(name.of_partition(index)), consumer_id=index)
    await world.admin.subscriptions.set_properties(
        SubscriptionPropertiesSet(topic=str(name), subscription="s", properties={"a": "b"})
    )
    assert [await shown(world, str(name.of_partition(index))) for index in range(2)] == [{"a": "b"}] * 2
    await world.service.topics.partitioned.grow(name, 3)
    assert await shown(world, str(name.of_partition(2))) == {"a": "b"}


async def test_a_reader_has_properties_while_it_lives(world: BrokerWorld) -> None:
    client = await world.connected("reader")
    await client.subscribe(TOPIC, durable=False, sub_type=pb.Subscribe.Exclusive)
    await world.admin.subscriptions.set_properties(SubscriptionPropertiesSet(topic=TOPIC, subscription="s", properties={"a": "b"}))
    assert await shown(world) == {"a": "b"}
    assert await world.meta.subscriptions(TOPIC) == []


async def test_properties_are_charged_until_their_subscription_or_topic_is_gone(make_world: MakeWorld) -> None:
    """9,500 subscriptions with 32 KiB each took 311 MB that nobody counted."""
    world = await make_world()
    size_bytes = 8000  # more than anything else of the tenant

    def charged(world: BrokerWorld) -> int:
        return world.service.memory_limiter.records.tenants.get("acme", 0) // size_bytes

    client = await world.connected("owner")
    await client.subscribe(TOPIC, "s", subscription_properties=pairs(a="x" * size_bytes))
    await client.subscribe(TOPIC, "r", consumer_id=2, durable=False, subscription_properties=pairs(a="x" * size_bytes))
    assert charged(world) == 2
    await client.close()
    await eventually(lambda: charged(world) == 1)
    after = await make_world(after=world)
    await (await after.connected("owner")).subscribe(TOPIC, "s")
    assert charged(after) == 1, "of what was stored"
    await after.service.topics.unload(parse_topic(TOPIC))
    assert charged(after) == 0
    assert await shown(after) == {"a": "x" * size_bytes}
    assert charged(after) == 1
    await after.admin.subscriptions.set_properties(SubscriptionPropertiesSet(topic=TOPIC, subscription="s", properties={"x": "y"}))
    assert charged(after) == 0
    for index in range(3):
        await (await after.connected("owner")).subscribe(TOPIC, f"s{index}", subscription_properties=pairs(a="x" * size_bytes))
    await after.admin.subscriptions.delete(SubscriptionDelete(topic=TOPIC, subscription="s0", force=True))
    assert charged(after) == 2
    await after.service.topics.delete(parse_topic(TOPIC), force=True)
    assert charged(after) == 0


async def test_all_properties_of_a_topic_have_a_limit(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_properties, "SUBSCRIPTIONS_PAIRS_BYTES_MAX", 2500)
    records = world.service.memory_limiter.records
    topic = await world.service.topics.get(parse_topic(TOPIC), create=True)
    for name in ("a", "b"):
        await topic.subscriptions.create(name, LATEST, {"p": "x" * 1000})
    used_bytes = records.used_bytes
    with pytest.raises(PreconditionFailed, match="at most 2500"):
        await topic.subscriptions.create("c", LATEST, {"p": "x" * 1000})
    with pytest.raises(PreconditionFailed, match="at most 2500"):
        topic.subscriptions.create_reader("c", LATEST, {"p": "x" * 1000})
    with pytest.raises(PreconditionFailed, match="at most 2500"):
        await topic.subscriptions.set_properties(topic.subscriptions.table["a"], {"p": "x" * 2000})
    assert sorted(topic.subscriptions.table) == ["a", "b"] and records.used_bytes == used_bytes
    assert len(topic.subscriptions.table["a"].properties["p"]) == 1000
    await topic.subscriptions.set_properties(topic.subscriptions.table["a"], {})
    await topic.subscriptions.create("c", LATEST, {"p": "x" * 1000})
    monkeypatch.setattr(records, "limit_bytes", 0)
    with pytest.raises(NotReady, match="no memory"):
        await topic.subscriptions.set_properties(topic.subscriptions.table["a"], {"p": "x"})


async def test_a_subscription_that_could_not_be_stored_is_not_charged(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await world.service.topics.get(parse_topic(TOPIC), create=True)

    async def full(*_: object, **__: object) -> None:
        raise DiskFull("no space")

    monkeypatch.setattr(world.service.storage.meta, "create_subscription", full)
    used_bytes = world.service.memory_limiter.records.used_bytes
    with pytest.raises(MagnetarError):
        await topic.subscriptions.create("s", LATEST, {"p": "x" * 1000})
    assert world.service.memory_limiter.records.used_bytes == used_bytes


async def test_properties_of_a_reader_that_sought_are_given_back_once(world: BrokerWorld) -> None:
    """Its topic may be unloaded while it is waited for."""
    client = await world.connected("owner")
    await client.subscribe(TOPIC, "r", durable=False, subscription_properties=pairs(a="x" * 8000))
    topic = world.service.topics.loaded[TOPIC]
    reader = topic.subscriptions.find("r")
    assert reader is not None
    await topic.subscriptions.seek(reader, SeekTarget(EARLIEST))
    await world.service.topics.unload(topic.name)
    await client.close()
    records = world.service.memory_limiter.records
    await eventually(lambda: records.used_bytes == 0)
    topic.subscriptions.drop_if_idle(reader)
    assert (records.used_bytes, records.tenants) == (0, {})
