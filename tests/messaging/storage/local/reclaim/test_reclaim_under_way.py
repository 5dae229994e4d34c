"""What happens while segments are rewritten: deletions, stops, failures, and how fast copying is."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from pathlib import Path

import pytest

from messaging.storage.local import LocalLedgerStore
from messaging.storage.local.format.segment import name_of, parse_name
from messaging.storage.local.read.index import EntryIndex, Place
from messaging.storage.local.reclaim.rate_limiter import RateLimiter
from tests.support.storage.damaged_log import append
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.filled_log import blocks_read_back, filled, segment_names
from tests.support.storage.owning import fence_of, started
from tests.support.storage.power_loss import CONFIG, DIRECTORY
from tests.support.storage.workload import entry_bytes
from tests.support.waiting import eventually


async def test_a_damaged_segment_is_kept_as_it_is() -> None:
    disk = FakeDisk()
    store = await filled(disk, 4, 60)
    await store.stop()
    name = segment_names(disk)[0]
    content = disk.file(DIRECTORY / name)
    content[content.index(entry_bytes(4, 7)) + 3] ^= 1
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    for ledger_id in (1, 2, 3):
        await store.delete(fence_of(store), ledger_id)
    await eventually(lambda: sum(name.endswith("-0000.log") for name in segment_names(disk)) <= 2)
    assert name in segment_names(disk)
    await store.stop()


async def test_a_rewrite_that_fails_leaves_everything_as_it_was() -> None:
    disk = FakeDisk()
    store = await filled(disk, 4, 60)
    fault = disk.fail(lambda kind, path, number: kind == "write" and path.name.endswith(".rewrite"))
    for ledger_id in (1, 2, 3):
        await store.delete(fence_of(store), ledger_id)
    await eventually(lambda: fault.fired)
    await store.stop()
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(".rewrite")]
    disk.heal()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    await blocks_read_back(store, 4)
    await eventually(lambda: all(not name.endswith("-0000.log") for name in segment_names(disk)[:-1]))
    await blocks_read_back(store, 4)
    await store.stop()


async def test_a_ledger_deleted_while_its_segment_is_copied_does_not_come_back() -> None:
    """Its CREATED record was copied as that of a living ledger, so its DELETED record must outlive the copy."""
    disk = FakeDisk()
    config = dataclasses.replace(CONFIG, rewrite_live_share=0.7)
    store = await filled(disk, 8, 40, config)
    copying, deleted = threading.Event(), threading.Event()

    def hold(kind: str, path: Path) -> None:
        if kind == "rename" and parse_name(path.name) == (1, 1):
            copying.set()
            deleted.wait(10)

    disk.before_unlocked = hold
    for ledger_id in (1, 2, 3, 4):
        await store.delete(fence_of(store), ledger_id)
    assert await asyncio.to_thread(copying.wait, 10)
    await store.delete(fence_of(store), 5)
    deleted.set()
    await eventually(lambda: name_of(1, 0) not in segment_names(disk))
    for _ in range(3):
        fence = fence_of(store)
        writer = await store.create(fence, 100 + fence.epoch, {})  # moves the log on, so that more is reclaimed
        for _ in range(60):
            await append(writer, b"x" * 4000)
        await store.delete(fence, writer.ledger_id)
        segments = store.log.segments.by_number
        await eventually(lambda: len(segment_names(disk)) < 8 and all(s.index_released for s in segments.values()))  # noqa: B023
        await store.stop()
        store = LocalLedgerStore(DIRECTORY, config, disk=disk)
        await started(store)
        assert [info.ledger_id for info in await store.ledgers()] == [6, 7, 8]
        await blocks_read_back(store, 7)
    await store.stop()


async def test_a_stop_does_not_wait_for_a_copy_and_the_next_start_makes_it() -> None:
    disk = FakeDisk()
    slow = dataclasses.replace(CONFIG, rewrite_bytes_per_s=1)
    store = await filled(disk, 4, 60, slow)
    for ledger_id in (1, 2, 3):
        await store.delete(fence_of(store), ledger_id)
    await eventually(lambda: any(name.endswith(".rewrite") for name in disk.names(DIRECTORY)))
    before = segment_names(disk)
    await store.stop()
    assert segment_names(disk) == before and not any(name.endswith(".rewrite") for name in disk.names(DIRECTORY))
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    await eventually(lambda: all(not name.endswith("-0000.log") for name in segment_names(disk)[:-1]))
    await blocks_read_back(store, 4)
    await store.stop()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def test_copying_keeps_to_its_rate_and_to_its_share_of_the_time() -> None:
    clock = Clock()
    hurry = False
    pace = RateLimiter(1000, lambda: hurry, lambda: clock.now, clock.sleep)
    clock.now += 0.1
    pace.pause(500)  # half a second's worth, a tenth of a second worked
    clock.now += 0.1
    pace.pause(10)  # hardly any bytes, but as much work
    pace.pause(1 << 30)
    assert clock.slept == pytest.approx([0.4, 0.3, 1.0])
    hurry = True
    pace.pause(1 << 30)
    assert len(clock.slept) == 3


async def test_a_segment_may_be_rewritten_between_locating_a_block_and_reading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets are those of one generation of the file: in the next one, other blocks are there."""
    disk = FakeDisk()
    store = await filled(disk, 4, 60)
    located, rewritten = threading.Event(), threading.Event()
    locate = EntryIndex.locate

    def held(index: EntryIndex, ledger_id: int, entry: int, first_segment: int, last_segment: int) -> Place | None:
        place = locate(index, ledger_id, entry, first_segment, last_segment)
        if not located.is_set():
            located.set()
            rewritten.wait(10)
        return place

    monkeypatch.setattr(EntryIndex, "locate", held)
    reading = asyncio.ensure_future(blocks_read_back(store, 4))
    assert await asyncio.to_thread(located.wait, 10)
    for ledger_id in (1, 2, 3):
        await store.delete(fence_of(store), ledger_id)
    await eventually(lambda: name_of(1, 0) not in segment_names(disk) and name_of(1, 1) in segment_names(disk))
    rewritten.set()
    await reading
    await store.stop()
