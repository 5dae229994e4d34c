"""Lives of a log that end with the power, and what must hold afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from messaging.storage.local import LocalConfig, LocalLedgerStore
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.owning import started
from tests.support.storage.workload import Workload, check

DIRECTORY = Path("/log")


CONFIG = LocalConfig(
    segment_bytes=64 << 10,
    commit_bytes_max=8 << 10,
    reserved_bytes=16 << 10,
    entry_bytes_max=16 << 10,
    checkpoint_bytes=8 << 10,
    extent_bytes_max=4 << 10,
    snapshot_pairs=0,
)


async def lives(
    workload: Workload, random: Random, count: int, *, steps: int, power: range, check: Callable[[FakeDisk], Awaitable[object]]
) -> None:
    """`count` lives of a log, each of `steps` steps on what the power loss of the one before left, which comes after an operation
    counted in `power`, if so many there are. `check` opens a disk after each of them. One life at least ends by its power loss."""
    disk, crashes = FakeDisk(), 0
    for life in range(count):
        latest = power.start + 1 if life == count - 1 and not crashes else power.stop
        disk.image_at = disk.operations + random.randrange(power.start, latest)
        workload.frozen = None
        disk.on_image = workload.freeze
        store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
        await workload.run(store, await started(store), steps)
        await store.stop()
        crashes += disk.image is not None
        if workload.frozen is None:
            workload.freeze()
        disk = (disk.image or disk).power_loss(random)
        await check(disk)
        workload.promises = workload.frozen or {}
        for promise in workload.promises.values():
            if not promise.created:
                promise.deleting = True  # its outcome is unknown
    assert crashes


async def reopen_and_check(disk: FakeDisk, workload: Workload, config: LocalConfig = CONFIG) -> LocalLedgerStore:
    store = LocalLedgerStore(DIRECTORY, config, disk=disk)
    fence = await started(store)
    try:
        await check(store, fence, workload.frozen if workload.frozen is not None else workload.promises)
    finally:
        await store.stop()
    return store
