"""A topic that is made: with its first ledger in one commit, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from messaging.storage.ledger_store import DiskFull, StoreError, Unavailable
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.meta_store import MetaConflict, PartitionedRecord, TopicRecord
from tests.support.storage.faulty_meta import FaultyMetaStore
from tests.support.storage.managed_world import World

pytestmark = pytest.mark.asyncio

NEW = "persistent://a/b/new"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = await World().start()
    yield made
    await made.store.stop()


async def begun(world: World, *, writable: bool = True) -> ManagedLedger:
    return await ManagedLedger.begin(world.storage, TopicRecord(NEW, created_ms=5), {"tenant": "a"}, writable=writable)


async def ledgers(world: World) -> list[int]:
    return sorted(info.ledger_id for info in await world.store.ledgers())


async def test_a_writable_topic_takes_one_commit(world: World) -> None:
    meta = FaultyMetaStore(world.meta)
    world.storage.meta = meta
    made = await begun(world)
    assert meta.calls == 2  # the id of the ledger, which is given out from memory, and the record
    stored = await world.meta.get_topic(NEW)
    assert stored is not None and stored == made.record
    assert (stored.version, [ledger.ledger_id for ledger in stored.ledgers]) == (1, [made.writing_to])
    made.check_open()


async def test_a_topic_not_to_be_written_has_no_ledger(world: World) -> None:
    made = await begun(world, writable=False)
    assert (made.record.ledgers, made.writing_to, await ledgers(world)) == ((), -1, [])
    await made.writable()
    assert [ledger.ledger_id for ledger in made.record.ledgers] == await ledgers(world) == [made.writing_to]


async def test_a_topic_made_meanwhile_leaves_nothing(world: World) -> None:
    first = await begun(world)
    with pytest.raises(MetaConflict):
        await begun(world)
    assert await ledgers(world) == [first.writing_to]
    first.check_open()


async def test_a_topic_beside_a_partitioned_one_leaves_nothing(world: World) -> None:
    await world.meta.cas_partitioned(world.storage.fence, PartitionedRecord(NEW, 1))
    for writable in (True, False):
        with pytest.raises(MetaConflict, match="partitioned"):
            await begun(world, writable=writable)
    assert await ledgers(world) == []


@pytest.mark.parametrize("error", [DiskFull("full"), Unavailable("away")])
async def test_without_a_ledger_the_topic_is_made_all_the_same(world: World, error: StoreError) -> None:
    world.store.fail_next("create", error)
    made = await begun(world)
    assert (made.record.version, made.record.ledgers) == (1, ())
    await made.writable()
    assert len(made.record.ledgers) == 1


@pytest.mark.parametrize("after_doing", [False, True])
async def test_a_commit_whose_outcome_is_unknown(world: World, after_doing: bool) -> None:
    meta = FaultyMetaStore(world.meta)
    world.storage.meta = meta
    meta.begin(2, Unavailable("away"), after_doing=after_doing)
    made = await begun(world)
    stored = await world.meta.get_topic(NEW)
    assert stored == made.record
    assert await ledgers(world) == [ledger.ledger_id for ledger in made.record.ledgers]
    assert bool(made.record.ledgers) == after_doing
