"""Nothing confirmed is lost when the power goes, when a process is killed, or when any single disk operation fails."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

import pytest

from messaging.storage.ledger_store import StoreError
from messaging.storage.local import Durability, LocalConfig, LocalLedgerStore
from tests.simulation.alone import alone, simulated
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.owning import started
from tests.support.storage.power_loss import CONFIG, DIRECTORY, lives, reopen_and_check
from tests.support.storage.workload import Workload

STEPS = 400
PARTS = 6


async def run(disk: FakeDisk, workload: Workload, config: LocalConfig = CONFIG, steps: int = STEPS) -> LocalLedgerStore | None:
    """A store that was started, worked and stopped; None if it could not even start."""
    store = LocalLedgerStore(DIRECTORY, config, disk=disk)
    try:
        fence = await started(store)
    except StoreError:
        return None
    await workload.run(store, fence, steps)
    await store.stop()
    return store


def checked(disk: FakeDisk, workload: Workload) -> None:
    """Opens what is left on `disk` and finds what `workload` was promised; a torn tail is not taken for corruption."""
    store = alone(1, lambda: reopen_and_check(disk, workload), disk)
    assert not [damage for damage in store.damage if damage.synced], store.damage


def run_to(seed: int, number: int) -> tuple[FakeDisk, Workload]:
    """A run of which the disk is kept as it was before the operation of that number. 0: all of it."""
    disk, workload = FakeDisk(), Workload(Random(seed))
    disk.image_at, disk.on_image = number, workload.freeze
    alone(seed, lambda: run(disk, workload), disk)
    return disk, workload


@pytest.mark.parametrize("seed", range(20))
def test_power_loss_at_a_random_operation(seed: int) -> None:
    random = Random(seed)
    with simulated():
        operations = run_to(seed, 0)[0].operations
        disk, workload = run_to(seed, random.randrange(1, operations + 1))
        assert disk.image is not None
        for _ in range(3):
            left = disk.image.power_loss(random)
            checked(left, workload)
            checked(left.power_loss(random), workload)  # once more, after what recovery itself wrote


@pytest.mark.parametrize("part", range(PARTS))
def test_power_loss_before_every_operation(part: int) -> None:
    """A part of the operations in each test, which is short on a busy machine too."""
    with simulated():
        operations = run_to(5, 0)[0].operations
        assert operations > 10 * PARTS
        for number in range(1 + part, operations + 1, PARTS):
            disk, workload = run_to(5, number)
            assert disk.image is not None and disk.operations == operations
            checked(disk.image.power_loss(Random(number)), workload)


@pytest.mark.parametrize("seed", range(20))
async def test_entries_served_after_a_kill_survive_a_power_loss(seed: int) -> None:
    """The page cache may show a tail that was never synced: recovery syncs it before anyone sees it."""
    disk = FakeDisk()
    disk.image_at = Random(seed).randrange(40, 200)
    await run(disk, Workload(Random(seed)))
    assert disk.image is not None
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk.image)
    await started(store)
    served = await store.ledgers()
    lost = disk.image.power_loss(Random(seed))
    await store.stop()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=lost)
    await started(store)
    assert await store.ledgers() == served
    await store.stop()


@pytest.mark.parametrize("seed", range(10))
async def test_power_loss_again_and_again(seed: int) -> None:
    """Each life of the store begins with what the power loss of the last one left."""
    workload = Workload(Random(seed))
    await lives(
        workload, Random(1000 + seed), 6, steps=150, power=range(20, 300), check=lambda disk: reopen_and_check(disk, workload)
    )


@pytest.mark.parametrize("seed", range(10))
async def test_a_killed_process_loses_nothing_even_without_syncs(seed: int) -> None:
    config = LocalConfig(
        durability=Durability.LOSE_ON_POWER_LOSS, segment_bytes=64 << 10, commit_bytes_max=8 << 10, reserved_bytes=0,
        entry_bytes_max=16 << 10, checkpoint_bytes=8 << 10,
    )  # fmt: skip
    random = Random(seed)
    disk = FakeDisk()
    workload = Workload(Random(seed))
    disk.image_at = random.randrange(20, 150)
    disk.on_image = workload.freeze
    await run(disk, workload, config)
    assert disk.image is not None
    await reopen_and_check(disk.image.frozen(), workload, config)


def test_every_single_operation_may_fail() -> None:
    """The N-th operation fails, for every N. Nothing confirmed is lost, whether or not the power goes afterwards."""
    with simulated():
        operations = run_to(7, 0)[0].operations
        assert operations > 100
        for number in range(1, operations + 1):
            disk, workload = FakeDisk(), Workload(Random(7))
            disk.fail_at(number)
            alone(7, partial(run, disk, workload), disk)
            disk.heal()
            disk.locks.clear()
            for left in (disk.frozen(), disk.power_loss(Random(number))):
                alone(1, partial(reopen_and_check, left, workload), left)


async def test_after_a_failed_sync_nothing_is_confirmed_any_more() -> None:
    disk = FakeDisk()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await started(store)
    reasons: list[StoreError] = []
    store.on_failed = reasons.append
    workload = Workload(Random(3))
    await workload.run(store, fence, 50)
    confirmed = {key: promise.confirmed for key, promise in workload.promises.items()}
    disk.fail(lambda kind, path, count: kind == "sync")
    await workload.run(store, fence, 50)
    disk.heal()  # syncs succeed again: that proves nothing
    await workload.run(store, fence, 50)
    assert store.failed is not None and reasons == [store.failed] and "restart" in str(store.failed)
    assert {key: promise.confirmed for key, promise in workload.promises.items() if key in confirmed} == confirmed
    assert all(promise.confirmed == -1 for key, promise in workload.promises.items() if key not in confirmed)
    with pytest.raises(StoreError):
        await store.create(fence, 999, {})
    await asyncio.wait_for(store.stop(), 10)
    await reopen_and_check(disk.power_loss(Random(1)), workload)
