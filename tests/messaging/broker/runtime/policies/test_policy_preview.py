"""A preview says what a change of policies does, before it is made: what it names happens when the change is made."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.adminrpc.policies import PolicyPreview, PolicyPreviewAnswer
from messaging.adminrpc.subscriptions import SubscriptionSkip
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import TopicNotFound
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"


@pytest.fixture
def clock(world: BrokerWorld) -> Clock:
    clock = Clock()
    give(world.service, clock)
    return clock


async def preview(world: BrokerWorld, topic: str = "", subscription: str = "", **policies: Any) -> PolicyPreviewAnswer:
    asked = PolicyPreview(namespace="acme/orders", topic=topic, subscription=subscription, policies=policies)
    return await world.admin.policies.preview(asked)


def sentences(found: PolicyPreviewAnswer) -> list[str]:
    return [one.sentence for one in found.effects]


async def published(world: BrokerWorld, count: int, size: int = 100) -> tuple[RawClient, Topic]:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await topic.subscriptions.create("s", EARLIEST)
    for index in range(count):
        client.write(send_frame(index, b"x" * size))
        await client.expect("SEND_RECEIPT")
    return client, topic


@pytest.mark.parametrize("topic", ["", TOPIC])
async def test_producers_that_would_be_refused(world: BrokerWorld, topic: str) -> None:
    client = await world.connected("owner")
    for number in range(4):
        await client.producer(TOPIC, number)
    found = await preview(world, topic, max_producers_per_topic=1)
    assert sentences(found) == ["3 producers of 4 would be refused when connecting again"]
    assert (found.effects[0].topic, found.topics_looked_at, found.topics_left_out) == (TOPIC, 1, 0)
    assert world.service.policies.value("max_producers_per_topic", parse_topic(TOPIC)) == 0, "nothing is changed"


async def test_a_topic_that_has_its_own_is_not_touched_by_its_namespace(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    for number in range(3):
        await client.producer(TOPIC, number)
    await world.feed(("topic", TOPIC, {"policies": {"max_producers_per_topic": 9}}))
    assert sentences(await preview(world, max_producers_per_topic=1)) == []
    assert len(sentences(await preview(world, TOPIC, max_producers_per_topic=1))) == 1


async def test_unsetting_brings_back_what_is_inherited(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await set_policies(world, max_producers_per_topic=1)
    await world.feed(("topic", TOPIC, {"policies": {"max_producers_per_topic": 9}}))
    for number in range(3):
        await client.producer(TOPIC, number)
    assert sentences(await preview(world, TOPIC, max_producers_per_topic=None)) == [
        "2 producers of 3 would be refused when connecting again"
    ]


async def test_what_would_expire_expires(world: BrokerWorld, clock: Clock) -> None:
    await published(world, 3)
    clock.pass_(60_000)
    found = await preview(world, message_ttl_s=30)
    assert sentences(found) == ["3 unacknowledged entries of subscription s would expire"]
    assert sentences(await preview(world, message_ttl_s=90)) == []
    await set_policies(world, message_ttl_s=30)
    result = await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))
    assert result.expired_entries == found.effects[0].affected


async def test_what_retention_would_delete_is_deleted(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, retention_time_min=-1, retention_size_mb=-1)
    _, topic = await published(world, 3, 1000)
    await topic.ledger.roll()
    await world.admin.subscriptions.skip(SubscriptionSkip(topic=TOPIC, subscription="s"))
    clock.pass_(3_600_000)
    found = await preview(world, retention_time_min=30)
    (sentence,) = sentences(found)
    stored = f"{topic.ledger.stored_bytes / 1024:.1f} KiB"
    assert sentence.startswith(f"{found.effects[0].affected / 1024:.1f} KiB of the {stored} stored, acknowledged by all,")
    await set_policies(world, retention_time_min=30, retention_size_mb=-1)
    result = await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))
    assert result.freed_bytes == found.effects[0].affected


async def test_a_backlog_over_its_quota(world: BrokerWorld, clock: Clock) -> None:
    await published(world, 20, 1000)
    clock.pass_(60_000)
    assert "publishing would be refused" in sentences(await preview(world, backlog_quota_bytes=10_000))[0]
    evict: dict[str, Any] = {"backlog_quota_bytes": 10_000, "backlog_quota_bytes_policy": "consumer_backlog_eviction"}
    assert "would be evicted" in sentences(await preview(world, TOPIC, **evict))[0]
    assert "is 60 s old" in sentences(await preview(world, backlog_quota_age_s=30))[0]


async def test_too_many_topics(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    for number in range(3):
        await client.producer(f"{TOPIC}-{number}", number)
    assert sentences(await preview(world, max_topics_per_namespace=2)) == [
        "3 topics of namespace acme/orders would stay, and no other could be created"
    ]


async def test_topics_that_are_not_loaded_are_said_to_be_left_out(world: BrokerWorld) -> None:
    await published(world, 1)
    await world.service.topics.unload(parse_topic(TOPIC))
    found = await preview(world, message_ttl_s=1)
    assert (found.topics_looked_at, found.topics_left_out) == (0, 1)
    assert (await preview(world, TOPIC, message_ttl_s=1)).topics_looked_at == 1, "of one topic it is loaded"


async def test_the_partitions_of_a_topic(world: BrokerWorld) -> None:
    await world.service.topics.partitioned.create(parse_topic(TOPIC), 3, {})
    client = await world.connected("owner")
    for number in range(2):
        await client.producer(f"{TOPIC}-partition-1", number)
    found = await preview(world, TOPIC, max_producers_per_topic=1)
    assert [(one.topic, one.affected) for one in found.effects] == [(f"{TOPIC}-partition-1", 1)]
    assert (found.topics_looked_at, found.topics_left_out) == (1, 2)


async def test_a_topic_that_does_not_exist(world: BrokerWorld) -> None:
    with pytest.raises(TopicNotFound):
        await preview(world, TOPIC, message_ttl_s=1)
