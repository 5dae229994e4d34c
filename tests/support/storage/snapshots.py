"""Logs with a snapshot of their index."""

from __future__ import annotations

import dataclasses

from messaging.storage.ledger_store import LedgerInfo
from messaging.storage.local import LocalConfig, LocalLedgerStore
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.filled_log import blocks_read_back, filled
from tests.support.storage.owning import started
from tests.support.storage.power_loss import CONFIG, DIRECTORY
from tests.support.waiting import eventually

NEVER = dataclasses.replace(CONFIG, snapshot_pairs=1 << 40)


async def opened(disk: FakeDisk, config: LocalConfig = CONFIG) -> LocalLedgerStore:
    store = LocalLedgerStore(DIRECTORY, config, disk=disk)
    await started(store)
    return store


async def snapshotted(disk: FakeDisk, ledgers: int = 6, rounds: int = 60) -> None:
    """A stopped store with a snapshot that covers most of its segments."""
    store = await filled(disk, ledgers, rounds)
    await eventually(lambda: store.log.snapshots.covered >= 2)
    await store.stop()


async def ledgers_in(disk: FakeDisk) -> list[LedgerInfo]:
    store = await opened(disk, NEVER)
    ledgers = await store.ledgers()
    for info in ledgers:
        if info.entries:
            await blocks_read_back(store, info.ledger_id)
    await store.stop()
    return ledgers
