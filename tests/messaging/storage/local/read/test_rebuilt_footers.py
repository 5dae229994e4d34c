"""A footer that is damaged while the log is open: readers make it again from its segment and go on, the next start writes it."""

from __future__ import annotations

from random import Random

import pytest

from messaging.storage.ledger_store import Unavailable
from messaging.storage.local import LocalLedgerStore
from messaging.storage.local.format.segment import PAGE_BYTES, Segment
from messaging.storage.local.read import rebuilt_footers as rebuilt
from messaging.storage.local.snapshot import snapshot
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.filled_log import blocks_read_back
from tests.support.storage.power_loss import DIRECTORY
from tests.support.storage.snapshots import NEVER, ledgers_in, opened, snapshotted
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio


async def read_everything(store: LocalLedgerStore) -> None:
    for info in await store.ledgers():
        if info.entries:
            await blocks_read_back(store, info.ledger_id)


def footers(store: LocalLedgerStore) -> list[Segment]:
    sealed = [segment for segment in store.log.segments.by_number.values() if segment.sealed]
    assert len(sealed) >= 2
    return sealed


async def test_a_footer_damaged_while_the_log_is_open_costs_nothing() -> None:
    """Seen: whoever read from that segment tried again until the broker was started anew. Each word of the footer in turn: the
    lengths that make no sense, and those that only lead astray."""
    clean = FakeDisk()
    await snapshotted(clean)
    expected = await ledgers_in(clean.frozen())
    store = await opened(clean, NEVER)
    first = footers(store)[0]
    await store.stop()
    for word in range(0, first.footer_bytes, 8):
        disk = clean.frozen()
        store = await opened(disk, NEVER)
        disk.file(first.path)[first.footer_offset + word + word % 7] ^= 1 << word % 5
        await read_everything(store)
        assert await store.ledgers() == expected
        await store.stop()


async def test_all_footers_are_damaged_and_the_next_start_writes_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilt, "NUMBERS_MAX", 1)  # one at a time: the others are made again whenever they are needed
    disk = FakeDisk()
    await snapshotted(disk)
    expected = await ledgers_in(disk.frozen())
    store = await opened(disk, NEVER)
    damaged = footers(store)
    for segment in damaged:
        start = segment.footer_offset
        disk.file(segment.path)[start : start + segment.footer_bytes] = Random(segment.number).randbytes(segment.footer_bytes)
    await read_everything(store)
    await eventually(lambda: snapshot.NAME not in disk.names(DIRECTORY))
    await store.stop()
    store = await opened(disk, NEVER)
    assert {damage.segment for damage in store.damage} == {segment.number for segment in damaged}
    await store.stop()
    store = await opened(disk, NEVER)
    assert store.damage == [] and await store.ledgers() == expected
    await read_everything(store)
    await store.stop()


async def test_a_footer_that_the_disk_cannot_give_any_more_is_made_again_too() -> None:
    disk = FakeDisk()
    await snapshotted(disk)
    store = await opened(disk, NEVER)
    for segment in footers(store):
        behind = -(-segment.footer_offset // PAGE_BYTES)  # the page before it may hold blocks too
        for page in range(behind, (segment.footer_offset + segment.footer_bytes) // PAGE_BYTES + 1):
            disk.bad_pages.add((segment.path.name, page))
    assert disk.bad_pages
    await read_everything(store)
    await store.stop()


async def test_a_disk_that_gives_nothing_for_a_while_is_no_damage() -> None:
    disk = FakeDisk()
    await snapshotted(disk)
    store = await opened(disk, NEVER)
    disk.fail(lambda kind, path, number: kind == "read")
    reader = await store.open(1)
    with pytest.raises(Unavailable):
        await reader.read(0, entries_max=1, bytes_max=1)
    disk.heal()
    await read_everything(store)
    await store.stop()
