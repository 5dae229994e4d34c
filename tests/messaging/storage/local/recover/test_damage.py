"""Flipped bytes and lost pages: what was synced and does not match is reported and stays reported; the rest is served."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from messaging.storage.ledger_store import Corrupt, Unavailable
from messaging.storage.local.device.disk import replace_file
from messaging.storage.local.format.directory import read_epoch
from messaging.storage.local.format.segment import PAGE_BYTES, header_page, name_of, parse_name
from messaging.storage.local.read import lost_entries
from tests.support.storage.damaged_log import DIRECTORY, PAYLOAD, append, fill, flip, place_of, readable, reopened
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.owning import fence_of

pytestmark = pytest.mark.asyncio


# Places in the record of an entry, counted from its payload: in the payload, in the stops, in the header, and the fixed fields.
@pytest.mark.parametrize("back", [-10, 2, 7, 11, 14, 18, 26, 34, 40, 43, 45])
async def test_damage_below_the_synced_offset_is_corrupt_and_the_rest_is_served(back: int) -> None:
    disk = FakeDisk()
    await fill(disk, 60)
    flip(disk, 1, place_of(disk, 1, 30) - back)
    store = await reopened(disk)
    assert [damage.synced for damage in store.damage] == [True]
    good, bad = await readable(store, 1)
    assert bad == [30] and good == [*range(30), *range(31, 60)]
    assert (await readable(store, 2))[1] == []
    await store.stop()
    store = await reopened(disk)  # it is not forgotten
    assert [damage.synced for damage in store.damage] == [True]
    assert (await readable(store, 1))[1] == [30]
    await store.stop()


async def test_a_damaged_commit_header_is_corrupt() -> None:
    disk = FakeDisk()
    await fill(disk, 60)
    header = place_of(disk, 1, 30) - 4 - 6 - 36 - 50
    flip(disk, 1, header)
    store = await reopened(disk)
    assert [damage.synced for damage in store.damage] == [True]
    assert await readable(store, 1) == ([*range(60)], [])  # its records are whole
    await store.stop()


async def test_damage_in_a_sealed_segment_is_met_by_the_reader_alone() -> None:
    disk = FakeDisk()
    await fill(disk, 400)
    flip(disk, 1, place_of(disk, 1, 30) + 5)
    store = await reopened(disk)
    assert store.damage == []
    good, bad = await readable(store, 1)
    assert bad == [30] and len(good) == 399
    await store.stop()


@pytest.mark.parametrize("offset", [10, 2048 + 9])
@pytest.mark.parametrize("segment", [1, 2, -1])
async def test_a_damaged_header_page_costs_nothing(offset: int, segment: int) -> None:
    """It stopped all topics whose ledgers began in that segment. The page says nothing that is not known: it is written again, and
    the segment read instead of its footer."""
    disk = FakeDisk()
    await fill(disk, 400)
    newest = max(parsed.number for name in disk.names(DIRECTORY) if (parsed := parse_name(name)))
    number = segment if segment > 0 else newest
    flip(disk, number, offset)
    store = await reopened(disk)
    assert offset >= 2048 or len(store.damage) == 1
    for ledger in (1, 2):
        good, bad = await readable(store, ledger)
        assert (len(good), bad) == ((400, []) if ledger == 1 else (134, []))
    await append(await store.create(fence_of(store), 3, {}), b"it goes on")
    await store.stop()
    store = await reopened(disk)
    assert store.damage == []
    assert (await readable(store, 1))[1] == [] and (await store.info(3)).last_entry == 0
    await store.stop()


async def test_a_header_page_that_cannot_be_read() -> None:
    disk = FakeDisk()
    await fill(disk, 400)
    disk.bad_pages.add((name_of(1, 0), 0))
    original = disk.before

    def before(kind: str, path: Path) -> None:
        if kind == "write" and path.name == name_of(1, 0):
            disk.bad_pages.clear()  # a disk puts another sector in place of one that is written
        original(kind, path)

    disk.before = before  # type: ignore[method-assign]
    store = await reopened(disk)
    assert await readable(store, 1) == ([*range(400)], [])
    await store.stop()


@pytest.mark.parametrize("lost", ["zeros", "cut short", "another store's"])
async def test_a_segment_that_is_lost_costs_what_stood_in_it(lost: str) -> None:
    """Ledgers that began in it are found where they went on; readers are told where that is, and pass on."""
    disk = FakeDisk()
    await fill(disk, 400)
    content = disk.file(DIRECTORY / name_of(1, 0))
    if lost == "cut short":
        del content[1000:]
    elif lost == "zeros":
        content[:] = bytes(len(content))
    else:
        content[:PAGE_BYTES] = header_page(1, 1, 0, recycled=False)
    store = await reopened(disk)
    assert [damage.segment for damage in store.damage] == [1]
    good, bad = await readable(store, 1)
    assert good[-1] == 399 and good == list(range(good[0], 400))
    assert bad == [0], "one word says where reading goes on"
    with pytest.raises(Corrupt) as refused:
        await (await store.open(1)).read(0, entries_max=9, bytes_max=999)
    assert refused.value.resume_entry == good[0]
    await store.delete(fence_of(store), 1)
    await append(await store.create(fence_of(store), 3, {}), b"it goes on")
    await store.stop()
    store = await reopened(disk)
    assert {info.ledger_id for info in await store.ledgers()} == {2, 3}
    await store.stop()


@pytest.mark.parametrize("sealed", [True, False])
async def test_a_page_that_cannot_be_read_costs_what_stands_in_it(sealed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk says so with an error, not with wrong bytes: opening the log failed, or readers tried again for ever."""
    monkeypatch.setattr(lost_entries, "PATIENCE_S", 0)
    disk = FakeDisk()
    await fill(disk, 400 if sealed else 60)
    page = place_of(disk, 1, 30) // PAGE_BYTES
    disk.bad_pages.add((name_of(1, 0), page))
    content = disk.file(DIRECTORY / name_of(1, 0))
    whole = bytes(content)
    expected = [
        entry
        for entry in range(60)
        if not page * PAGE_BYTES - len(PAYLOAD % 0) < whole.index(PAYLOAD % entry) < (page + 1) * PAGE_BYTES + 46
    ]
    store = await reopened(disk)
    good, bad = await readable(store, 1)
    assert 30 not in good and good[-1] == (399 if sealed else 59)
    assert set(expected) <= set(good), "only what stands in that page is lost"
    assert len(bad) < 30
    await store.stop()


