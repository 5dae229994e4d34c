"""Flipped and torn bytes: what was synced and does not match is reported and stays reported; the rest is served."""

from __future__ import annotations

import asyncio
import errno
from array import array
from pathlib import Path

import pytest

from messaging.storage.ledger_store import Corrupt, LedgerWriter, StoreError, Unavailable
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.device.disk import replace_file
from messaging.storage.local.format.directory import read_epoch
from messaging.storage.local.format.records import COMMIT_BYTES
from messaging.storage.local.format.segment import PAGE_BYTES, header_page, name_of, parse_name
from tests.support.storage.fake_disk import FakeDisk

pytestmark = pytest.mark.asyncio

DIRECTORY = Path("/log")
CONFIG = LocalConfig(
    segment_bytes=64 << 10, commit_bytes_max=8 << 10, reserved_bytes=0, entry_bytes_max=16 << 10, checkpoint_bytes=1 << 20
)
PAYLOAD = b"payload of entry %06d, long enough to be found again in the file"


async def append(writer: LedgerWriter, *payloads: bytes) -> None:
    """One block, confirmed."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: StoreError | None) -> None:
        future.set_exception(error) if error else future.set_result(None)

    end_offsets = array("I")
    for payload in payloads:
        end_offsets.append(len(payload) + (end_offsets[-1] if end_offsets else 0))
    writer.append(b"header", b"".join(payloads), end_offsets, done)
    await future


async def fill(disk: FakeDisk, entries: int) -> None:
    """One entry a commit, in ledger 1, never sealed; every third one also in ledger 2."""
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await store.start()
    one = await store.create(fence, 1, {})
    two = await store.create(fence, 2, {})
    for entry in range(entries):
        await append(one, PAYLOAD % entry)
        if entry % 3 == 0:
            await append(two, b"other")
    await store.stop()


async def readable(store: LocalLedgerStore, ledger_id: int) -> tuple[list[int], list[int]]:
    """(entries that came back, entries reported corrupt)."""
    info = await store.info(ledger_id)
    reader = await store.open(ledger_id)
    good: list[int] = []
    bad: list[int] = []
    entry = 0
    while entry <= info.last_entry:
        try:
            blocks = await reader.read(entry, entries_max=7, bytes_max=1000)
        except Corrupt as error:
            assert (error.ledger_id, error.entry_id) == (ledger_id, entry)
            bad.append(entry)
            entry = error.resume_entry
            continue
        for block in blocks:
            if ledger_id == 1:
                assert bytes(block.data) == PAYLOAD % block.first_entry
            good.append(block.first_entry)
        entry = good[-1] + 1
    return good, bad


def flip(disk: FakeDisk, segment: int, offset: int, bit: int = 0) -> None:
    disk.file(DIRECTORY / name_of(segment, 0))[offset] ^= 1 << bit


def place_of(disk: FakeDisk, segment: int, entry: int) -> int:
    return disk.file(DIRECTORY / name_of(segment, 0)).index(PAYLOAD % entry)


async def reopened(disk: FakeDisk) -> LocalLedgerStore:
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await store.start()
    return store


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
    newest = max(place[0] for name in disk.names(DIRECTORY) if (place := parse_name(name)))
    number = segment if segment > 0 else newest
    flip(disk, number, offset)
    store = await reopened(disk)
    assert offset >= 2048 or len(store.damage) == 1
    for ledger in (1, 2):
        good, bad = await readable(store, ledger)
        assert (len(good), bad) == ((400, []) if ledger == 1 else (134, []))
    await append(await store.create(store.fence, 3, {}), b"it goes on")
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
    await store.delete(store.fence, 1)
    await append(await store.create(store.fence, 3, {}), b"it goes on")
    await store.stop()
    store = await reopened(disk)
    assert {info.ledger_id for info in await store.ledgers()} == {2, 3}
    await store.stop()


@pytest.mark.parametrize("sealed", [True, False])
async def test_a_page_that_cannot_be_read_costs_what_stands_in_it(sealed: bool) -> None:
    """The disk says so with an error, not with wrong bytes: opening the log failed, or readers tried again for ever."""
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
    await append(await store.create(store.fence, 3, {}), *[b"x" * 10_000] * 1)
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


async def test_a_flipped_bit_anywhere_in_the_last_commit_sets_it_aside() -> None:
    clean = FakeDisk()
    await fill(clean, 20)
    content = clean.file(DIRECTORY / name_of(1, 0))
    start = content.index(PAYLOAD % 19) - 4 - 6 - 36 - COMMIT_BYTES
    stop = content.index(PAYLOAD % 19) + len(PAYLOAD % 19)
    assert start > PAGE_BYTES
    for offset in range(start, stop):
        disk = clean.frozen()
        flip(disk, 1, offset, offset % 8)
        store = await reopened(disk)
        assert [(damage.synced, damage.start) for damage in store.damage] == [(False, start)]
        assert await readable(store, 1) == ([*range(19)], [])
        assert any(name.startswith("segment-") for name in disk.names(DIRECTORY / "set-aside"))
        await store.stop()
        store = await reopened(disk)  # said once: the log is whole again
        assert store.damage == []
        await store.stop()


async def test_a_commit_cut_short_anywhere_is_set_aside() -> None:
    clean = FakeDisk()
    await fill(clean, 20)
    content = clean.file(DIRECTORY / name_of(1, 0))
    start = content.index(PAYLOAD % 19) - 4 - 6 - 36 - COMMIT_BYTES
    stop = content.index(PAYLOAD % 19) + len(PAYLOAD % 19)
    for cut in range(start + 1, stop, 7):
        disk = clean.frozen()
        disk.file(DIRECTORY / name_of(1, 0))[cut:stop] = bytes(stop - cut)
        store = await reopened(disk)
        assert await readable(store, 1) == ([*range(19)], [])
        writer = await store.create(store.fence, 3, {})
        await append(writer, b"goes on")
        await store.stop()
        store = await reopened(disk)
        assert store.damage == [] and (await store.info(3)).last_entry == 0
        await store.stop()


async def test_a_payload_that_looks_like_a_commit_is_no_commit() -> None:
    """Another store's bytes, sent as a message: the checksum is seeded with the store's id."""
    disk = FakeDisk()
    await fill(disk, 20)
    foreign = bytes(disk.file(DIRECTORY / name_of(1, 0))[PAGE_BYTES : PAGE_BYTES + 3000])
    disk = FakeDisk()
    store = await reopened(disk)
    writer = await store.create(store.fence, 1, {})
    await append(writer, foreign)
    await store.stop()
    content = disk.file(DIRECTORY / name_of(1, 0))
    content[content.index(foreign) - 20] ^= 1  # the real record is torn
    store = await reopened(disk)
    assert [damage.synced for damage in store.damage] == [False]
    assert (await store.info(1)).last_entry == -1
    await store.stop()


@pytest.mark.parametrize("name", ["format", "epoch"])
async def test_an_unreadable_format_or_epoch_is_refused_by_name(name: str) -> None:
    disk = FakeDisk()
    await fill(disk, 1)
    disk.file(DIRECTORY / name)[:] = b"{"
    with pytest.raises(Unavailable, match=name):
        await reopened(disk)


async def test_a_newer_format_is_refused() -> None:
    disk = FakeDisk()
    await fill(disk, 1)
    disk.file(DIRECTORY / "format")[:] = b'{"format": 3, "store_id": "1"}'
    with pytest.raises(Unavailable, match="format 3"):
        await reopened(disk)
