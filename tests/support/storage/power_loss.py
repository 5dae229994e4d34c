"""Lives of a log that end with the power, and what must hold afterwards."""

from __future__ import annotations

from pathlib import Path

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


async def reopen_and_check(disk: FakeDisk, workload: Workload, config: LocalConfig = CONFIG) -> LocalLedgerStore:
    store = LocalLedgerStore(DIRECTORY, config, disk=disk)
    fence = await started(store)
    try:
        await check(store, fence, workload.frozen if workload.frozen is not None else workload.promises)
    finally:
        await store.stop()
    return store
