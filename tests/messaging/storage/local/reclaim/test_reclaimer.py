"""Space comes back, what lives stays, what was deleted stays deleted: also when the power goes in the middle."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import threading
from functools import partial
from random import Random

import pytest

from messaging.storage.ledger_store import NoSuchLedger
from messaging.storage.local import LocalLedgerStore
from tests.simulation.alone import alone, simulated
from tests.support.storage.damaged_log import append
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.filled_log import blocks_read_back, filled, segment_names
from tests.support.storage.owning import fence_of, started
from tests.support.storage.power_loss import CONFIG, DIRECTORY, lives, reopen_and_check
from tests.support.storage.workload import Workload, entry_bytes
from tests.support.waiting import eventually, eventually_sync


async def test_dead_segments_go_and_live_ledgers_move_together() -> None:
    disk = FakeDisk()
    store = await filled(disk, 10, 60)
    before = segment_names(disk)
    assert len(before) > 5
    for ledger_id in range(1, 10):
        await store.delete(fence_of(store), ledger_id)
    live = (await store.info(10)).length_bytes

    def small() -> bool:
        sizes = [len(disk.file(DIRECTORY / name)) for name in segment_names(disk)[:-1]]
        return sum(sizes) < 3 * live

    await eventually(small)
    await blocks_read_back(store, 10)
    await store.stop()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    assert [info.ledger_id for info in await store.ledgers()] == [10]
    assert store.damage == []
    await blocks_read_back(store, 10)
    await store.delete(fence_of(store), 10)
    await eventually(lambda: len(segment_names(disk)) <= 2)
    await store.stop()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    assert await store.ledgers() == []
    await store.stop()


@pytest.mark.parametrize("kind", ["rename", "remove", "sync_directory", "open", "read"])
@pytest.mark.parametrize("deleted", [range(1, 11), range(1, 10)], ids=["whole segments", "rewritten segments"])
async def test_a_refusal_of_the_disk_does_not_end_reclaim(kind: str, deleted: range) -> None:
    """One refused rename or unlink ended it until a restart. What was refused comes again; the others go on."""
    disk = FakeDisk()
    store = await filled(disk, 10, 60, dataclasses.replace(CONFIG, reclaim_retry_s=0.01))
    live = (await store.info(10)).length_bytes
    refusals = iter([errno.EACCES] * 2)
    maintenance = "ledger-maintenance"
    fault = disk.fail(
        lambda operation, path, number: (
            next(refusals, False) if operation == kind and threading.current_thread().name.startswith(maintenance) else False
        ),
        surely=kind != "rename" or len(deleted) < 10,  # a file that is not kept is removed and not renamed
    )
    for ledger_id in deleted:
        await store.delete(fence_of(store), ledger_id)

    def small() -> bool:
        sizes = [len(disk.file(DIRECTORY / name)) for name in segment_names(disk)[:-1]]
        return sum(sizes) < 3 * live if len(deleted) < 10 else len(sizes) <= 1

    await eventually(small)
    await eventually(lambda: not fault.surely or fault.fired == 2)
    if len(deleted) < 10:
        await blocks_read_back(store, 10)
    await store.stop()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    assert store.damage == []
    assert len(await store.ledgers()) == 10 - len(deleted)
    await store.stop()


async def test_space_comes_back_however_late_the_loop_hears_of_the_deletion() -> None:
    disk = FakeDisk()
    store = await filled(disk, 1, 300)
    assert len(segment_names(disk)) > 4
    deleting = asyncio.ensure_future(store.delete(fence_of(store), 1))
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
        await store.delete(fence_of(store), ledger_id)
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
            await started(store)
            for ledger_id in (1, 2, 3, 5):
                await store.delete(fence_of(store), ledger_id)
            await eventually(lambda: all(not name.endswith("-0000.log") for name in segment_names(disk)[:-1]))
            await store.stop()

        alone(2, work, disk)
        return disk

    async def find(left: FakeDisk) -> None:
        store = LocalLedgerStore(DIRECTORY, CONFIG, disk=left)
        await started(store)
        assert store.damage == []
        ledger_ids = [info.ledger_id for info in await store.ledgers()]
        assert {4, 6} <= set(ledger_ids)
        for ledger_id in ledger_ids:
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
    workload = Workload(Random(seed), delete_share=0.12)
    await lives(workload, Random(seed), 5, steps=300, power=range(30, 300), check=lambda disk: reopen_and_check(disk, workload))


@pytest.mark.parametrize("together", [1, 50])
async def test_topics_that_came_and_went_leave_nothing_in_the_log(together: int) -> None:
    """Each left its records of being made and deleted, and a row in memory, for as long as the log lived: what is no block of a
    message never counted as dead."""
    disk = FakeDisk()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await started(store)
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
    await started(store)
    assert [info.ledger_id for info in await store.ledgers()] == [1]
    await blocks_read_back(store, 1)
    await store.stop()
