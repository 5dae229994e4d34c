"""Deleting, restoring and purging are cut off at each change of the metadata: the topic is there or in the bin, whole, or gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from messaging.adminrpc.recycle_bin import RecycleBinExpire
from messaging.adminrpc.topics import TopicCreate
from messaging.broker.runtime.topics import recycle_bin
from messaging.clock import boottime_ms
from messaging.errors import MagnetarError, NotFound, TopicNotFound
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import Unavailable
from messaging.storage.managed.orphans import collect_orphans
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.recycling import LEFT, PARTITIONS, PARTS, TOPIC, deleted, in_bin, left, named, used
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

CHANGING = ("recycle", "restore", "end_restore", "begin_purge", "forget_recycled", "cas_topic", "cas_partitioned", "delete_topic")
PLACES = {"plain": (TOPIC, (TOPIC,)), "partitioned": (PARTS, PARTITIONS)}


def cut_off_after(world: BrokerWorld, calls: int) -> Callable[[], bool]:
    """After `calls` changes nothing reaches the metadata. Returns: undo it; did something fail?"""
    originals = {name: getattr(world.meta, name) for name in CHANGING}
    made = 0

    def wrapped(name: str) -> Callable[..., Awaitable[Any]]:
        async def act(*values: Any, **named_values: Any) -> Any:
            nonlocal made
            made += 1
            if made > calls:
                raise Unavailable("cut off")
            return await originals[name](*values, **named_values)

        return act

    for name in CHANGING:
        setattr(world.meta, name, wrapped(name))

    def undo() -> bool:
        for name in CHANGING:
            setattr(world.meta, name, originals[name])
        return made > calls

    return undo


async def restarted(world: BrokerWorld, make_world: MakeWorld) -> BrokerWorld:
    """As after a crash. What lies around is collected."""
    again = await make_world(after=world)
    await set_policies(again, recycle_bin_retention_hours=1)
    await again.service.topics.partitioned.finish_interrupted()
    await collect_orphans(again.service.storage)
    return again


async def is_there(world: BrokerWorld, kind: str) -> bool:
    """Whether it can be used, and then whole. It is not both there and in the bin."""
    topic, parts = PLACES[kind]
    items = [item for item in await in_bin(world) if item.topic == topic]
    there = await world.service.topics.created_ms(parse_topic(topic)) is not None
    assert len(items) + there <= 1, items
    if there:
        for part in parts:
            assert await left(world, part) == LEFT
    return there


async def filled(world: BrokerWorld, kind: str) -> None:
    topic, parts = PLACES[kind]
    if kind == "partitioned":
        await world.admin.topics.create(TopicCreate(topic=topic, partitions=2))
    for part in parts:
        await used(world, part)


@pytest.mark.parametrize("kind", PLACES)
async def test_a_deletion_that_is_cut_off_leaves_the_topic_there_or_in_the_bin(make_world: MakeWorld, kind: str) -> None:
    topic, calls, reached = PLACES[kind][0], 0, True
    while reached:
        world = await make_world()
        await set_policies(world, recycle_bin_retention_hours=1)
        await filled(world, kind)
        undo = cut_off_after(world, calls)
        try:
            await deleted(world, topic, partitioned=kind == "partitioned")
        except MagnetarError:
            pass
        reached = undo()
        again = await restarted(world, make_world)
        if not await is_there(again, kind):
            (item,) = await in_bin(again)
            await again.admin.recycle_bin.restore(named(item.recycle_id))
            assert await is_there(again, kind)
        calls += 1
    assert calls > 1


@pytest.mark.parametrize("crash", [True, False])
@pytest.mark.parametrize("kind", PLACES)
async def test_a_restore_that_is_cut_off_is_finished_or_was_none(make_world: MakeWorld, kind: str, crash: bool) -> None:
    topic, calls, reached = PLACES[kind][0], 0, True
    while reached:
        world = await make_world()
        await set_policies(world, recycle_bin_retention_hours=1)
        await filled(world, kind)
        recycle_id = await deleted(world, topic, partitioned=kind == "partitioned")
        undo = cut_off_after(world, calls)
        try:
            await world.admin.recycle_bin.restore(named(recycle_id))
        except MagnetarError:
            pass
        reached = undo()
        again = await restarted(world, make_world) if crash else world
        try:
            await again.admin.recycle_bin.restore(named(recycle_id))
        except NotFound:
            assert not reached or crash
        assert await is_there(again, kind) and await in_bin(again) == [] and await again.meta.recycled_places() == []
        calls += 1
    assert calls > 1


@pytest.mark.parametrize("kind", PLACES)
async def test_a_purge_that_is_cut_off_is_finished_or_was_none(make_world: MakeWorld, kind: str) -> None:
    topic, calls, reached = PLACES[kind][0], 0, True
    while reached:
        world = await make_world()
        await set_policies(world, recycle_bin_retention_hours=1)
        await filled(world, kind)
        recycle_id = await deleted(world, topic, partitioned=kind == "partitioned")
        undo = cut_off_after(world, calls)
        try:
            await world.admin.recycle_bin.purge(named(recycle_id))
        except MagnetarError:
            pass
        reached = undo()
        again = await restarted(world, make_world)
        if await in_bin(again):
            await again.admin.recycle_bin.restore(named(recycle_id))
            assert await is_there(again, kind)
        else:
            with pytest.raises(NotFound):
                await again.admin.recycle_bin.restore(named(recycle_id))
            await again.admin.recycle_bin.expire(RecycleBinExpire())
            assert await again.meta.recycled_places() == [] and await again.meta.expired_recycled(1 << 60, 10) == []
            assert [info for info in await again.ledgers.ledgers() if info.properties.get("tenant") == "acme"] == []
        calls += 1
    assert calls > 2


async def test_a_partitioned_topic_is_not_found_while_it_comes_back(world: BrokerWorld) -> None:
    await set_policies(world, recycle_bin_retention_hours=1)
    await filled(world, "partitioned")
    recycle_id = await deleted(world, PARTS, partitioned=True)
    undo = cut_off_after(world, 2)
    with pytest.raises(MagnetarError):
        await world.admin.recycle_bin.restore(named(recycle_id))
    assert undo()
    with pytest.raises(TopicNotFound, match="is being restored"):
        await world.service.partition_count(parse_topic(PARTS), auto_create=True)
    with pytest.raises(MagnetarError, match="is being restored"):
        await world.admin.recycle_bin.purge(named(recycle_id))
    assert await deleted(world, PARTS, partitioned=True) not in ("", recycle_id), "a deletion finishes the restore first"
    assert len(await in_bin(world)) == 1


@pytest.mark.parametrize("to_bin", [True, False])
async def test_the_answer_to_a_deletion_says_what_the_one_did_that_was_cut_off(world: BrokerWorld, to_bin: bool) -> None:
    await set_policies(world, recycle_bin_retention_hours=int(to_bin))
    await filled(world, "partitioned")
    undo = cut_off_after(world, 1)
    with pytest.raises(MagnetarError):
        await deleted(world, PARTS, partitioned=True)
    assert undo()
    await set_policies(world, recycle_bin_retention_hours=int(not to_bin))
    answered = await deleted(world, PARTS, partitioned=True)
    assert [item.recycle_id for item in await in_bin(world)] == ([answered] if to_bin else [])
    assert bool(answered) is to_bin


async def test_what_cannot_be_purged_holds_up_no_other(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, begin_purge = Clock(), world.meta.begin_purge
    give(world.service, clock)
    await set_policies(world, recycle_bin_retention_hours=1)
    ids = []
    for index in range(3):
        await world.admin.topics.create(TopicCreate(topic=f"{TOPIC}-{index}"))
        ids.append(await deleted(world, f"{TOPIC}-{index}"))
        clock.pass_(1_000)
    clock.pass_(3_600_000)

    async def fails(fence: Any, recycle_id: str) -> None:
        if recycle_id != ids[2]:
            raise Unavailable("damaged")
        await begin_purge(fence, recycle_id)

    monkeypatch.setattr(world.meta, "begin_purge", fails)
    done = await world.admin.recycle_bin.expire(RecycleBinExpire(topics_max=1))
    assert done.purged == 1 and len(done.failed) == 2
    monkeypatch.undo()
    assert (await world.admin.recycle_bin.expire(RecycleBinExpire())).purged == 0, "it is not tried over and over"
    monkeypatch.setattr(recycle_bin, "boottime_ms", lambda: boottime_ms() + recycle_bin.PUT_OFF_MS)
    assert (await world.admin.recycle_bin.expire(RecycleBinExpire())).purged == 2 and await in_bin(world) == []