async def test_a_disk_that_does_not_answer_is_no_damage() -> None:
    disk = FakeDisk()
    await fill(disk, 400)
    store = await reopened(disk)
    disk.fail(lambda kind, path, number: kind == "read")
    reader = await store.open(1)
    with pytest.raises(Unavailable):
        await reader.read(0, entries_max=9, bytes_max=999)
    disk.heal()
    assert (await readable(store, 1))[1] == []
    await store.stop()


@pytest.mark.parametrize("part", ["footer", "snapshot"])
async def test_an_index_that_cannot_be_read_is_made_again(part: str) -> None:
    disk = FakeDisk()
    await fill(disk, 400)
    store = await reopened(disk)
    footer = store.log.segments.by_number[1].footer_offset
    await store.stop()
    if part == "footer":
        disk.bad_pages.add((name_of(1, 0), footer // PAGE_BYTES))
    else:
        replace_file(disk, DIRECTORY / "index", b"x" * 100)
        disk.bad_pages.add(("index", 0))
    original = disk.before

    def before(kind: str, path: Path) -> None:
        if kind in ("write", "remove") and path.name in (name_of(1, 0), "index"):
            disk.bad_pages.clear()
        original(kind, path)

    disk.before = before  # type: ignore[method-assign]
    store = await reopened(disk)
    good, _ = await readable(store, 1)
    assert good[-1] == 399 and len(good) > 380, "what stood in the same page is lost"
    await store.stop()


async def test_a_full_disk_does_not_keep_a_log_from_opening() -> None:
    """After a crash: the epoch is raised, and a torn tail cut off, without a byte of space."""
    disk = FakeDisk()
    await fill(disk, 60)
    place = place_of(disk, 1, 59)
    disk.file(DIRECTORY / name_of(1, 0))[place : place + 20] = bytes(20)
    epoch = read_epoch(disk, DIRECTORY)
    disk.fail(lambda kind, path, number: errno.ENOSPC if path.suffix in (".new", ".bin") or path.name == "checkpoint" else False)
    store = await reopened(disk)
    assert read_epoch(disk, DIRECTORY) == epoch + 1
    assert await readable(store, 1) == ([*range(59)], [])
    await append(await store.create(fence_of(store), 3, {}), *[b"x" * 10_000] * 1)
    assert store.failed is None
    await store.stop()


async def test_a_damaged_footer_is_replaced_by_reading_the_segment() -> None:
    disk = FakeDisk()
    await fill(disk, 400)
    store = await reopened(disk)
    footer = store.log.segments.by_number[1].footer_offset
    await store.stop()
    flip(disk, 1, footer + 60)
    store = await reopened(disk)
    assert store.damage[0].synced
    assert await readable(store, 1) == ([*range(400)], [])
    await store.stop()
    store = await reopened(disk)  # a new footer was written
    assert store.damage == []
    await store.stop()
