"""Space comes back, what lives stays, what was deleted stays deleted: also when the power goes in the middle."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from functools import partial
from pathlib import Path
from random import Random

import pytest

from messaging.storage.ledger_store import NoSuchLedger
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.format.segment import name_of, parse_name
from messaging.storage.local.reclaim.rate_limiter import RateLimiter
from tests.messaging.storage.local.recover.test_damage import append
from tests.messaging.storage.local.test_power_loss import CONFIG, DIRECTORY, reopen_and_check
from tests.simulation.alone import alone, simulated
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.workload import Workload, entry_bytes
from tests.support.waiting import eventually, eventually_sync


def segment_names(disk: FakeDisk) -> list[str]:
    return [name for name in disk.names(DIRECTORY) if parse_name(name)]


async def filled(disk: FakeDisk, ledgers: int, rounds: int, config: LocalConfig = CONFIG) -> LocalLedgerStore:
    """Ledgers 1..n, written in turn, each sealed."""
    store = LocalLedgerStore(DIRECTORY, config, disk=disk)
    fence = await store.start()
    writers = [await store.create(fence, number, {}) for number in range(1, ledgers + 1)]
    for _ in range(rounds):
        for writer in writers:
            first = writer.next_entry
            await append(writer, *(entry_bytes(writer.ledger_id, first + index) for index in range(5)))
    for writer in writers:
        await writer.close()
    return store


async def blocks_read_back(store: LocalLedgerStore, ledger_id: int) -> None:
    info = await store.info(ledger_id)
    reader = await store.open(ledger_id)
    entry = 0
    while entry <= info.last_entry:
        for block in await reader.read(entry, entries_max=50, bytes_max=20_000):
            begin = 0
            for stop in block.end_offsets:
                assert bytes(block.data[begin:stop]) == entry_bytes(ledger_id, entry)
                begin, entry = stop, entry + 1


async def test_dead_segments_go_and_live_ledgers_move_together() -> None:
    disk = FakeDisk()
    store = await filled(disk, 10, 60)
    before = segment_names(disk)
    assert len(before) > 5
    for ledger_id in range(1, 10):
        await store.delete(store.fence, ledger_id)
    live = (await store.info(10)).length_bytes

    def small() -> bool:
        sizes = [len(disk.file(DIRECTORY / name)) for name in segment_names(disk)[:-1]]
        return sum(sizes) < 3 * live

    await eventually(small)
    await blocks_read_back(store, 10)
    await store.stop()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await store.start()
    assert [info.ledger_id for info in await store.ledgers()] == [10]
    assert store.damage == []
    await blocks_read_back(store, 10)
    await store.delete(store.fence, 10)
    await eventually(lambda: len(segment_names(disk)) <= 2)
    await store.stop()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await store.start()
    assert await store.ledgers() == []
    await store.stop()


async def test_space_comes_back_however_late_the_loop_hears_of_the_deletion() -> None:
    disk = FakeDisk()
    store = await filled(disk, 1, 300)
    assert len(segment_names(disk)) > 4
    deleting = asyncio.ensure_future(store.delete(store.fence, 1))
    await asyncio.sleep(0)  # the delete pushes its record,
    await asyncio.sleep(0)  # the queue hands it to the log thread; from here on the loop stands still
    eventually_sync(lambda: len(segment_names(disk)) <= 2)
    await deleting
    await store.stop()


async def test_reading_goes_on_while_segments_are_rewritten() -> None:
    disk = FakeDisk()
    store = await filled(disk, 6, 80)
    stopping = False

    async def read_on(ledger_id: int) -> int:
        rounds = 0
        while not stopping:
            await blocks_read_back(store, ledger_id)
            rounds += 1
        return rounds

    readers = [asyncio.ensure_future(read_on(5)), asyncio.ensure_future(read_on(6))]
    for ledger_id in range(1, 5):
        await store.delete(store.fence, ledger_id)
    await eventually(lambda: all(not name.endswith("-0000.log") for name in segment_names(disk)[:-1]))
    stopping = True
    assert all(rounds > 0 for rounds in await asyncio.gather(*readers))
    with pytest.raises(NoSuchLedger):
        await store.open(1)
    await store.stop()


def test_power_loss_before_every_operation_of_a_reclaim() -> None:
    clean = FakeDisk()

    async def fill() -> None:
        store = await filled(clean, 6, 30)
        await store.stop()

    def reclaim(image_at: int) -> FakeDisk:
        disk = clean.frozen()
        disk.image_at = image_at

        async def work() -> None:
            store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
            await store.start()
            for ledger_id in (1, 2, 3, 5):
                await store.delete(store.fence, ledger_id)
            await eventually(lambda: all(not name.endswith("-0000.log") for name in segment_names(disk)[:-1]))
            await store.stop()

        alone(2, work, disk)
        return disk

    async def find(left: FakeDisk) -> None:
        store = LocalLedgerStore(DIRECTORY, CONFIG, disk=left)
        await store.start()
        assert store.damage == []
        found = [info.ledger_id for info in await store.ledgers()]
        assert {4, 6} <= set(found)
        for ledger_id in found:
            await blocks_read_back(store, ledger_id)
        await store.stop()

    with simulated():
        alone(1, fill, clean)
        total = reclaim(0).operations
        for number in range(1, total + 1):
            image = reclaim(number).image
            assert image is not None, number
            left = image.power_loss(Random(number))
            alone(3, partial(find, left), left)


@pytest.mark.parametrize("seed", range(15))
async def test_power_loss_with_many_deletes_over_several_lives(seed: int) -> None:
    random = Random(seed)
    workload = Workload(Random(seed), delete_share=0.12)
    disk = FakeDisk()
    crashes = 0
    for _ in range(5):
        disk.image_at = disk.operations + random.randrange(50, 600)
        workload.frozen = None
        disk.on_image = workload.freeze
        store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
        await workload.run(store, await store.start(), 300)
        await store.stop()
        crashes += disk.image is not None
        if workload.frozen is None:
            workload.freeze()
        disk = (disk.image or disk).power_loss(random)
        await reopen_and_check(disk, workload)
        workload.promises = workload.frozen or {}
        for promise in workload.promises.values():
            if not promise.created:
                promise.deleting = True  # its outcome is unknown
    assert crashes


async def test_a_damaged_segment_is_kept_as_it_is() -> None:
    disk = FakeDisk()
    store = await filled(disk, 4, 60)
    await store.stop()
    name = segment_names(disk)[0]
    content = disk.file(DIRECTORY / name)
    content[content.index(entry_bytes(4, 7)) + 3] ^= 1
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await store.start()
    for ledger_id in (1, 2, 3):
        await store.delete(store.fence, ledger_id)
    await eventually(lambda: sum(name.endswith("-0000.log") for name in segment_names(disk)) <= 2)
    assert name in segment_names(disk)
    await store.stop()


async def test_a_rewrite_that_fails_leaves_everything_as_it_was() -> None:
    disk = FakeDisk()
    store = await filled(disk, 4, 60)
    fault = disk.fail(lambda kind, path, number: kind == "write" and path.name.endswith(".rewrite"))
    for ledger_id in (1, 2, 3):
        await store.delete(store.fence, ledger_id)
    await eventually(lambda: fault.fired)
    await store.stop()
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(".rewrite")]
    disk.heal()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await store.start()
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
        await store.delete(store.fence, ledger_id)
    assert await asyncio.to_thread(copying.wait, 10)
    await store.delete(store.fence, 5)
    deleted.set()
    await eventually(lambda: name_of(1, 0) not in segment_names(disk))
    for _ in range(3):
        fence = store.fence
        writer = await store.create(fence, 100 + fence.epoch, {})  # moves the log on, so that more is reclaimed
        for _ in range(60):
            await append(writer, b"x" * 4000)
        await store.delete(fence, writer.ledger_id)
        segments = store.log.segments.by_number
        await eventually(lambda: len(segment_names(disk)) < 8 and all(s.index_released for s in segments.values()))  # noqa: B023
        await store.stop()
        store = LocalLedgerStore(DIRECTORY, config, disk=disk)
        await store.start()
        assert [info.ledger_id for info in await store.ledgers()] == [6, 7, 8]
        await blocks_read_back(store, 7)
    await store.stop()


async def test_a_stop_does_not_wait_for_a_copy_and_the_next_start_makes_it() -> None:
    disk = FakeDisk()
    slow = dataclasses.replace(CONFIG, rewrite_bytes_per_s=1)
    store = await filled(disk, 4, 60, slow)
    for ledger_id in (1, 2, 3):
        await store.delete(store.fence, ledger_id)
    await eventually(lambda: any(name.endswith(".rewrite") for name in disk.names(DIRECTORY)))
    before = segment_names(disk)
    await store.stop()
    assert segment_names(disk) == before and not any(name.endswith(".rewrite") for name in disk.names(DIRECTORY))
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await store.start()
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


@pytest.mark.parametrize("together", [1, 50])
async def test_topics_that_came_and_went_leave_nothing_in_the_log(together: int) -> None:
    """Each left its records of being made and deleted, and a row in memory, for as long as the log lived: what is no block of a
    message never counted as dead."""
    disk = FakeDisk()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await store.start()
    kept = await store.create(fence, 1, {})
    await append(kept, entry_bytes(1, 0))
    most = 0
    for first in range(2, 4_002, together):
        ids = range(first, first + together)
        writers = await asyncio.gather(*(store.create(fence, ledger_id, {"tenant": "a"}) for ledger_id in ids))
        await asyncio.gather(*(writer.close() for writer in writers))
        await asyncio.gather(*(store.delete(fence, ledger_id) for ledger_id in ids))
        most = max(most, len(store.log.ledgers.tombstones))

    def reclaimed() -> bool:
        return len(store.log.ledgers.tombstones) < 1_500 and len(segment_names(disk)) <= 8

    await eventually(reclaimed)
    assert most < 4_000
    await store.stop()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await store.start()
    assert [info.ledger_id for info in await store.ledgers()] == [1]
    await blocks_read_back(store, 1)
    await store.stop()
