"""Topics that nobody uses are deleted at their time, never earlier, and never in use."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.adminrpc.topics import TopicCreate
from messaging.errors import PreconditionFailed
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import send_frame
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.unused_topic import MINUTE_MS, TOPIC, consumed, exists, left, published, unloaded, upkeep
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

INACTIVE: dict[str, Any] = {"inactive_topic_delete": True, "inactive_topic_after_s": 300}
CAUGHT_UP: dict[str, Any] = INACTIVE | {"inactive_topic_mode": "delete_when_subscriptions_caught_up"}


@pytest.fixture
def clock(world: BrokerWorld) -> Clock:
    clock = Clock()
    give(world.service, clock)
    return clock


# --- topics ---


@pytest.mark.parametrize("loaded", [True, False])
async def test_policy_inactive_topic_delete_removes_topics_that_nobody_uses(world: BrokerWorld, clock: Clock, loaded: bool) -> None:
    client = await published(world)
    clock.pass_(600 * MINUTE_MS)
    await left(client)
    await set_policies(world, **INACTIVE)
    if not loaded:
        await unloaded(world)
    clock.pass_(299_999)
    assert (await upkeep(world)).deleted_topics == 0
    clock.pass_(1)
    await set_policies(world)
    assert (await upkeep(world)).deleted_topics == 0, "by default nothing is deleted"
    await set_policies(world, **INACTIVE)
    assert (await upkeep(world)).deleted_topics == 1
    assert not await exists(world)
    assert [info for info in await world.ledgers.ledgers() if info.properties.get("tenant") == "acme"] == []
    assert (await upkeep(world)).deleted_topics == 0
    await client.producer(TOPIC, 2)


@pytest.mark.parametrize("loaded", [True, False])
async def test_policy_deletion_protected_keeps_what_nobody_uses(world: BrokerWorld, clock: Clock, loaded: bool) -> None:
    await set_policies(world, **INACTIVE, deletion_protected=True)
    await left(await published(world))
    if not loaded:
        await unloaded(world)
    clock.pass_(10 * 300_000)
    assert (await upkeep(world)).deleted_topics == 0
    assert await exists(world)
    await set_policies(world, **INACTIVE)
    clock.pass_(300_000)
    assert (await upkeep(world)).deleted_topics == 1


async def test_policy_inactive_topic_after_s_counts_from_the_last_client(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, **INACTIVE | {"inactive_topic_after_s": 7})
    client = await published(world)
    for number in range(2, 5):  # somebody else each time, for longer than that
        clock.pass_(6_999)
        await client.producer(TOPIC, number)
        clock.pass_(20_000)
        assert (await upkeep(world)).deleted_topics == 0
        client.say(pb.Command.CLOSE_PRODUCER, producer_id=number)
        await client.expect("SUCCESS")
        if number == 2:
            await left(client)
    clock.pass_(6_999)
    assert (await upkeep(world)).deleted_topics == 0
    clock.pass_(1)
    assert (await upkeep(world)).deleted_topics == 1


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize(("mode", "backlog", "deleted"), [(0, False, 0), (0, True, 0), (1, True, 0), (1, False, 1)])
async def test_policy_inactive_topic_mode_says_what_subscriptions_keep(
    world: BrokerWorld, clock: Clock, mode: int, backlog: bool, deleted: int, loaded: bool
) -> None:
    await set_policies(world, **(CAUGHT_UP if mode else INACTIVE))
    client = await published(world, "s")
    if not backlog:
        await consumed(world)
    await left(client)
    if not loaded:
        await unloaded(world)
    clock.pass_(299_999)
    assert (await upkeep(world)).deleted_topics == 0
    clock.pass_(1)
    assert (await upkeep(world)).deleted_topics == deleted
    assert await exists(world) == (not deleted)


async def test_a_backlog_that_is_gone_is_no_reason_any_more(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, **CAUGHT_UP)
    await left(await published(world, "s"))
    clock.pass_(1_000_000)
    await upkeep(world)
    await consumed(world)
    clock.pass_(299_999)
    assert (await upkeep(world)).deleted_topics == 0, "it was kept by its backlog until a moment ago"
    clock.pass_(1)
    assert (await upkeep(world)).deleted_topics == 1


@pytest.mark.parametrize("loaded", [True, False])
async def test_a_backlog_that_expires_keeps_it_no_longer(world: BrokerWorld, clock: Clock, loaded: bool) -> None:
    await set_policies(world, **CAUGHT_UP | {"message_ttl_s": 3_600})
    await left(await published(world, "s"))
    if not loaded:
        await unloaded(world)
    clock.pass_(3_600_001)
    result = await upkeep(world)
    assert result.expired_entries == 1
    for passes_ms, deleted in ((299_999, 0), (1, 1)) if not result.deleted_topics else ():
        clock.pass_(passes_ms)
        assert (await upkeep(world)).deleted_topics == deleted
    assert not await exists(world)


async def test_it_is_kept_as_long_as_retention_says(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, **INACTIVE | {"retention_time_min": 10, "retention_size_mb": -1})
    await left(await published(world))
    clock.pass_(10 * MINUTE_MS - 1)
    assert (await upkeep(world)).deleted_topics == 0
    clock.pass_(1)
    assert (await upkeep(world)).deleted_topics == 1


async def test_readers_use_a_topic_too(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, **INACTIVE)
    client = await published(world)
    await client.subscribe(TOPIC, "reader", 9, durable=False, sub_type=pb.Subscribe.Exclusive)
    await left(client)
    clock.pass_(900_000)
    assert (await upkeep(world)).deleted_topics == 0
    client.say(pb.Command.CLOSE_CONSUMER, consumer_id=9)
    await client.expect("SUCCESS")
    clock.pass_(299_999)
    assert (await upkeep(world)).deleted_topics == 0
    clock.pass_(1)
    assert (await upkeep(world)).deleted_topics == 1


async def test_topics_that_were_only_created_go_too(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, **INACTIVE)
    await world.admin.topics.create(TopicCreate(topic=TOPIC))
    clock.pass_(299_999)
    assert (await upkeep(world)).deleted_topics == 0
    clock.pass_(1)
    assert (await upkeep(world)).deleted_topics == 1


@pytest.mark.parametrize("with_metadata", [False, True])
async def test_partitions_go_one_by_one_and_the_topic_with_the_last(make_world: MakeWorld, with_metadata: bool) -> None:
    world = await make_world(delete_inactive_partitioned_topics=with_metadata)
    clock = Clock()
    give(world.service, clock)
    await set_policies(world, **INACTIVE)
    await world.admin.topics.create(TopicCreate(topic=TOPIC, partitions=2))
    client = await world.connected("owner")
    await client.producer(f"{TOPIC}-partition-1")
    partitions = [f"{TOPIC}-partition-{index}" for index in range(2)]
    clock.pass_(300_000)
    assert (await upkeep(world, *partitions)).deleted_topics == 1
    assert await world.meta.list_topics("acme/orders") == partitions[1:]
    await left(client)
    clock.pass_(300_000)
    assert (await upkeep(world, *partitions[1:])).deleted_topics == 1
    assert [one.name for one in await world.meta.list_partitioned("acme/orders")] == ([] if with_metadata else [TOPIC])
    # A client that comes back goes on, with a plain topic of the name where its partitioned one is gone.
    await client.producer(partitions[0], 2)
    assert await world.meta.list_topics("acme/orders") == partitions[:1]


async def test_what_a_broker_knew_outlives_it(make_world: MakeWorld) -> None:
    first = await make_world()
    clock = Clock()
    give(first.service, clock)
    await set_policies(first, **INACTIVE, subscription_expiration_min=20)
    await left(await published(first, "s"))
    clock.pass_(200_000)
    await first.service.topics.close_all(PreconditionFailed("the broker stops"))
    world = await make_world(after=first)
    give(world.service, clock)
    await set_policies(world, **INACTIVE, subscription_expiration_min=20)
    clock.pass_(20 * MINUTE_MS - 200_001)
    assert (await upkeep(world)).expired_subscriptions == 0
    clock.pass_(1)
    assert (await upkeep(world)).expired_subscriptions == 1
    clock.pass_(299_999)
    assert (await upkeep(world)).deleted_topics == 0
    clock.pass_(1)
    assert (await upkeep(world)).deleted_topics == 1


async def test_after_a_crash_it_counts_from_the_start(make_world: MakeWorld) -> None:
    """Whatever was loaded then may have been in use."""
    crashed = await make_world()
    clock = Clock()
    give(crashed.service, clock)
    await set_policies(crashed, **INACTIVE, subscription_expiration_min=10)
    await left(await published(crashed, "s"))
    await unloaded(crashed)
    clock.pass_(250_000)
    await published(crashed, "s", count=0)  # from here on it is in use, until the broker is gone
    clock.pass_(10_000_000)
    world = await make_world(after=crashed)
    give(world.service, clock)
    await set_policies(world, **INACTIVE, subscription_expiration_min=10)
    assert (await upkeep(world)).expired_subscriptions == 0
    clock.pass_(10 * MINUTE_MS - 1)
    assert (await upkeep(world)).expired_subscriptions == 0
    clock.pass_(1)
    assert (await upkeep(world)).expired_subscriptions == 1


async def test_a_producer_that_comes_as_it_is_deleted_goes_on(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, **INACTIVE)
    client = await published(world)
    await left(client)
    clock.pass_(300_000)
    deletion = world.ledgers.delay("delete")
    deleting = asyncio.create_task(upkeep(world))
    await eventually(lambda: "delete" in world.ledgers.calls)
    client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=2)
    assert await client.quiet() == []
    deletion.set()
    assert (await deleting).deleted_topics == 1
    while (answer := await client.next()).name == "ERROR":
        assert answer.body.error == pb.ServiceNotReady  # which clients try again
        client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=2)
    assert answer.name == "PRODUCER_SUCCESS"
    client.write(send_frame(0, b"y", 2))
    await client.expect("SEND_RECEIPT")
    assert (await upkeep(world)).deleted_topics == 0


async def test_a_broker_deletes_none_of_its_own_topics(make_world: MakeWorld) -> None:
    world = await make_world(delete_inactive_topics=True, inactive_topic_after_s=1)
    clock = Clock()
    give(world.service, clock)
    await world.sessions.round_trip()
    clock.pass_(10_000)
    health = "persistent://magnetar/system/health"
    assert (await upkeep(world, health)).deleted_topics == 0
    assert await world.meta.get_topic(health) is not None
