"""Partitioned topics grown, deleted and used at the same time, and cut off in the middle.

Seen: growing made no subscriptions on the new partitions, so that their consumers missed messages; two growths at once lost one;
a forced delete under a live client left partitions without a parent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from messaging.adminrpc.subscriptions import SubscriptionCreate
from messaging.adminrpc.topics import StatsAsked, TopicCreate, TopicDelete
from messaging.errors import MagnetarError, NotReady, PreconditionFailed, TopicNotFound
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST, Unavailable
from tests.adversary.partitioned import NAME, TOPIC, count, grow, partition, refusal, stored_subscriptions
from tests.support.clients.connections import DirectConnection
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

TURNS_MAX = 400


@pytest.fixture
async def grown(world: BrokerWorld) -> BrokerWorld:
    """Two partitions; subscription "a" with a property on both, "b" on the second alone."""
    await world.admin.topics.create(TopicCreate(topic=TOPIC, partitions=2))
    for name, index in (("a", 0), ("a", 1), ("b", 1)):
        await world.admin.subscriptions.create(
            SubscriptionCreate(topic=partition(index), subscription=name, properties={"of": name})
        )
    return world


async def test_growing_carries_every_durable_subscription_over(grown: BrokerWorld) -> None:
    """A consumer that learns of the new partitions a minute later misses nothing that was published there."""
    await grow(grown, 4)
    assert await count(grown) == 4
    for index in (2, 3):
        assert await stored_subscriptions(grown, index) == {"a": {"of": "a"}, "b": {"of": "b"}}
    producer = DirectConnection(grown)
    await producer.open_producer(partition(3))
    producer.publish_message(b"early")
    topic = await grown.service.topics.get(parse_topic(partition(3)), create=False)
    await eventually(lambda: topic.ledger_list.entries == 1)
    assert {name: subscription.backlog_entries for name, subscription in topic.subscriptions.table.items()} == {"a": 1, "b": 1}


async def test_readers_are_not_carried_over(grown: BrokerWorld) -> None:
    reader = DirectConnection(grown)
    await reader.subscribe(partition(0), subscription="reader", durable=False)
    await grow(grown, 3)
    assert set(await stored_subscriptions(grown, 2)) == {"a", "b"}


async def test_the_new_count_is_not_seen_before_its_subscriptions(grown: BrokerWorld) -> None:
    """Nor is a new partition opened before it has them."""
    growing = asyncio.ensure_future(grow(grown, 8))
    seen = set()
    while not growing.done():
        seen.add(visible := await count(grown))
        if visible == 8:
            for index in range(2, 8):
                assert set(await stored_subscriptions(grown, index)) == {"a", "b"}
        try:
            topic = await grown.service.topics.get(parse_topic(partition(7)), create=True)
        except TopicNotFound:
            pass
        else:
            assert set(topic.subscriptions.table) == {"a", "b"}
        await asyncio.sleep(0)
    await growing
    assert seen <= {2, 8}


async def test_a_subscription_made_while_the_topic_grows_is_on_every_partition(world: BrokerWorld) -> None:
    for turns in range(TURNS_MAX):
        await again_from_the_start(world)
        growing = asyncio.ensure_future(grow(world, 3))
        for _ in range(turns):
            await asyncio.sleep(0)
        over = growing.done()
        await world.admin.subscriptions.create(SubscriptionCreate(topic=TOPIC, subscription="s"))
        await growing
        missing = [index for index in range(3) if "s" not in await stored_subscriptions(world, index)]
        assert not missing, f"after {turns} turns, partitions {missing}"
        if over:
            return
    raise AssertionError("growing never came to its end")


async def test_two_growths_at_once_are_both_kept(grown: BrokerWorld) -> None:
    """The smaller one came second and took partitions away again."""
    results = await asyncio.gather(grow(grown, 8), grow(grown, 5), return_exceptions=True)
    assert results[0] is None and isinstance(results[1], PreconditionFailed)
    assert await count(grown) == 8
    assert await asyncio.gather(grow(grown, 9), grow(grown, 12), grow(grown, 12), return_exceptions=True) == [None, None, None]
    assert await count(grown) == 12


async def test_a_growth_that_another_broker_overtook_is_a_conflict(grown: BrokerWorld) -> None:
    cas_partitioned = grown.meta.cas_partitioned

    async def overtaken(fence: Any, record: Any) -> Any:
        grown.meta.cas_partitioned = cas_partitioned  # type: ignore[method-assign]
        partitioned = await grown.meta.get_partitioned(TOPIC)
        assert partitioned is not None
        await cas_partitioned(fence, partitioned)
        return await cas_partitioned(fence, record)

    grown.meta.cas_partitioned = overtaken  # type: ignore[method-assign]
    with pytest.raises(MagnetarError) as refused:
        await grow(grown, 4)
    assert refused.value.http_status == 409
    await grow(grown, 4)
    assert await count(grown) == 4


# --- cut off in the middle: every call to the metadata store is the last one of its run, in turn


CHANGES: dict[str, Callable[[BrokerWorld], Awaitable[object]]] = {
    "growth": lambda world: grow(world, 4),
    "deletion": lambda world: world.admin.topics.delete(TopicDelete(topic=TOPIC, partitioned=True, force=True)),
}
MUTATING = ("cas_topic", "delete_topic", "cas_partitioned", "delete_partitioned", "create_subscription")


def cut_off_after(world: BrokerWorld, calls: int) -> Callable[[], bool]:
    """From the call number `calls` on, nothing reaches the metadata store, as after a crash. Returns: undo it; was it reached?"""
    originals = {name: getattr(world.meta, name) for name in MUTATING}
    made = 0

    def wrapped(name: str) -> Callable[..., Awaitable[Any]]:
        async def act(*args: Any, **fields: Any) -> Any:
            nonlocal made
            made += 1
            if made > calls:
                raise Unavailable("cut off")
            return await originals[name](*args, **fields)

        return act

    for name in MUTATING:
        setattr(world.meta, name, wrapped(name))

    def undo() -> bool:
        for name in MUTATING:
            setattr(world.meta, name, originals[name])
        return made > calls

    return undo


@pytest.mark.parametrize("again", ["at the next start", "by the next change"])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_that_is_cut_off_is_finished_or_invisible(grown: BrokerWorld, change: str, again: str) -> None:
    calls = 0
    reached = True
    while reached:
        undo = cut_off_after(grown, calls)
        try:
            await CHANGES[change](grown)
        except MagnetarError as error:
            assert isinstance(error, NotReady), error
        reached = undo()
        partitioned = await grown.meta.get_partitioned(TOPIC)
        if change == "growth":
            assert partitioned is not None and partitioned.partitions in (2, 4)
            if partitioned.partitions == 4:
                assert set(await stored_subscriptions(grown, 3)) == {"a", "b"}
        elif partitioned is not None and partitioned.deleting:
            with pytest.raises(TopicNotFound):
                await grown.service.partition_count(NAME, auto_create=True)
        if again == "at the next start":
            await grown.service.topics.partitioned.finish_interrupted()
        else:
            try:
                await CHANGES[change](grown)
            except TopicNotFound:
                assert change == "deletion"
        partitioned = await grown.meta.get_partitioned(TOPIC)
        assert await grown.meta.unfinished_partitioned() == []
        if partitioned is None or (change == "deletion" and again == "by the next change"):
            assert partitioned is None
            assert await grown.meta.list_all_topics() == []
            assert [await stored_subscriptions(grown, index) for index in range(4)] == [{}] * 4
        else:
            assert partitioned.partitions in (2, 4)
            present = [index for index in range(8) if await grown.meta.get_topic(partition(index)) is not None]
            assert present == list(range(partitioned.partitions))
        await again_from_the_start(grown)
        calls += 1
    assert calls > 3


async def again_from_the_start(world: BrokerWorld) -> None:
    try:
        await world.admin.topics.delete(TopicDelete(topic=TOPIC, partitioned=True, force=True))
    except TopicNotFound:
        pass
    await world.admin.topics.create(TopicCreate(topic=TOPIC, partitions=2))
    for index in (0, 1):
        for name in ("a", "b"):
            await world.admin.subscriptions.create(SubscriptionCreate(topic=partition(index), subscription=name))


# --- deleting under those who use it


async def test_a_forced_delete_under_live_clients_leaves_no_partition_behind(grown: BrokerWorld) -> None:
    """Clients connect again at once, and made the partitions anew while and after they were deleted."""

    async def insist() -> None:
        client = DirectConnection(grown)
        while not deleted.done():
            for index in range(2):
                try:
                    await client.open_producer(partition(index))
                except MagnetarError as error:
                    assert error.http_status != 500, error.message
                client.endpoints.producers.clear()
            await asyncio.sleep(0)

    deleted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    clients = [asyncio.ensure_future(insist()) for _ in range(3)]
    await grown.admin.topics.delete(TopicDelete(topic=TOPIC, partitioned=True, force=True))
    for _ in range(50):
        await asyncio.sleep(0)
    deleted.set_result(None)
    await asyncio.gather(*clients)
    assert await grown.meta.list_all_topics() == []
    assert await grown.meta.get_partitioned(TOPIC) is None


async def test_deleting_without_force_deletes_all_or_nothing(grown: BrokerWorld) -> None:
    """The first partition had gone by the time the second turned out to be in use."""
    client = DirectConnection(grown)
    await client.subscribe(partition(1), subscription="b")
    with pytest.raises(PreconditionFailed):
        await grown.admin.topics.delete(TopicDelete(topic=TOPIC, partitioned=True))
    assert await grown.meta.list_all_topics() == [partition(0), partition(1)]
    assert await count(grown) == 2
    client.connection_lost(None)
    await grown.admin.topics.delete(TopicDelete(topic=TOPIC, partitioned=True))  # with the subscriptions that nobody uses
    assert await grown.meta.list_all_topics() == []
    assert await grown.meta.subscriptions(partition(1)) == []


async def test_a_subscription_that_comes_while_the_topic_is_deleted_without_force_stays_or_is_refused(world: BrokerWorld) -> None:
    for turns in range(TURNS_MAX):
        await world.admin.topics.create(TopicCreate(topic=TOPIC, partitions=2))
        deleting = asyncio.ensure_future(refusal(world.admin.topics.delete(TopicDelete(topic=TOPIC, partitioned=True))))
        for _ in range(turns):
            await asyncio.sleep(0)
        over = deleting.done()
        client = DirectConnection(world)
        refused = await refusal(client.subscribe(partition(0), subscription="s"))
        kept = await deleting
        if refused is None and client.endpoints.consumers:
            assert isinstance(kept, PreconditionFailed) and await count(world) == 2
        if kept is None:
            assert await world.meta.list_all_topics() == []
            assert await world.meta.subscriptions(partition(0)) == []
        client.connection_lost(None)
        await refusal(world.admin.topics.delete(TopicDelete(topic=TOPIC, partitioned=True, force=True)))
        assert await world.meta.get_partitioned(TOPIC) is None
        if over:
            return
    raise AssertionError("deleting never came to its end")


async def test_the_late_subscription_begins_at_the_beginning(grown: BrokerWorld) -> None:
    await grow(grown, 3)
    (record,) = [subscription for subscription in await grown.meta.subscriptions(partition(2)) if subscription.name == "a"]
    assert record.mark_delete == EARLIEST


async def test_stats_and_unload_of_a_topic_that_is_being_deleted_say_so(grown: BrokerWorld) -> None:
    partitioned = await grown.meta.get_partitioned(TOPIC)
    assert partitioned is not None
    await grown.meta.cas_partitioned(grown.service.storage.fence, replace(partitioned, deleting=True))
    for ask in (grown.admin.topic_stats.partitioned_stats, grown.admin.topics.unload, grown.admin.topics.truncate):
        with pytest.raises(TopicNotFound, match="is being deleted"):
            await ask(StatsAsked(topic=TOPIC))
