"""Every request that changes or reads a topic beside every other one, begun at each turn of the loop that the first one takes.

Each is answered, or refused with a reason, never with a failure of the broker. Afterwards what is in memory is what is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.adminrpc.subscriptions import (
    SubscriptionCreate,
    SubscriptionDelete,
    SubscriptionExpire,
    SubscriptionRef,
    SubscriptionReset,
    SubscriptionSkip,
)
from messaging.adminrpc.topics import LiveAsked, PartitionsGet, PartitionsUpdate, StatsAsked, TopicCreate, TopicDelete, TopicsList
from messaging.errors import MagnetarError
from tests.support.clients.connections import DirectConnection
from tests.support.worlds.broker_world import BrokerWorld

PLAIN, PARTITIONED = "persistent://acme/orders/t", "persistent://acme/orders/p"
TURNS_MAX = 300
Act = Callable[[BrokerWorld], Awaitable[object]]


def on(topic: str, partitioned: bool) -> dict[str, Act]:
    """What can be asked of a topic, by the name of the method. `partitioned` or not, both ways to make and to delete it."""
    ref, subscription = StatsAsked(topic=topic), SubscriptionRef(topic=topic, subscription="s")
    about: dict[str, Any] = {"topic": subscription.topic, "subscription": subscription.subscription}
    acts: dict[str, Act] = {
        "create": lambda world: world.admin.topics.create(TopicCreate(topic=topic)),
        "create partitioned": lambda world: world.admin.topics.create(TopicCreate(topic=topic, partitions=2)),
        "delete": lambda world: world.admin.topics.delete(TopicDelete(topic=topic, partitioned=partitioned)),
        "delete by force": lambda world: world.admin.topics.delete(TopicDelete(topic=topic, force=True, partitioned=partitioned)),
        "grow": lambda world: world.admin.topics.update_partitions(PartitionsUpdate(topic=topic, partitions=3)),
        "partitions": lambda world: world.admin.topics.partitions(PartitionsGet(topic=topic, check_auto_creation=True)),
        "unload": lambda world: world.admin.topics.unload(ref),
        "truncate": lambda world: world.admin.topics.truncate(ref),
        "list": lambda world: world.admin.namespaces.list_topics(TopicsList(namespace="acme/orders")),
        "live": lambda world: world.admin.live.live(LiveAsked(namespace="acme/orders")),
        "subscriptions": lambda world: world.admin.subscriptions.list_names(ref),
        "subscribe": lambda world: world.admin.subscriptions.create(SubscriptionCreate(topic=topic, subscription="new")),
        "unsubscribe": lambda world: world.admin.subscriptions.delete(SubscriptionDelete(**about, force=True)),
        "skip all": lambda world: world.admin.subscriptions.skip(SubscriptionSkip(**about)),
        "reset": lambda world: world.admin.subscriptions.reset(SubscriptionReset(**about, timestamp_ms=1)),
        "expire": lambda world: world.admin.subscriptions.expire(SubscriptionExpire(topic=topic, older_than_s=0)),
    }
    if partitioned:
        acts["stats"] = lambda world: world.admin.topic_stats.partitioned_stats(ref)
    else:
        acts["stats"] = lambda world: world.admin.topic_stats.stats(ref)
        acts["internal stats"] = lambda world: world.admin.topic_stats.internal_stats(ref)
        acts["terminate"] = lambda world: world.admin.topics.terminate(ref)
        acts["last message id"] = lambda world: world.admin.topics.last_message_id(ref)
        acts["upkeep"] = lambda world: world.admin.maintenance.run(MaintenanceRun(task_id="t", topics=[topic]))
    return acts


async def answered(work: Awaitable[object], what: str) -> None:
    try:
        await asyncio.wait_for(work, 10)
    except MagnetarError as error:
        assert error.http_status != 500, f"{what}: {error.message}"


async def prepare(world: BrokerWorld, topic: str, partitioned: bool) -> None:
    """One message and one subscription, on the topic or on both of its partitions; loaded."""
    await world.admin.topics.create(TopicCreate(topic=topic, partitions=2 if partitioned else None))
    await world.admin.subscriptions.create(SubscriptionCreate(topic=topic, subscription="s", ledger_id=-1, entry_id=-1))
    client = DirectConnection(world)
    await client.open_producer(f"{topic}-partition-0" if partitioned else topic)
    client.publish_message(b"x")
    client.connection_lost(None)


async def check_and_tidy(world: BrokerWorld, topic: str, what: str) -> None:
    parent = await world.meta.get_partitioned(topic)
    stored = await world.meta.list_all_topics()
    if parent is not None:
        assert not parent.deleting and not parent.growing_to, what
        assert stored == [f"{topic}-partition-{index}" for index in range(parent.partitions)], f"{what}: {stored}"
    else:
        assert stored in ([], [topic]), f"{what}: {stored}"
    for name, loaded in world.service.topics.loaded.items():
        record = await world.meta.get_topic(name)
        assert record is not None and record.version == loaded.ledger.record.version, f"{what}: {name} is loaded, not as stored"
        durable = {subscription.name: subscription.subscription_id for subscription in loaded.subscriptions.table.values()}
        assert durable == {
            subscription.name: subscription.subscription_id for subscription in await world.meta.subscriptions(name)
        }, what
    for name in (topic, *(f"{topic}-partition-{index}" for index in range(3))):
        if name not in stored:
            assert await world.meta.subscriptions(name) == [], f"{what}: subscriptions of {name}, which is gone"
    if parent is not None or topic in stored:
        await world.admin.topics.delete(TopicDelete(topic=topic, force=True, partitioned=parent is not None))
    assert await world.meta.list_all_topics() == [] and not world.service.topics.loaded


@pytest.mark.parametrize(
    ("topic", "first"), [(topic, name) for topic in (PLAIN, PARTITIONED) for name in on(topic, topic is PARTITIONED)]
)
async def test_both_are_answered(world: BrokerWorld, topic: str, first: str) -> None:
    acts = on(topic, topic is PARTITIONED)
    for second, act in acts.items():
        over = False
        turns = 0
        while not over:
            what = f"{first}, and {second} after {turns} turns"
            await prepare(world, topic, topic is PARTITIONED)
            beginning = asyncio.ensure_future(answered(acts[first](world), what))
            for _ in range(turns):
                await asyncio.sleep(0)
            over = beginning.done()
            await answered(act(world), what)
            await beginning
            await check_and_tidy(world, topic, what)
            turns += 1
            assert turns < TURNS_MAX


async def test_the_same_change_twenty_times_at_once(world: BrokerWorld) -> None:
    """Each of them; with what is there, and after it is gone."""
    for topic in (PLAIN, PARTITIONED):
        for name, act in on(topic, topic is PARTITIONED).items():
            await prepare(world, topic, topic is PARTITIONED)
            await asyncio.gather(*(answered(act(world), f"20 of {name}") for _ in range(20)))
            await check_and_tidy(world, topic, f"20 of {name}")
            await asyncio.gather(*(answered(act(world), f"20 of {name}, of nothing") for _ in range(20)))
            await check_and_tidy(world, topic, f"20 of {name}, of nothing")
