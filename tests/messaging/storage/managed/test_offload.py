"""Ledgers kept outside the store: read from there, and gone from there with the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from messaging.storage.ledger_store import Corrupt, LedgerInfo, LedgerReader, NoSuchEntry, NoSuchLedger, Position, Unavailable
from messaging.storage.managed.retention import NOTHING
from messaging.storage.offload_directory import DirectoryOffloader
from tests.support.storage.managed_world import World
from tests.support.waiting import eventually


@pytest.fixture
async def held(tmp_path: Path) -> World:
    """Two sealed ledgers of a few blocks each, and an open one."""
    world = await World(offloader=DirectoryOffloader(tmp_path / "cold")).start()
    await world.ledger.writable()
    for ledger in (b"a", b"b", b"c"):
        for block in range(3):
            world.append(*(b"%s%d%d" % (ledger, block, entry) for entry in range(block + 1)))
        await eventually(lambda: world.ledger.in_flight == 0)
        if ledger != b"c":
            await world.ledger.roll()
    return world


def ids(world: World) -> list[int]:
    return [ledger.ledger_id for ledger in world.ledger.record.ledgers]


def files(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cold").glob("*"))


async def test_what_was_offloaded_is_read_as_before(held: World, tmp_path: Path) -> None:
    before = await held.read_all()
    first, second, last = ids(held)
    await held.ledger.offload(first, keep_local=False)
    await held.ledger.offload(second, keep_local=True)
    assert files(tmp_path) == [f"ledger-{first}", f"ledger-{second}"]
    assert [info.ledger_id for info in await held.memory.ledgers()] == [second, last]
    assert await held.read_all() == before
    after = await held.crash()
    assert await after.read_all() == before
    await after.ledger.offload(second, keep_local=False)
    await after.ledger.offload(second, keep_local=False)
    assert await after.read_all() == before


async def test_only_sealed_ledgers_of_the_topic_are_offloaded(held: World) -> None:
    for ledger_id in (ids(held)[-1], 99):
        with pytest.raises(NoSuchLedger):
            await held.ledger.offload(ledger_id, keep_local=True)


@pytest.mark.parametrize("keep_local", [False, True])
async def test_what_is_dropped_is_dropped_there_too(held: World, tmp_path: Path, keep_local: bool) -> None:
    first, second, _ = ids(held)
    for ledger_id in (first, second):
        await held.ledger.offload(ledger_id, keep_local=keep_local)
    await held.ledger.trim(Position(first, 5), NOTHING)
    assert files(tmp_path) == [f"ledger-{second}"]
    await held.ledger.delete()
    assert files(tmp_path) == []


@pytest.mark.parametrize("call", ["open", "read", "info", "delete"])
async def test_offloading_that_is_cut_off_loses_nothing(held: World, tmp_path: Path, call: str) -> None:
    before = await held.read_all()
    first = ids(held)[0]
    held.store.fail_next(call, Unavailable("cut off"))
    with pytest.raises(Unavailable):
        await held.ledger.offload(first, keep_local=False)
    held.store.heal()
    after = await held.crash()
    assert await after.read_all() == before
    await after.ledger.offload(first, keep_local=False)
    assert await after.read_all() == before
    assert files(tmp_path) == [f"ledger-{first}"]
    assert first not in [info.ledger_id for info in await after.memory.ledgers()]


async def test_a_ledger_trimmed_while_it_is_copied_leaves_no_copy(held: World, tmp_path: Path) -> None:
    class Slow(DirectoryOffloader):
        copied, go_on = asyncio.Event(), asyncio.Event()

        async def offload(self, info: LedgerInfo, reader: LedgerReader) -> None:
            await super().offload(info, reader)
            self.copied.set()
            await self.go_on.wait()

    held.storage.offloader = slow = Slow(tmp_path / "cold")
    first = ids(held)[0]
    offloading = asyncio.ensure_future(held.ledger.offload(first, keep_local=False))
    await slow.copied.wait()
    await held.ledger.trim(Position(first, 5), NOTHING)
    slow.go_on.set()
    await offloading
    assert files(tmp_path) == []
    assert first not in ids(held)


async def test_without_an_offloader_it_says_so(held: World) -> None:
    await held.ledger.offload(ids(held)[0], keep_local=False)
    held.storage.offloader = None
    with pytest.raises(Unavailable, match="offloaded"):
        await held.read_all()


async def test_every_flipped_bit_is_told(held: World, tmp_path: Path) -> None:
    """Wherever it is: at the entry that it concerns, or at the opening."""
    first = ids(held)[0]
    good = await held.read_all()
    await held.ledger.offload(first, keep_local=False)
    path = tmp_path / "cold" / f"ledger-{first}"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(Corrupt) as told:
            await held.read_all()
        if told.value.entry_id:
            found = await held.ledger.read(Position(first, 0), entries_max=100, bytes_max=1 << 20)
            assert sum(block.count for block in found) == told.value.entry_id, "what comes before it is served"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(Corrupt):
            await held.read_all()
    path.write_bytes(whole)
    assert await held.read_all() == good


async def test_reading_keeps_to_its_bounds(held: World, tmp_path: Path) -> None:
    first = ids(held)[0]
    await held.ledger.offload(first, keep_local=False)
    reader = await DirectoryOffloader(tmp_path / "cold").open(first)
    assert [block.first_entry for block in await reader.read(0, entries_max=3, bytes_max=1 << 20)] == [0, 1]
    assert [block.first_entry for block in await reader.read(2, entries_max=100, bytes_max=1)] == [1]
    with pytest.raises(NoSuchEntry):
        await reader.read(6, entries_max=1, bytes_max=1)
    await reader.aclose()
    with pytest.raises(NoSuchLedger):
        await DirectoryOffloader(tmp_path / "cold").open(77)


async def test_a_directory_that_cannot_be_written(held: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    offloader = DirectoryOffloader(tmp_path / "file")
    first = ids(held)[0]
    with pytest.raises(Unavailable):
        await offloader.offload(LedgerInfo(first, 5, 1, True), await held.memory.open(first))
