"""Sparse ledgers in the log: a gap is not damage and damage is not a gap, whatever became of the segments."""

from __future__ import annotations

import pytest

from messaging.storage.ledger_store import SPARSE, Block, Corrupt
from messaging.storage.local import LocalLedgerStore
from messaging.storage.local.format.segment import name_of
from messaging.storage.local.recover.inspect import verify
from messaging.storage.local.snapshot import snapshot
from tests.support.storage.damaged_log import DIRECTORY, PAYLOAD, append, flip, place_of, reopened
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.filled_log import segment_names
from tests.support.storage.owning import fence_of, started
from tests.support.storage.power_loss import CONFIG
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio

STEP = 10  # every tenth entry was left over


async def compacted(disk: FakeDisk, blocks: int) -> LocalLedgerStore:
    """Ledger 1 is sparse; beside it, ledgers 2 to 5 are filled."""
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await started(store)
    sparse = await store.create(fence, 1, {SPARSE: "yes"})
    others = [await store.create(fence, ledger_id, {}) for ledger_id in range(2, 6)]
    for number in range(blocks):
        sparse.skip_to(number * STEP)
        await append(sparse, PAYLOAD % (number * STEP))
        for other in others:
            await append(other, bytes(500))
    return store


async def read_through(store: LocalLedgerStore, *, entries_max: int = 7) -> tuple[list[int], list[tuple[int, int]]]:
    """(entries that came back, what was said to be lost: from an entry until the one to go on with)."""
    reader, last = await store.open(1), (await store.info(1)).last_entry
    good: list[int] = []
    lost: list[tuple[int, int]] = []
    first = 0
    while first <= last:
        try:
            blocks: list[Block] = await reader.read(first, entries_max=entries_max, bytes_max=1 << 20)
        except Corrupt as error:
            lost.append((error.entry_id, error.resume_entry))
            first = error.resume_entry
            continue
        for block in blocks:
            assert bytes(block.data) == PAYLOAD % block.first_entry and block.header == b"header"
            good.append(block.first_entry)
        first = good[-1] + 1
    return good, lost


@pytest.mark.parametrize("footers", ["readable", "lost"])
async def test_a_lost_block_is_not_taken_for_a_gap(footers: str) -> None:
    disk = FakeDisk()
    await (await compacted(disk, 200)).stop()
    flip(disk, 1, place_of(disk, 1, 50) + 5)
    store = await reopened(disk)
    if footers == "lost":
        segment = store.log.segments.by_number[1]
        disk.file(DIRECTORY / name_of(1, 0))[segment.footer_offset + 60] ^= 1
    assert store.log.segments.by_number[1].sealed
    good, lost = await read_through(store)
    assert lost == [(41, 60)], "the block before the lost one ends at 40, the next begins at 60"
    assert good == [entry for entry in range(0, 200 * STEP, STEP) if entry != 50]
    reader = await store.open(1)
    for first in (51, 55, 59, 60):  # the gap behind the lost block, and what follows: nothing that was asked for is lost
        assert (await reader.read(first, entries_max=1, bytes_max=1))[0].first_entry == 60
    await store.stop()


async def test_a_lost_segment_is_not_taken_for_a_gap() -> None:
    """It held the beginning of the ledger: that it is sparse is known from its blocks."""
    disk = FakeDisk()
    await (await compacted(disk, 200)).stop()
    content = disk.file(DIRECTORY / name_of(1, 0))
    content[:] = bytes(len(content))
    disk.remove(DIRECTORY / snapshot.NAME)
    store = await reopened(disk)
    assert (await store.info(1)).properties == {}
    good, lost = await read_through(store)
    assert lost == [(0, good[0])] and good[0] > 0
    assert good == list(range(good[0], 200 * STEP, STEP))
    await store.stop()


@pytest.mark.parametrize("starts", ["with a snapshot", "without"])
async def test_segments_are_rewritten_around_the_blocks_of_a_sparse_ledger(starts: str) -> None:
    disk = FakeDisk()
    store = await compacted(disk, 200)
    expected = list(range(0, 200 * STEP, STEP))
    assert len(segment_names(disk)) > 5
    for ledger_id in range(2, 6):
        await store.delete(fence_of(store), ledger_id)
    await eventually(lambda: len(segment_names(disk)) > 1 and all(not n.endswith("-0000.log") for n in segment_names(disk)[:-1]))
    assert await read_through(store) == (expected, [])
    await store.stop()
    assert verify(DIRECTORY, disk=disk).problems == []
    if starts == "without":
        disk.remove(DIRECTORY / snapshot.NAME)
    store = await reopened(disk)
    assert await read_through(store, entries_max=1) == (expected, [])
    await store.delete(fence_of(store), 1)
    await eventually(lambda: len(segment_names(disk)) <= 2)
    await store.stop()
