"""What lists of a topic are ordered by: the same figures as in its stats, without making the stats of all."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.topics import SUBSCRIPTION_FIGURES, StatsAsked, TopicCreate, TopicMembers, TopicMembersAsked
from messaging.broker.core.turns.turn_budget import SLICE_COST
from messaging.broker.runtime.admin.stats.members import FIGURES, MemberSums
from messaging.broker.runtime.admin.stats.stats import SUBSCRIPTION_COST
from messaging.errors import InvalidValue, TopicNotFound
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST, LATEST
from tests.support.clients.consuming import TOPIC, ack, filled, id_of
from tests.support.worlds.broker_world import BrokerWorld

PARTITIONED = "persistent://acme/orders/parts"
KEYS = {
    "backlog": "msgBacklog",
    "oldest": "oldestBacklogMessageAgeSeconds",
    "out": "msgRateOut",
    "acked": "messageAckRate",
    "unacked": "unackedMessages",
    "delivered": "msgOutCounter",
    "expired": "totalMsgExpired",
}


async def members(world: BrokerWorld, topic: str, *figures: str) -> TopicMembers:
    return await world.admin.topic_stats.members(TopicMembersAsked(topic=topic, figures=list(figures)))


async def compared(world: BrokerWorld, topic: str) -> tuple[TopicMembers, dict[str, Any]]:
    """Every figure of every subscription, with its stats; they must agree."""
    found = await members(world, topic, *SUBSCRIPTION_FIGURES)
    asked = StatsAsked(topic=topic)
    handlers = world.admin.topic_stats
    stats = (await (handlers.partitioned_stats(asked) if found.partitions else handlers.stats(asked))).stats["subscriptions"]
    assert sorted(found.subscriptions) == sorted(stats)
    for place, name in enumerate(found.subscriptions):
        told = {figure: values[place] for figure, values in found.figures.items()}
        for figure, key in KEYS.items():
            assert (-1 if told[figure] is None else told[figure]) == stats[name][key], (name, figure)
        assert told["type"] == ("" if stats[name]["type"] == "None" else stats[name]["type"])
        assert told["consumers"] == len(stats[name]["consumers"])
        assert told["held"] or (stats[name]["deliveryHealth"] == "good" and not stats[name]["problems"])
    return found, stats


async def test_each_figure_is_that_of_the_stats(world: BrokerWorld) -> None:
    """Of one that is far behind, one with an acknowledgement out of order and a consumer, one that has read all, and one that is
    not durable and has the name of another."""
    await filled(world, 10)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=True)
    await topic.subscriptions.create("behind", EARLIEST)
    await topic.subscriptions.create("even", LATEST)
    topic.subscriptions.create_reader("behind", LATEST)
    await topic.subscriptions.create("read", EARLIEST)
    client = await world.connected("owner")
    await client.subscribe(TOPIC, "read", permits=100)
    messages = await client.messages(10)
    ack(client, *(id_of(message) for message in messages[3:]))
    await client.quiet()
    found, stats = await compared(world, TOPIC)
    assert found.partitions == 0 and len(found.producers) == 1 and found.backlogs == {TOPIC: 10}
    by_name = {
        name: {figure: values[place] for figure, values in found.figures.items()} for place, name in enumerate(found.subscriptions)
    }
    assert [by_name[name]["behind"] for name in ("behind", "even", "read")] == [10, 0, 10]
    assert [by_name[name]["held"] for name in ("behind", "even", "behind (non-durable)")] == [True] * 3
    assert by_name["read"]["backlog"] == 3 and by_name["read"]["delivered"] == 10 and by_name["even"]["oldest"] is None
    alone = await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC, only_consumers=[], only_producers=[]))
    rates = ("messageAckRate", "msgRateRedeliver", "msgOutCounter", "deliveryHealth", "problems")
    assert alone.stats["publishers"] == [] == alone.stats["subscriptions"]["read"]["consumers"]
    assert [alone.stats["subscriptions"]["read"][key] for key in rates] == [stats["read"][key] for key in rates]
    assert (await world.admin.topic_stats.members(TopicMembersAsked(topic=TOPIC, subscription="even"))).subscriptions == ["even"]
    (consumer,) = found.consumers
    assert (consumer.subscription, consumer.address) == ("read", stats["read"]["consumers"][0]["address"])


async def test_those_of_partitions_are_one(world: BrokerWorld) -> None:
    await world.admin.topics.create(TopicCreate(topic=PARTITIONED, partitions=3))
    for index, count in enumerate((1, 5)):
        part = f"{PARTITIONED}-partition-{index}"
        await filled(world, count, part)
        topic = await world.service.topics.get(parse_topic(part), create=True)
        await topic.subscriptions.create("everywhere", EARLIEST)
    await topic.subscriptions.create("once", EARLIEST)
    client = await world.connected("owner")
    for index in range(3):
        await client.subscribe(
            f"{PARTITIONED}-partition-{index}", "everywhere", permits=0, consumer_id=index + 1, consumer_name="c"
        )
    found, _ = await compared(world, PARTITIONED)
    assert found.partitions == 3 and list(found.backlogs.values()) == [1, 5, 0]
    assert [(one.name, one.subscription) for one in found.consumers] == [("c", "everywhere")]
    halves = MemberSums(list(found.figures))
    halves.add(found)
    assert halves.total(3) == found, "another broker adds what it is told"


async def test_of_many_they_take_slices_of_turns_and_few_of_them(world: BrokerWorld) -> None:
    """The list of 10,000 asked for the stats of all, and took half a second of a processor for a page of a hundred."""
    topic = await world.service.topics.get(parse_topic(TOPIC), create=True)
    for index in range(2_000):
        topic.subscriptions.create_reader(f"r{index}", LATEST)
    turns = world.service.peers.turn_loop.turns
    before = turns.number
    found = await members(world, TOPIC, "backlog")
    assert len(found.subscriptions) == 2_000 and 1 < turns.number - before < 2_000 * SUBSCRIPTION_COST // SLICE_COST // 5


async def test_what_there_is_not_is_refused(world: BrokerWorld) -> None:
    with pytest.raises(InvalidValue, match="figure 'age' is not known"):
        await members(world, TOPIC, "age")
    with pytest.raises(TopicNotFound):
        await members(world, "persistent://acme/orders/none")
    assert set(FIGURES) | {"consumers"} == SUBSCRIPTION_FIGURES
