"""Ledgers that end because they grew old, and what retention can then drop."""

from __future__ import annotations

import pytest

from messaging.storage.ledger_store import EARLIEST, Position, Unavailable
from messaging.storage.managed.retention import Retention
from tests.support.storage.managed_world import World
from tests.support.waiting import eventually

AT_ONCE = Retention(10**12, 0)  # whatever is acknowledged goes
FOR_EVER = Retention(0, -1)


async def world(**limits: int) -> World:
    held = await World(age_max_ms=4_000, consumed_age_max_ms=1_000, **limits).start()  # type: ignore[arg-type]
    await held.ledger.writable()
    return held


async def stored(held: World, *entries: bytes) -> Position:
    before = len(held.outcomes)
    position = held.append(*entries)
    await eventually(lambda: len(held.outcomes) == before + 1)
    assert held.outcomes[-1][1] is None
    await eventually(lambda: held.ledger.rolling is None)
    return position


def ids(held: World) -> list[int]:
    return [ledger.ledger_id for ledger in held.ledger.record.ledgers]


async def test_an_append_to_an_old_ledger_is_its_last() -> None:
    held = await world()
    first = await stored(held, b"a")
    held.now_ms += 3_999
    second = await stored(held, b"b")
    held.now_ms += 1
    third = await stored(held, b"c")
    fourth = await stored(held, b"d")
    assert (first.ledger_id, second.ledger_id, third.ledger_id) == (first.ledger_id,) * 3
    assert fourth == Position(ids(held)[-1], 0) and fourth > third
    assert [data for _, data in await held.read_all()] == [b"a", b"b", b"c", b"d"]


async def test_a_ledger_without_entries_grows_as_old_as_it_likes() -> None:
    held = await world()
    for _ in range(3):
        held.now_ms += 100_000
        assert await held.ledger.trim(EARLIEST, AT_ONCE) == (0, 0)
    assert len(ids(held)) == 1
    assert held.store.calls.count("create") == 1


async def test_maintenance_ends_an_old_ledger_of_an_idle_topic_and_drops_it() -> None:
    held = await world()
    last = await stored(held, b"a", b"b")
    held.now_ms += 999
    assert await held.ledger.trim(last, AT_ONCE) == (0, 0)
    held.now_ms += 1
    assert await held.ledger.trim(last, AT_ONCE) == (0, 0), "its second entry is not acknowledged"
    mark = last._replace(entry_id=1)
    assert await held.ledger.trim(mark, AT_ONCE) == (1, 2)
    assert held.ledger.ledger_list.entries == 0 and held.ledger.stored_bytes == 0
    assert [info.ledger_id for info in await held.memory.ledgers()] == ids(held) == [last.ledger_id + 1]
    held.now_ms += 100_000
    assert await held.ledger.trim(mark, AT_ONCE) == (0, 0), "the empty one that is left is not replaced by another"
    assert len(ids(held)) == 1
    waiting = held.ledger.ledger_list.next_after(mark)
    assert await stored(held, b"c") == held.ledger.ledger_list.resolve(waiting) > mark


async def test_maintenance_ends_an_old_ledger_that_is_not_acknowledged_and_keeps_it() -> None:
    held = await world()
    position = await stored(held, b"a")
    held.now_ms += 4_000
    assert await held.ledger.trim(EARLIEST, AT_ONCE) == (0, 0)
    assert len(ids(held)) == 2
    assert await held.read_all() == [(position, b"a")]
    assert await held.ledger.trim(position, AT_ONCE) == (1, 1)


async def test_what_is_kept_for_ever_is_ended_by_age_alone() -> None:
    held = await world()
    last = await stored(held, b"a")
    held.now_ms += 3_999
    await held.ledger.trim(last, FOR_EVER)
    assert len(ids(held)) == 1
    held.now_ms += 1
    await held.ledger.trim(last, FOR_EVER)
    assert len(ids(held)) == 2
    assert [data for _, data in await held.read_all()] == [b"a"]


async def test_retention_counts_from_the_end_of_the_ledger() -> None:
    held = await world()
    last = await stored(held, b"a")
    held.now_ms += 1_000
    keep = 500
    assert await held.ledger.trim(last, Retention(held.now_ms - keep, -1)) == (0, 0)
    ended_ms = held.ledger.record.ledgers[0].sealed_ms
    assert ended_ms == held.now_ms
    held.now_ms += keep
    assert await held.ledger.trim(last, Retention(held.now_ms - keep, -1)) == (0, 0)
    held.now_ms += 1
    assert await held.ledger.trim(last, Retention(held.now_ms - keep, -1)) == (1, 1)


@pytest.mark.parametrize("crashed", [False, True])
async def test_the_last_ledger_of_a_topic_that_nobody_writes_to_is_dropped_too(crashed: bool) -> None:
    held = await world()
    last = await stored(held, b"a")
    if crashed:
        held = await held.crash()
    else:
        await held.ledger.close()
        await held.open()
    held.now_ms += 1
    assert await held.ledger.trim(last, AT_ONCE) == (1, 1)
    assert held.ledger.ledger_list.ids[0] > last.ledger_id, "positions go on from an empty one"
    floor = ids(held)
    for _ in range(2):  # and do so for ever
        await held.ledger.close()
        await held.open()
        assert ids(held) == floor
        assert await held.ledger.trim(last, AT_ONCE) == (0, 0)
    await held.ledger.writable()
    assert await stored(held, b"b") > last


async def test_a_roll_that_fails_in_maintenance_is_told_and_loses_nothing() -> None:
    held = await world()
    last = await stored(held, b"a")
    held.now_ms += 4_000
    held.store.fail_next("create", Unavailable("no"))
    with pytest.raises(Unavailable):
        await held.ledger.trim(last, AT_ONCE)
    await held.ledger.recover()
    await held.ledger.writable()
    await stored(held, b"b")
    assert [data for _, data in await held.read_all()] == [b"a", b"b"]


async def test_appends_go_on_while_maintenance_rolls() -> None:
    held = await world()
    first = await stored(held, b"a")
    held.now_ms += 4_000
    held.store.hold()
    held.append(b"b")  # on its way in the old ledger; begins a roll
    rolling = held.ledger.rolling
    assert rolling is not None
    await eventually(lambda: len(ids(held)) == 2 and held.ledger.writing_to == 2)
    held.append(b"c")
    ledger_list = held.ledger.ledger_list
    assert ledger_list.ids == (first.ledger_id,), "nobody may go on in the new ledger yet"
    held.store.release()
    await rolling
    await eventually(lambda: len(held.outcomes) == 3)
    assert [name for name, error in held.outcomes if error is None] == ["a", "b", "c"]
    assert [data for _, data in await held.read_all()] == [b"a", b"b", b"c"]
