"""A managed ledger over stores in memory: appending, reading, opening again, trimming, deleting."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from messaging.storage.ledger_store import (
    AppendFailed,
    Corrupt,
    DiskFull,
    Fenced,
    LedgerClosed,
    Position,
    StoreError,
    Unavailable,
)
from messaging.storage.managed.retention import Retention
from tests.support.storage.managed_steps import confirmed, full, new_world, rolled
from tests.support.storage.managed_world import NAME, World


async def test_appended_entries_are_read() -> None:
    world = await new_world()
    await world.ledger.writable()
    first = world.append(b"a", b"b")
    second = world.append(b"c")
    assert second == first._replace(entry_id=2)
    assert world.ledger.ledger_list.entries == 0  # nothing counts before it is durable
    await confirmed(world, 2)
    assert world.outcomes == [("a", None), ("c", None)]
    assert [data for _, data in await world.read_all()] == [b"a", b"b", b"c"]
    assert world.ledger.ledger_list.last == second
    assert world.ledger.stored_bytes == 3


async def test_appending_before_it_is_writable_is_refused() -> None:
    world = await new_world()
    with pytest.raises(LedgerClosed):
        world.append(b"a")


async def test_two_that_ask_at_once_get_one_ledger() -> None:
    world = await new_world()
    await asyncio.gather(world.ledger.writable(), world.ledger.writable())
    assert len(world.ledger.record.ledgers) == 1


async def test_after_a_failed_append_nothing_more_is_taken() -> None:
    world = await new_world()
    await world.ledger.writable()
    world.append(b"a")
    await confirmed(world, 1)
    world.store.fail_appends(DiskFull("full"))
    world.append(b"b")
    world.append(b"c")
    await confirmed(world, 3)
    assert [type(error) for _, error in world.outcomes] == [type(None), DiskFull, DiskFull]
    with pytest.raises(LedgerClosed):
        world.append(b"d")
    with pytest.raises(DiskFull):
        await world.ledger.writable()
    assert world.ledger.ledger_list.entries == 1
    await world.ledger.close()
    world.store.heal()
    await world.open()
    await world.ledger.writable()
    world.append(b"e")
    await confirmed(world, 4)
    assert [data for _, data in await world.read_all()] == [b"a", b"e"]


async def test_an_unknown_outcome_is_settled_by_opening_again() -> None:
    """The error was told, and yet the entry is there: it counts from the next opening on, once."""
    world = await new_world()
    await world.ledger.writable()
    world.store.lose_outcomes(AppendFailed("who knows"))
    position = world.append(b"a")
    await confirmed(world, 1)
    assert world.ledger.ledger_list.entries == 0
    await world.ledger.close()
    world.store.heal()
    await world.open()
    assert await world.read_all() == [(position, b"a")]


@pytest.mark.parametrize("call", ["create", "seal"])
async def test_a_store_that_fails_while_opening_says_so(call: str) -> None:
    world = await new_world()
    if call == "seal":
        await world.ledger.writable()
        world.store.fail_next("seal", Unavailable("later"))
        with pytest.raises(Unavailable):
            await world.open()
    else:
        world.store.fail_next("create", Unavailable("later"))
        with pytest.raises(Unavailable):
            await world.ledger.writable()
        await world.ledger.writable()  # the next try works
        world.append(b"a")
        await confirmed(world, 1)


async def test_reading_a_topic_needs_no_write() -> None:
    """After a crash, with the disk full: where its ledgers end is found out, whether it can be noted or not."""
    world = await new_world()
    await world.ledger.writable()
    first = world.append(b"a")
    await confirmed(world, 1)
    world.meta.cas_topic = full  # type: ignore[method-assign]
    after = await world.crash()
    assert await after.read_all() == [(first, b"a")]
    del after.meta.cas_topic
    await after.ledger.writable()
    assert after.append(b"b") > first
    await confirmed(after, 1)
    assert [data for _, data in await after.read_all()] == [b"a", b"b"]


async def test_a_ledger_that_the_disk_lost_is_told_to_readers_as_damage() -> None:
    """They tried again for ever; and an open one kept its topic from opening."""
    world = await new_world(entries_max=1)
    await world.ledger.writable()
    for index in range(3):
        world.append(b"%d" % index, b"")
        await rolled(world, index + 2)
    lost = world.ledger.record.ledgers[1]
    last = world.ledger.record.ledgers[-1]
    for ledger in (lost, last):
        await world.memory.delete(world.storage.fence, ledger.ledger_id)
    with pytest.raises(Corrupt) as refused:
        await world.ledger.read(Position(lost.ledger_id, 0), entries_max=9, bytes_max=9)
    assert (refused.value.entry_id, refused.value.resume_entry) == (0, 2)
    after = await world.crash()
    assert after.storage.damage["ledger"] == 1
    ledger_list = after.ledger.ledger_list
    assert ledger_list.resolve(Position(lost.ledger_id, 2)).ledger_id > lost.ledger_id


async def test_after_a_crash_the_open_ledger_is_sealed_where_it_ended() -> None:
    world = await new_world()
    await world.ledger.writable()
    first = world.append(b"a", b"b")
    await confirmed(world, 1)
    assert world.ledger.record.ledgers[0].last_entry is None
    after = await world.crash()
    (ledger,) = after.ledger.record.ledgers
    assert (ledger.last_entry, ledger.length_bytes, ledger.sealed_ms) == (1, 2, 1_000)
    assert [place for place, _ in await after.read_all()] == [first, first._replace(entry_id=1)]
    await after.ledger.writable()
    assert after.append(b"c") > first


async def test_a_ledger_with_one_entry_is_not_taken_for_empty() -> None:
    world = await new_world()
    await world.ledger.writable()
    position = world.append(b"a")
    await confirmed(world, 1)
    await world.ledger.close()
    after = await world.crash()
    assert await after.read_all() == [(position, b"a")]


@pytest.mark.parametrize("clean", [True, False])
async def test_empty_ledgers_do_not_pile_up(clean: bool) -> None:
    """Each time that a producer came and sent nothing, a ledger stayed behind."""
    world = await new_world()
    await world.ledger.writable()
    position = world.append(b"a")
    await confirmed(world, 1)
    for _ in range(3):
        if clean:
            await world.ledger.close()
            await world.open()
        else:
            world = await world.crash()
        await world.ledger.writable()
    if clean:
        await world.ledger.close()
        await world.open()
    else:
        world = await world.crash()
    assert [ledger.ledger_id for ledger in world.ledger.record.ledgers] == [position.ledger_id]
    assert [info.ledger_id for info in await world.memory.ledgers()] == [position.ledger_id]
    assert await world.read_all() == [(position, b"a")]


async def test_a_newer_owner_fences_the_old_one() -> None:
    world = await new_world()
    await world.ledger.writable()
    world.append(b"a")
    await confirmed(world, 1)
    after = await world.crash()
    with pytest.raises(StoreError):
        world.append(b"lost")
    await world.ledger.close()  # never raises
    assert [data for _, data in await after.read_all()] == [b"a"]


async def test_a_change_by_another_owner_is_noticed() -> None:
    world = await new_world()
    await world.meta.cas_topic(world.storage.fence, replace(world.ledger.record, properties={"by": "another"}))
    with pytest.raises(Fenced):
        await world.ledger.writable()


async def aged() -> World:
    """Ledgers of two entries of two bytes each, sealed a second apart, and an open one."""
    world = await new_world(entries_max=1)
    await world.ledger.writable()
    for index in range(8):
        world.append(b"%02d" % index)
        await confirmed(world, index + 1)
        if index % 2:
            await rolled(world, index // 2 + 2)
            world.now_ms += 1_000
    return world


@pytest.mark.parametrize(
    ("mark", "older_than_ms", "larger_than_bytes", "dropped"),
    [
        (Position(9, 0), 10**9, -1, 4),
        (Position(2, 1), 10**9, -1, 2),
        (Position(2, 0), 10**9, -1, 1),  # not acknowledged to the end of the second
        (Position(-1, -1), 10**9, 0, 0),
        (Position(9, 0), 3_000, -1, 2),  # sealed at 1000, 2000, 3000, 4000
        (Position(9, 0), 0, -1, 0),
        (Position(9, 0), 0, 8, 2),  # 16 bytes acknowledged, 8 may stay
        (Position(9, 0), 0, 7, 3),
        (Position(9, 0), 0, 0, 4),
        (Position(9, 0), 2_000, 8, 2),
    ],
)
async def test_trimming_drops_what_retention_does_not_keep(
    mark: Position, older_than_ms: int, larger_than_bytes: int, dropped: int
) -> None:
    world = await aged()
    before = await world.read_all()
    stored = world.ledger.stored_bytes
    assert await world.ledger.trim(mark, Retention(older_than_ms, larger_than_bytes)) == (dropped, 4 * dropped)
    assert await world.read_all() == before[2 * dropped :]
    assert world.ledger.stored_bytes == stored - 4 * dropped
    left = {info.ledger_id for info in await world.memory.ledgers()}
    assert left == {ledger.ledger_id for ledger in world.ledger.record.ledgers}
    after = await world.crash()
    assert await after.read_all() == before[2 * dropped :]


async def test_reading_goes_on_after_everything_was_trimmed() -> None:
    world = await aged()
    last = world.ledger.ledger_list.last
    await world.ledger.trim(last, Retention(10**9, -1))
    waiting = world.ledger.ledger_list.next_after(last)
    assert await world.ledger.read(waiting, entries_max=1, bytes_max=1) == []
    world.append(b"new")
    await confirmed(world, 9)
    ledger_list = world.ledger.ledger_list
    (block,) = await world.ledger.read(ledger_list.resolve(waiting), entries_max=10, bytes_max=100)
    assert block.data == b"new"


async def test_a_trim_cut_off_in_the_middle_leaves_an_orphan_and_no_hole() -> None:
    world = await aged()
    world.store.fail_next("delete", Unavailable("crash"))
    with pytest.raises(Unavailable):
        await world.ledger.trim(Position(9, 0), Retention(10**9, -1))
    after = await world.crash()
    assert await after.read_all() == []
    await after.ledger.writable()
    after.append(b"new")
    await confirmed(after, 1)
    assert [data for _, data in await after.read_all()] == [b"new"]


async def test_deleting_leaves_nothing() -> None:
    world = await aged()
    await world.ledger.delete()
    assert await world.meta.get_topic(NAME) is None
    assert await world.memory.ledgers() == []


async def test_closing_waits_for_what_is_on_its_way() -> None:
    world = await new_world()
    await world.ledger.writable()
    world.store.hold()
    world.append(b"a")
    closing = asyncio.ensure_future(world.ledger.close())
    await asyncio.sleep(0)
    assert not closing.done()
    world.store.release()
    await closing
    assert world.outcomes == [("a", None)]
    with pytest.raises(LedgerClosed):
        world.append(b"b")
    assert world.ledger.record.ledgers[0].last_entry == 0
