"""Topics that are created by using them: partitioned or not, and those that are called like partitions."""

from __future__ import annotations

import asyncio

import pytest

from messaging.adminrpc.subscriptions import SubscriptionCreate
from messaging.adminrpc.topics import PartitionsGet, TopicCreate, TopicDelete
from messaging.broker.runtime.topics.partitions import partitions as partitions_module
from messaging.clock import boottime_ms
from messaging.errors import Conflict, InvalidValue, MagnetarError, PreconditionFailed, TopicNotFound
from messaging.limits.sizes import PARTITIONS_MAX
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.settings import ConfigError, Settings, load
from tests.support.clients.raw_client import RawClient
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC = "persistent://acme/orders/t"
NAME = parse_topic(TOPIC)
C = pb.Command


async def partitions(client: RawClient, topic: str = TOPIC, **fields: bool) -> int:
    """As clients ask before they produce or consume; below 0: the error."""
    client.say(C.PARTITIONED_METADATA, topic=topic, **fields)
    answer = await client.expect("PARTITIONED_METADATA_RESPONSE")
    return -answer.error if answer.HasField("error") else answer.partitions


async def auto_partitions(world: BrokerWorld, count: int, **policies: object) -> None:
    await world.feed(("namespace", "acme/orders", {"policies": {"auto_topic_partitions": count, **policies}}))


# --- called like a partition ---


async def test_a_topic_may_be_called_like_a_partition(world: BrokerWorld) -> None:
    """As by Pulsar: it is a plain topic, and no partitioned topic can be made beside it."""
    client = await world.connected("owner")
    assert await partitions(client, f"{TOPIC}-partition-3") == 0
    await client.producer(f"{TOPIC}-partition-3")
    assert await world.meta.list_topics("acme/orders") == [f"{TOPIC}-partition-3"]
    with pytest.raises(TopicNotFound):
        await world.admin.topics.partitions(PartitionsGet(topic=TOPIC))
    with pytest.raises(Conflict, match="called like a partition"):
        await world.admin.topics.create(TopicCreate(topic=TOPIC, partitions=2))
    await world.admin.topics.create(TopicCreate(topic=TOPIC))
    with pytest.raises(PreconditionFailed):
        await world.admin.topics.create(TopicCreate(topic=f"{TOPIC}-partition-0"))


async def test_partitions_of_a_deleted_topic_do_not_come_back(world: BrokerWorld) -> None:
    """Its clients try to open them again for a while, each by its own name."""
    await world.admin.topics.create(TopicCreate(topic=TOPIC, partitions=2))
    client = await world.connected("owner")
    await client.producer(f"{TOPIC}-partition-1")
    await world.admin.topics.delete(TopicDelete(topic=TOPIC, partitioned=True, force=True))
    await client.expect("CLOSE_PRODUCER")
    client.say(C.PRODUCER, topic=f"{TOPIC}-partition-1", producer_id=2)
    assert (await client.expect("ERROR")).error == pb.TopicNotFound
    assert await world.meta.list_all_topics() == []
    await world.admin.topics.create(TopicCreate(topic=TOPIC, partitions=1))
    await world.admin.topics.delete(TopicDelete(topic=TOPIC, partitioned=True))
    await world.admin.topics.create(TopicCreate(topic=TOPIC))
    await client.producer(TOPIC, 3)


