"""Logs with many ledgers over many segments, and reading all of them back."""

from __future__ import annotations

from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.format.segment import parse_name
from tests.support.storage.damaged_log import append
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.owning import started
from tests.support.storage.power_loss import CONFIG, DIRECTORY
from tests.support.storage.workload import entry_bytes


def segment_names(disk: FakeDisk) -> list[str]:
    return [name for name in disk.names(DIRECTORY) if parse_name(name)]


async def filled(disk: FakeDisk, ledgers: int, rounds: int, config: LocalConfig = CONFIG) -> LocalLedgerStore:
    """Ledgers 1..n, written in turn, each sealed."""
    store = LocalLedgerStore(DIRECTORY, config, disk=disk)
    fence = await started(store)
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
