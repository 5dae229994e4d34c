"""Ledgers that end because they grew old, and what retention can then drop."""

from __future__ import annotations

import pytest

from messaging.storage.ledger_store import EARLIEST, Position, Unavailable
from messaging.storage.managed.retention import Retention
from tests.support.storage.managed_world import World
from tests.support.waiting import eventually

AT_ONCE = Retention(10**12, 0)  # whatever is acknowledged goes
FOR_EVER = Retention(0, -1)


async def new_world(**limits: int) -> World:
    world = await World(age_max_ms=4_000, consumed_age_max_ms=1_000, **limits).start()  # type: ignore[arg-type]
    await world.ledger.writable()
    return world


async def stored(world: World, *entries: bytes) -> Position:
    before = len(world.outcomes)
    position = world.append(*entries)
    await eventually(lambda: len(world.outcomes) == before + 1)
    assert world.outcomes[-1][1] is None
    await eventually(lambda: world.ledger.rolling is None)
    return position


def ids(world: World) -> list[int]:
    return [ledger.ledger_id for ledger in world.ledger.record.ledgers]


async def test_an_append_to_an_old_ledger_is_its_last() -> None:
    world = await new_world()
    first = await stored(world, b"a")
    world.now_ms += 3_999
    second = await stored(world, b"b")
    world.now_ms += 1
    third = await stored(world, b"c")
    fourth = await stored(world, b"d")
    assert (first.ledger_id, second.ledger_id, third.ledger_id) == (first.ledger_id,) * 3
    assert fourth == Position(ids(world)[-1], 0) and fourth > third
    assert [data for _, data in await world.read_all()] == [b"a", b"b", b"c", b"d"]


async def test_a_ledger_without_entries_grows_as_old_as_it_likes() -> None:
    world = await new_world()
    for _ in range(3):
        world.now_ms += 100_000
        assert await world.ledger.trim(EARLIEST, AT_ONCE) == (0, 0)
    assert len(ids(world)) == 1
    assert world.store.calls.count("create") == 1


async def test_maintenance_ends_an_old_ledger_of_an_idle_topic_and_drops_it() -> None:
    world = await new_world()
    last = await stored(world, b"a", b"b")
    world.now_ms += 999
    assert await world.ledger.trim(last, AT_ONCE) == (0, 0)
    world.now_ms += 1
    assert await world.ledger.trim(last, AT_ONCE) == (0, 0), "its second entry is not acknowledged"
    mark = last._replace(entry_id=1)
    assert await world.ledger.trim(mark, AT_ONCE) == (1, 2)
    assert world.ledger.ledger_list.entries == 0 and world.ledger.stored_bytes == 0
    assert [info.ledger_id for info in await world.memory.ledgers()] == ids(world) == [last.ledger_id + 1]
    world.now_ms += 100_000
    assert await world.ledger.trim(mark, AT_ONCE) == (0, 0), "the empty one that is left is not replaced by another"
    assert len(ids(world)) == 1
    waiting = world.ledger.ledger_list.next_after(mark)
    assert await stored(world, b"c") == world.ledger.ledger_list.resolve(waiting) > mark


async def test_maintenance_ends_an_old_ledger_that_is_not_acknowledged_and_keeps_it() -> None:
    world = await new_world()
    position = await stored(world, b"a")
    world.now_ms += 4_000
    assert await world.ledger.trim(EARLIEST, AT_ONCE) == (0, 0)
    assert len(ids(world)) == 2
    assert await world.read_all() == [(position, b"a")]
    assert await world.ledger.trim(position, AT_ONCE) == (1, 1)


async def test_a_ledger_kept_for_ever_is_ended_by_age_alone() -> None:
    world = await new_world()
    last = await stored(world, b"a")
    world.now_ms += 3_999
    await world.ledger.trim(last, FOR_EVER)
    assert len(ids(world)) == 1
    world.now_ms += 1
    await world.ledger.trim(last, FOR_EVER)
    assert len(ids(world)) == 2
    assert [data for _, data in await world.read_all()] == [b"a"]


async def test_retention_counts_from_the_end_of_the_ledger() -> None:
    world = await new_world()
    last = await stored(world, b"a")
    world.now_ms += 1_000
    keep = 500
    assert await world.ledger.trim(last, Retention(world.now_ms - keep, -1)) == (0, 0)
    ended_ms = world.ledger.record.ledgers[0].sealed_ms
    assert ended_ms == world.now_ms
    world.now_ms += keep
    assert await world.ledger.trim(last, Retention(world.now_ms - keep, -1)) == (0, 0)
    world.now_ms += 1
    assert await world.ledger.trim(last, Retention(world.now_ms - keep, -1)) == (1, 1)


@pytest.mark.parametrize("crashed", [False, True])
async def test_the_last_ledger_of_a_topic_that_nobody_writes_to_is_dropped_too(crashed: bool) -> None:
    world = await new_world()
    last = await stored(world, b"a")
    if crashed:
        world = await world.crash()
    else:
        await world.ledger.close()
        await world.open()
    world.now_ms += 1
    assert await world.ledger.trim(last, AT_ONCE) == (1, 1)
    assert world.ledger.ledger_list.ids[0] > last.ledger_id, "positions go on from an empty one"
    floor = ids(world)
    for _ in range(2):  # and do so for ever
        await world.ledger.close()
        await world.open()
        assert ids(world) == floor
        assert await world.ledger.trim(last, AT_ONCE) == (0, 0)
    await world.ledger.writable()
    assert await stored(world, b"b") > last


async def test_a_roll_that_fails_in_maintenance_is_told_and_loses_nothing() -> None:
    world = await new_world()
    last = await stored(world, b"a")
    world.now_ms += 4_000
    world.store.fail_next("create", Unavailable("no"))
    with pytest.raises(Unavailable):
        await world.ledger.trim(last, AT_ONCE)
    await world.ledger.recover()
    await world.ledger.writable()
    await stored(world, b"b")
    assert [data for _, data in await world.read_all()] == [b"a", b"b"]


async def test_appends_go_on_while_maintenance_rolls() -> None:
    world = await new_world()
    first = await stored(world, b"a")
    world.now_ms += 4_000
    world.store.hold()
    world.append(b"b")  # on its way in the old ledger; begins a roll
    rolling = world.ledger.rolling
    assert rolling is not None
    await eventually(lambda: len(ids(world)) == 2 and world.ledger.writing_to == 2)
    world.append(b"c")
    ledger_list = world.ledger.ledger_list
    assert ledger_list.ids == (first.ledger_id,), "nobody may go on in the new ledger yet"
    world.store.release()
    await rolling
    await eventually(lambda: len(world.outcomes) == 3)
    assert [name for name, error in world.outcomes if error is None] == ["a", "b", "c"]
    assert [data for _, data in await world.read_all()] == [b"a", b"b", b"c"]
