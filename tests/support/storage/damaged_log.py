"""A log on a fake disk with a known entry in every place, so that a test can damage one and say which."""

from __future__ import annotations

import asyncio
from array import array
from pathlib import Path

from messaging.storage.ledger_store import Corrupt, LedgerWriter, StoreError
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.format.segment import name_of
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.owning import started

DIRECTORY = Path("/log")


CONFIG = LocalConfig(
    segment_bytes=64 << 10, commit_bytes_max=8 << 10, reserved_bytes=0, entry_bytes_max=16 << 10, checkpoint_bytes=1 << 20
)


PAYLOAD = b"payload of entry %06d, long enough to be found again in the file"


async def append(writer: LedgerWriter, *payloads: bytes) -> None:
    """One block, confirmed."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: StoreError | None) -> None:
        future.set_exception(error) if error else future.set_result(None)

    end_offsets = array("I")
    for payload in payloads:
        end_offsets.append(len(payload) + (end_offsets[-1] if end_offsets else 0))
    writer.append(b"header", b"".join(payloads), end_offsets, done)
    await future


async def fill(disk: FakeDisk, entries: int) -> None:
    """One entry a commit, in ledger 1, never sealed; every third one also in ledger 2."""
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await started(store)
    writer = await store.create(fence, 1, {})
    two = await store.create(fence, 2, {})
    for entry in range(entries):
        await append(writer, PAYLOAD % entry)
        if entry % 3 == 0:
            await append(two, b"other")
    await store.stop()


async def readable(store: LocalLedgerStore, ledger_id: int) -> tuple[list[int], list[int]]:
    """(entries that came back, entries reported corrupt)."""
    info = await store.info(ledger_id)
    reader = await store.open(ledger_id)
    good: list[int] = []
    bad: list[int] = []
    entry = 0
    while entry <= info.last_entry:
        try:
            blocks = await reader.read(entry, entries_max=7, bytes_max=1000)
        except Corrupt as error:
            assert (error.ledger_id, error.entry_id) == (ledger_id, entry)
            bad.append(entry)
            entry = error.resume_entry
            continue
        for block in blocks:
            if ledger_id == 1:
                assert bytes(block.data) == PAYLOAD % block.first_entry
            good.append(block.first_entry)
        entry = good[-1] + 1
    return good, bad


def flip(disk: FakeDisk, segment: int, offset: int, bit: int = 0) -> None:
    disk.file(DIRECTORY / name_of(segment, 0))[offset] ^= 1 << bit


def place_of(disk: FakeDisk, segment: int, entry: int) -> int:
    return disk.file(DIRECTORY / name_of(segment, 0)).index(PAYLOAD % entry)


async def reopened(disk: FakeDisk) -> LocalLedgerStore:
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    return store
