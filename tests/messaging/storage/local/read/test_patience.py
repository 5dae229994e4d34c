"""What the disk does not return for a moment is not lost: only what it does not return for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.storage.ledger_store import Corrupt, Unavailable
from messaging.storage.local import LocalLedgerStore
from messaging.storage.local.format.segment import PAGE_BYTES, name_of
from messaging.storage.local.read import index, lost_entries, rebuilt_footers
from tests.support.storage.damaged_log import fill, place_of, readable, reopened
from tests.support.storage.fake_disk import FakeDisk

pytestmark = pytest.mark.asyncio

ENTRY = 30


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(index, "monotonic", made)
    monkeypatch.setattr(rebuilt_footers, "monotonic", made)
    return made


async def read(store: LocalLedgerStore) -> int:
    """The entry with which a read of `ENTRY` begins."""
    reader = await store.open(1)
    return (await reader.read(ENTRY, entries_max=1, bytes_max=1))[0].first_entry


async def test_a_page_that_comes_back_has_lost_nothing(clock: Clock) -> None:
    disk = FakeDisk()
    await fill(disk, 400)
    store = await reopened(disk)
    disk.bad_pages.add((name_of(1, 0), place_of(disk, 1, ENTRY) // PAGE_BYTES))
    for _ in range(3):
        with pytest.raises(Unavailable, match="cannot be read now"):
            await read(store)
        clock.now_s += 3
    disk.bad_pages.clear()
    assert await read(store) <= ENTRY
    assert await readable(store, 1) == ([*range(400)], [])
    await store.stop()


async def test_a_page_that_stays_away_is_lost_after_a_while_and_readers_go_on(clock: Clock) -> None:
    disk = FakeDisk()
    await fill(disk, 400)
    store = await reopened(disk)
    disk.bad_pages.add((name_of(1, 0), place_of(disk, 1, ENTRY) // PAGE_BYTES))
    for _ in range(2):
        with pytest.raises(Unavailable):
            await read(store)
        clock.now_s += lost_entries.PATIENCE_S / 2
    with pytest.raises(Corrupt) as lost:
        await read(store)
    assert lost.value.resume_entry > ENTRY
    await store.stop()


@pytest.mark.parametrize("read_from", [ENTRY, 0, None])
async def test_a_disk_that_fails_for_a_moment_again_and_again_has_lost_nothing(clock: Clock, read_from: int | None) -> None:
    """Found by the simulation: the second time counted as more of the first, and all messages there as lost. `read_from`: where
    somebody reads in between."""
    disk = FakeDisk()
    await fill(disk, 400)
    store = await reopened(disk)
    for _ in range(2 if read_from is None else 20):
        disk.bad_pages.add((name_of(1, 0), place_of(disk, 1, ENTRY) // PAGE_BYTES))
        for _ in range(3):
            with pytest.raises(Unavailable, match="cannot be read now"):
                await read(store)
            clock.now_s += 0.5
        disk.bad_pages.clear()
        if read_from is not None:
            reader = await store.open(1)
            assert (await reader.read(read_from, entries_max=ENTRY + 1, bytes_max=1 << 20))[-1].last_entry >= ENTRY
        clock.now_s += lost_entries.PATIENCE_S
    assert await readable(store, 1) == ([*range(400)], [])
    await store.stop()


async def test_an_entry_missing_from_a_doubtful_footer_is_not_counted_once_for_each_read(clock: Clock) -> None:
    """Found by the simulation: half a second in which the disk failed counted for as long as its footer was kept."""
    disk = FakeDisk()
    await fill(disk, 400)
    store = await reopened(disk)
    segment = store.log.segments.by_number[1]
    first, pages = place_of(disk, 1, 0) // PAGE_BYTES, segment.footer_offset // PAGE_BYTES
    for _ in range(2):
        disk.bad_pages |= {(name_of(1, 0), page) for page in range(first, pages + 1)}
        with pytest.raises(Unavailable):
            await read(store)
        disk.bad_pages.clear()
        for _ in range(10):
            clock.now_s += rebuilt_footers.DOUBT_S / 11
            with pytest.raises(Unavailable):
                await read(store)
        clock.now_s += rebuilt_footers.DOUBT_S
    assert await readable(store, 1) == ([*range(400)], [])
    await store.stop()


async def test_a_disk_that_answers_again_while_a_footer_is_rebuilt_has_lost_nothing(clock: Clock) -> None:
    """Found by the simulation: what a rebuilt footer did not have, because some pages did not come, counted as lost until the next
    start."""
    disk = FakeDisk()
    await fill(disk, 400)
    store = await reopened(disk)
    segment = store.log.segments.by_number[1]
    first, pages = place_of(disk, 1, 0) // PAGE_BYTES, segment.footer_offset // PAGE_BYTES
    disk.bad_pages |= {(name_of(1, 0), page) for page in range(first, pages + 1)}
    original = disk.before

    def before(kind: str, path: Path) -> None:
        """The disk answers again when most of the segment has been asked for, page by page."""
        asked[0] += kind == "read" and path.name == name_of(1, 0)
        if asked[0] == pages:
            disk.bad_pages.clear()
        original(kind, path)

    asked = [0]
    disk.before = before  # type: ignore[method-assign]
    try:
        await read(store)
    except Unavailable:
        pass
    disk.bad_pages.clear()
    clock.now_s += rebuilt_footers.DOUBT_S
    assert await readable(store, 1) == ([*range(400)], [])
    await store.stop()


async def test_patience_is_longer_than_a_doubtful_footer_is_kept() -> None:
    assert lost_entries.PATIENCE_S > lost_entries.GAP_S >= rebuilt_footers.DOUBT_S