async def test_after_its_clients_gave_up_the_name_is_free(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.admin.topics.create(TopicCreate(topic=TOPIC, partitions=1))
    await world.admin.topics.delete(TopicDelete(topic=TOPIC, partitioned=True))
    partitioned = world.service.topics.partitioned
    assert partitioned.deleted_lately(NAME)
    passed_ms = boottime_ms() + partitions_module.RETURN_MS
    monkeypatch.setattr(partitions_module, "boottime_ms", lambda: passed_ms)
    assert not partitioned.deleted_lately(NAME)
    client = await world.connected("owner")
    await client.producer(f"{TOPIC}-partition-0")


async def test_only_so_many_deleted_topics_are_remembered(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions_module, "DELETED_MAX", 2)
    names = [f"{TOPIC}{number}" for number in range(3)]
    for name in names:
        await world.admin.topics.create(TopicCreate(topic=name, partitions=1))
        await world.admin.topics.delete(TopicDelete(topic=name, partitioned=True))
    assert [world.service.topics.partitioned.deleted_lately(parse_topic(name)) for name in names] == [False, True, True]


# --- partitioned ---


async def test_policy_auto_topic_partitions_creates_partitioned_topics(world: BrokerWorld) -> None:
    await auto_partitions(world, 3)
    client = await world.connected("owner")
    assert await partitions(client, metadata_auto_creation_enabled=False) == -pb.TopicNotFound
    assert await partitions(client) == 3
    assert await partitions(client) == 3
    assert await world.meta.list_topics("acme/orders") == [f"{TOPIC}-partition-{index}" for index in range(3)]
    await client.producer(f"{TOPIC}-partition-2")
    assert await partitions(client, f"{TOPIC}-partition-3") == -pb.TopicNotFound
    # What has the name of a partition is none of a topic that does not exist: a plain one.
    assert await partitions(client, "persistent://acme/orders/u-partition-0") == 0
    await client.producer("persistent://acme/orders/u-partition-0", 2)
    assert [one.name for one in await world.meta.list_partitioned("acme/orders")] == [TOPIC]


async def test_existing_plain_topics_stay_plain(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await auto_partitions(world, 3)
    assert await partitions(client) == 0


async def test_without_auto_creation_none_is_made(world: BrokerWorld) -> None:
    await auto_partitions(world, 3, auto_topic_creation=False)
    client = await world.connected("owner")
    assert await partitions(client) == -pb.TopicNotFound
    assert await world.meta.list_partitioned("acme/orders") == []


async def test_clients_that_ask_at_the_same_time_get_one_topic(world: BrokerWorld) -> None:
    await auto_partitions(world, 4)
    clients = [await world.connected("owner") for _ in range(5)]
    assert await asyncio.gather(*map(partitions, clients)) == [4] * 5
    assert len(await world.meta.list_topics("acme/orders")) == 4


async def test_by_the_brokers_default(make_world: MakeWorld) -> None:
    world = await make_world(auto_topic_partitions=2)
    client = await world.connected("owner")
    assert await partitions(client) == 2
    await auto_partitions(world, 0)
    assert await partitions(client, f"{TOPIC}-plain") == 0


async def test_subscriptions_over_the_admin_api_create_them_too(world: BrokerWorld) -> None:
    await auto_partitions(world, 2)
    await world.admin.subscriptions.create(SubscriptionCreate(topic=TOPIC, subscription="s", ledger_id=-1, entry_id=-1))
    for index in range(2):
        assert [one.name for one in await world.meta.subscriptions(f"{TOPIC}-partition-{index}")] == ["s"]
    found = await world.admin.topics.partitions(PartitionsGet(topic=f"{TOPIC}2", check_auto_creation=True))
    assert found.partitions == 2


async def test_the_namespaces_limit_holds_for_all_partitions(world: BrokerWorld) -> None:
    await auto_partitions(world, 3, max_topics_per_namespace=5)
    client = await world.connected("owner")
    assert await partitions(client) == 3
    assert await partitions(client, f"{TOPIC}2") < 0
    assert len(await world.meta.list_topics("acme/orders")) == 3
    assert len(await world.meta.list_partitioned("acme/orders")) == 1, "nothing is left of what was refused"


async def test_no_topic_gets_more_partitions_than_allowed(make_world: MakeWorld) -> None:
    world = await make_world(partitions_per_topic_max=3)
    await auto_partitions(world, 4)
    client = await world.connected("owner")
    assert await partitions(client) < 0
    with pytest.raises(InvalidValue, match="partitions_per_topic_max = 3"):
        await world.admin.topics.create(TopicCreate(topic=TOPIC, partitions=4))
    await world.admin.topics.create(TopicCreate(topic=TOPIC, partitions=3))
    with pytest.raises(PreconditionFailed, match="partitions_per_topic_max = 3"):
        await world.service.topics.partitioned.grow(NAME, 4)


async def test_policy_max_partitions_per_topic_refuses_more(world: BrokerWorld) -> None:
    for kind, key, state in (("namespace", "acme/orders", {}), ("tenant", "acme", {"admin_roles": ["owner@acme"]})):
        await world.feed((kind, key, {**state, "policies": {"max_partitions_per_topic": 3}}))
        topic = f"{TOPIC}-{kind}"
        with pytest.raises(PreconditionFailed, match=f"max_partitions_per_topic = 3, set on the {kind}"):
            await world.admin.topics.create(TopicCreate(topic=topic, partitions=4))
        await world.admin.topics.create(TopicCreate(topic=topic, partitions=3))
        with pytest.raises(PreconditionFailed, match="max_partitions_per_topic = 3"):
            await world.service.topics.partitioned.grow(parse_topic(topic), 4)
        await world.feed((kind, key, {**state, "policies": {}}))
        await world.service.topics.partitioned.grow(parse_topic(topic), 4)


def test_the_settings_know_the_limit_of_the_admin_api() -> None:
    assert Settings().partitions_per_topic_max == PARTITIONS_MAX
    with pytest.raises(ConfigError, match="partitions_per_topic_max"):
        load({}, partitions_per_topic_max=PARTITIONS_MAX + 1)


async def test_they_count_towards_the_rate_of_auto_creation(make_world: MakeWorld) -> None:
    world = await make_world(auto_created_topics_burst=1, auto_created_topics_per_second=1, auto_topic_partitions=2)
    first, second = (world.service.partition_count(parse_topic(f"{TOPIC}{number}"), auto_create=True) for number in range(2))
    assert await first == 2
    with pytest.raises(MagnetarError, match="create topics faster"):
        await second


# --- permissions ---


async def test_creating_by_use_needs_what_the_use_needs_and_nothing_more(world: BrokerWorld) -> None:
    """As in Pulsar. Who may do nothing on a topic creates none by asking for its partitions."""
    grants = {"writer@acme": ["produce"], "reader@acme": ["consume"]}
    await world.feed(("namespace", "acme/orders", {"grants": grants, "policies": {"auto_topic_partitions": 2}}))
    assert await partitions(await world.connected("stranger")) == -pb.AuthorizationError
    assert await world.meta.list_partitioned("acme/orders") == []
    for number, key in enumerate(("writer", "reader")):
        assert await partitions(await world.connected(key), f"{TOPIC}{number}") == 2
    assert len(await world.meta.list_partitioned("acme/orders")) == 2
