"""Flipped and torn bytes: what was synced and does not match is reported and stays reported; the rest is served."""

from __future__ import annotations

import asyncio
from array import array
from pathlib import Path

import pytest

from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.records import COMMIT_BYTES
from messaging.storage.local.segment import PAGE_BYTES, name_of
from messaging.storage.seam import Corrupt, LedgerWriter, StoreError, Unavailable
from tests.messaging.storage.fake_disk import FakeDisk

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

    stops = array("I")
    for payload in payloads:
        stops.append(len(payload) + (stops[-1] if stops else 0))
    writer.append(b"header", b"".join(payloads), stops, done)
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
            entry += 1
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


@pytest.mark.parametrize("offset", [4096 * 0 + 10, 2048 + 9])
async def test_a_damaged_header_page(offset: int) -> None:
    """The head: that segment's entries are reported. The seal: the segment is read instead of its footer."""
    disk = FakeDisk()
    await fill(disk, 400)
    flip(disk, 1, offset)
    store = await reopened(disk)
    if offset >= 2048:
        assert await readable(store, 1) == ([*range(400)], [])
    else:
        assert [damage.synced for damage in store.damage] == [True]
        # The records that made the ledgers stood in that segment: what is known of them is what is reported.
        assert await store.ledgers() == []
    await store.stop()


async def test_a_damaged_footer_is_replaced_by_reading_the_segment() -> None:
    disk = FakeDisk()
    await fill(disk, 400)
    store = await reopened(disk)
    footer = store._log.segments[1].footer_offset
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
        writer = await store.create(store._fence, 3, {})
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
    writer = await store.create(store._fence, 1, {})
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
