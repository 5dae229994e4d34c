"""Topics as they are now: a page at a time, by name or by a figure, and the sums over all of them."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.subscriptions import SubscriptionCreate
from messaging.adminrpc.topics import LiveAsked, NamespaceLive, TopicCreate, TopicRef, TopicsRanked, TopicsRankedAsked
from messaging.broker.runtime.admin import live
from messaging.errors import InvalidName, InvalidValue
from tests.support.clients.connections import DirectConnection
from tests.support.worlds.broker_world import BrokerWorld

NAMESPACE = "acme/orders"
AT = f"persistent://{NAMESPACE}/"


async def page(world: BrokerWorld, **asked: Any) -> NamespaceLive:
    return await world.admin.live.live(LiveAsked(namespace=NAMESPACE, **asked))


async def ranked(world: BrokerWorld, figure: str = "backlog_entries", **asked: Any) -> TopicsRanked:
    asked = {"limit": 100, **asked}
    return await world.admin.live.ranked(TopicsRankedAsked(namespace=NAMESPACE, figure=figure, **asked))


async def create(world: BrokerWorld, *names: str, partitions: int | None = None, messages: int = 0) -> None:
    """Each with a subscription that has `messages` before it."""
    for name in names:
        await world.admin.topics.create(TopicCreate(topic=f"{AT}{name}", partitions=partitions))
        await world.admin.subscriptions.create(SubscriptionCreate(topic=f"{AT}{name}", subscription="s", ledger_id=-1, entry_id=-1))
    for name in names if messages else ():
        client = DirectConnection(world)
        for part in [f"{AT}{name}"] if partitions is None else [f"{AT}{name}-partition-{index}" for index in range(partitions)]:
            await client.open_producer(part)
            for _ in range(messages):
                client.publish_message(b"x")
        client.connection_lost(None)


async def test_pages_by_name_have_each_topic_once(world: BrokerWorld) -> None:
    await create(world, "a", "c", "e")
    await create(world, "b", partitions=3)
    await create(world, "d", partitions=2)
    seen: list[str] = []
    answer = await page(world, rows_max=2)
    while answer.next:
        seen += [row.topic for row in answer.topics]
        answer = await page(world, rows_max=2, after=answer.next)
    seen += [row.topic for row in answer.topics]
    parts = [f"{AT}b-partition-{index}" for index in range(3)] + [f"{AT}d-partition-{index}" for index in range(2)]
    assert sorted(seen) == sorted([*(f"{AT}{name}" for name in "ace"), *parts])
    assert answer.totals is not None and answer.totals.topics == 5


async def test_a_page_of_topics_with_many_partitions_ends_before_it_is_too_long(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ROWS_MAX", 5)
    await create(world, "a", "b", "c", partitions=3)
    answer = await page(world, rows_max=100)
    assert [len((await page(world, rows_max=100, after=after)).topics) for after in ("", answer.next, f"{AT}b")] == [3, 3, 3]
    assert answer.next == f"{AT}a"


async def test_a_filter_is_of_the_local_name(world: BrokerWorld) -> None:
    await create(world, "placed", "Replaced", "shipped")
    answer = await page(world, rows_max=100, words="PLACED")
    assert [row.topic for row in answer.topics] == [f"{AT}Replaced", f"{AT}placed"]
    assert (await page(world, rows_max=100, words="orders")).topics == []
    assert answer.totals is not None and answer.totals.topics == 3, "totals are of the namespace"


async def test_totals_say_of_how_many_topics_they_know_nothing(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LIVE_LOAD_MAX", 0)
    monkeypatch.setattr(live, "SUMS_KEPT_S_MIN", 0)
    monkeypatch.setattr(live, "SUMS_KEPT_TIMES", 0)
    await create(world, "a", "b", messages=4)
    known = (await page(world, rows_max=100)).totals
    assert known is not None and (known.topics, known.at_rest, known.backlog_entries) == (2, 0, 8)
    await world.admin.topics.unload(TopicRef(topic=f"{AT}a"))
    known = (await page(world, rows_max=100)).totals
    assert known is not None and (known.topics, known.at_rest, known.backlog_entries) == (2, 1, 4)


async def test_the_named_topics_alone_with_their_partitions(world: BrokerWorld) -> None:
    await create(world, "a", "c")
    await create(world, "b", partitions=2)
    answer = await page(world, names=[f"{AT}b", f"{AT}c", f"{AT}never-made", f"{AT}b-partition-1"])
    names = [f"{AT}b-partition-0", f"{AT}b-partition-1", f"{AT}c", f"{AT}b-partition-1"]
    assert [row.topic for row in answer.topics] == names
    assert answer.totals is None


@pytest.mark.parametrize("topic", ["persistent://acme/other/t", "persistent://globex/orders/t", "persistent://acme/orders2/t"])
async def test_a_topic_of_another_namespace_is_refused(world: BrokerWorld, topic: str) -> None:
    """The reader of a live page may see the one namespace, and names the topics."""
    with pytest.raises(InvalidValue, match="is not in namespace acme/orders"):
        await page(world, names=[topic])
    with pytest.raises(InvalidName):
        await page(world, names=["persistent://acme"])


async def test_topics_by_a_figure(world: BrokerWorld) -> None:
    await create(world, "few", messages=2)
    await create(world, "many", messages=9)
    await create(world, "parts", partitions=3, messages=2)
    await create(world, "none", "also-none")
    answer = await ranked(world)
    order = ["many", "parts", "few", "also-none", "none"]
    assert answer.topics == [f"{AT}{name}" for name in order] and answer.values == [9, 6, 2, 0, 0]
    assert (await ranked(world, descending=False, limit=3)).topics == [f"{AT}{name}" for name in ("also-none", "none", "few")]
    found = await ranked(world, words="n", limit=2)
    assert (found.topics, found.matching) == ([f"{AT}many", f"{AT}also-none"], 3)
    assert (await ranked(world, "subscriptions")).values == [1] * 5, "not one for each partition"
    await world.admin.topics.unload(TopicRef(topic=f"{AT}many"))
    assert (await ranked(world)).topics == [f"{AT}{name}" for name in order[1:]], "of those that are loaded"


async def test_a_figure_that_there_is_not(world: BrokerWorld) -> None:
    with pytest.raises(InvalidValue, match="rate_in"):
        await ranked(world, "weight")
