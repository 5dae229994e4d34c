"""Stats of topics with very many subscriptions: made in slices of turns, charged, and asked for once by all that watch a topic."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from messaging.adminrpc.topics import StatsAsked, TopicRef
from messaging.broker.core.turns.turn_budget import SLICE_COST
from messaging.broker.runtime.admin.stats import topic_stats
from messaging.broker.runtime.admin.stats.stats import ENCODED_ABOVE, SUBSCRIPTION_COST
from messaging.broker.runtime.admin.topics import CHANGE_COST
from messaging.broker.runtime.topics.partitions.partition_topics import MAKE_COST
from messaging.broker.runtime.turn_slices import AT_ONCE, TurnSlices
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import LATEST
from tests.support.clients.consuming import TOPIC, filled
from tests.support.worlds.broker_world import BrokerWorld

COUNT = 5 * ENCODED_ABOVE


async def subscribed(world: BrokerWorld, count: int = COUNT) -> None:
    topic = await world.service.topics.get(parse_topic(TOPIC), create=True)
    for index in range(count):
        topic.subscriptions.create_reader(f"r{index}", LATEST)


async def turns_of(work: Any, world: BrokerWorld) -> int:
    before = world.service.peers.turn_loop.turns.number
    await work
    return world.service.peers.turn_loop.turns.number - before


async def test_stats_of_many_subscriptions_take_as_many_turns(world: BrokerWorld) -> None:
    """5,000 were one turn of 400 ms, and everybody waited."""
    await subscribed(world)
    stats = world.admin.topic_stats
    at_least = COUNT * SUBSCRIPTION_COST // SLICE_COST
    assert await turns_of(stats.stats(StatsAsked(topic=TOPIC)), world) >= at_least
    assert await turns_of(stats.internal_stats(TopicRef(topic=TOPIC)), world) >= at_least // 2
    assert await turns_of(stats.figures(TopicRef(topic=TOPIC)), world) >= at_least // 20


async def test_a_few_of_many_subscriptions_take_as_few_turns_as_there_are_of_them(world: BrokerWorld) -> None:
    """A page of a list made the stats of all 10,000 to show a hundred."""
    await subscribed(world)
    asked = StatsAsked(topic=TOPIC, only_subscriptions=["r7", "none", "r3", "r7"])
    found = world.admin.topic_stats.stats(asked)
    assert await turns_of(found, world) <= 2
    assert list((await world.admin.topic_stats.stats(asked)).stats["subscriptions"]) == ["r7", "r3"]


async def test_one_that_is_asked_for_alone_has_the_figures_that_it_has_among_all(world: BrokerWorld) -> None:
    """Also its age, and also one that is not durable, which has the name of a durable one and a word after it."""
    topic = await world.service.topics.get(parse_topic(TOPIC), create=True)
    await topic.subscriptions.create("s", LATEST)
    topic.subscriptions.create_reader("s", LATEST)
    await filled(world, 1)
    stats = world.admin.topic_stats
    among = (await stats.stats(StatsAsked(topic=TOPIC))).stats["subscriptions"]
    assert among["s"]["earliestMsgPublishTimeInBacklog"] > 0 and set(among) == {"s", "s (non-durable)"}
    for name, figures in among.items():
        alone = (await stats.stats(StatsAsked(topic=TOPIC, only_subscriptions=[name]))).stats["subscriptions"]
        assert set(alone) == {name} and set(alone[name]) == set(figures)
        for figure in ("durable", "msgBacklog", "earliestMsgPublishTimeInBacklog"):
            assert alone[name][figure] == figures[figure]


async def test_encoded_stats_read_as_those_of_a_small_topic(world: BrokerWorld) -> None:
    await subscribed(world, 1)
    small = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats
    await subscribed(world)
    large = msgspec.json.decode(msgspec.json.encode(await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))))["stats"]
    assert set(large) == set(small) and len(large["subscriptions"]) == COUNT
    assert large["subscriptions"]["r0"] == msgspec.json.decode(msgspec.json.encode(small["subscriptions"]["r0"]))


async def test_large_answers_are_charged_while_they_are_made(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await subscribed(world)
    egress, charged = world.service.memory_limiter.egress, list[int]()
    spend = TurnSlices.spend

    async def noted(slices: TurnSlices, cost: int) -> None:
        charged.append(egress.tenants.get("acme", 0))
        await spend(slices, cost)

    monkeypatch.setattr(TurnSlices, "spend", noted)
    many = [world.admin.topic_stats.stats(StatsAsked(topic=TOPIC)) for _ in range(3)]
    await asyncio.gather(*many)
    assert set(charged) == {topic_stats.SUBSCRIPTION_BYTES * COUNT}, "one at a time of each tenant"
    assert egress.used_bytes == 0


async def test_work_in_slices_waits_behind_other_tenants_and_ends_with_its_task(world: BrokerWorld) -> None:
    turn_loop = world.service.peers.turn_loop
    order: list[str] = []

    async def work(tenant: str) -> None:
        slices = TurnSlices(turn_loop, tenant)
        for _ in range(3):
            await slices.spend(10 * SLICE_COST)
            order.append(tenant)

    cancelled = asyncio.ensure_future(work("gone"))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(*(work(tenant) for tenant in ("a", "a", "a", "b")))
    assert order.index("b") <= 1 and order.count("a") == 9 and "gone" not in order
    assert not turn_loop.turns.waiting


@pytest.mark.parametrize("what", ["create", "stats", "terminate", "unload", "truncate", "delete"])
async def test_partitions_are_worked_on_in_slices_of_turns(world: BrokerWorld, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred of them were begun in one turn, and continued in one: others waited for half a second."""
    name, count = parse_topic("persistent://acme/orders/p"), 3 * AT_ONCE
    partitioned, asked = world.service.topics.partitioned, StatsAsked(topic="persistent://acme/orders/p")
    if what != "create":
        await partitioned.create(name, count, {})
    work = {
        "create": lambda: partitioned.create(name, count, {}),
        "stats": lambda: world.admin.topic_stats.partitioned_stats(asked),
        "terminate": lambda: world.admin.topics.terminate_partitions(asked),
        "unload": lambda: world.admin.topics.unload(asked),
        "truncate": lambda: world.admin.topics.truncate(asked),
        "delete": lambda: partitioned.delete(name, force=True),
    }[what]
    spent: list[tuple[str, int]] = []
    spend = TurnSlices.spend

    async def noted(slices: TurnSlices, cost: int) -> None:
        spent.append((slices.tenant, cost))
        await spend(slices, cost)

    monkeypatch.setattr(TurnSlices, "spend", noted)
    await work()
    assert {tenant for tenant, _ in spent} == {"acme"}
    assert sum(cost for _, cost in spent) >= count * MAKE_COST and max(cost for _, cost in spent) <= AT_ONCE * CHANGE_COST
