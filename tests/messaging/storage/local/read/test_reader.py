"""Entries read back: by the kernel alone where their places are known, else by a thread."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from messaging.storage.ledger_store import Block, Unavailable
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.device.direct import Got
from messaging.storage.local.read.gathered_blocks import Wanted
from messaging.storage.local.read.index import Place
from messaging.storage.local.read.reader import LocalLedgerReader
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.fake_file import FakeAio, FakeFile
from tests.support.storage.ledger_entries import Results
from tests.support.storage.ledger_harness import needs_the_kernel
from tests.support.storage.owning import started

SMALL = LocalConfig(segment_bytes=256 << 10, reserved_bytes=64 << 10, commit_bytes_max=32 << 10)


def counting_fetches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """First entries of what threads were asked to read."""
    fetched: list[int] = []
    fetch = LocalLedgerReader.fetch_in_thread

    def counted(reader: LocalLedgerReader, wanted: Wanted, places: list[Place]) -> list[Block]:
        fetched.append(wanted.first)
        return fetch(reader, wanted, places)

    monkeypatch.setattr(LocalLedgerReader, "fetch_in_thread", counted)
    return fetched


async def stored(store: LocalLedgerStore, entries: int) -> LocalLedgerReader:
    """A ledger of so many entries of 1,000 bytes, one block each, over several segments."""
    writer, results = await store.create(await started(store), 1, {}), Results()
    for number in range(entries):
        results.append(writer, [number.to_bytes(4, "big") * 250])
    await results.wait(entries)
    return await store.open(1)


async def read_through(reader: LocalLedgerReader, entries: int) -> int:
    """In reads of some ten entries; returns how many."""
    reads = following = 0
    while following < entries:
        blocks = await reader.read(following, entries_max=10, bytes_max=1 << 20)
        for block in blocks:
            assert (block.first_entry, bytes(block.data)) == (following, following.to_bytes(4, "big") * 250)
            following += 1
        reads += 1
    return reads


@pytest.mark.parametrize("on", ["the disk", "a fake disk"])
async def test_known_places_are_read_without_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: str) -> None:
    if on == "the disk":
        needs_the_kernel(tmp_path)
    fetched = counting_fetches(monkeypatch)
    store = LocalLedgerStore(tmp_path, SMALL) if on == "the disk" else LocalLedgerStore("/log", SMALL, disk=FakeDisk())
    reader = await stored(store, 1000)
    segments = len(store.log.segments.by_number)
    assert segments > 3
    assert await read_through(reader, 1000) >= 100
    assert 1 <= len(fetched) <= segments + 1  # the first of each segment
    await store.stop()


async def test_a_thread_reads_where_the_kernel_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched, fails = counting_fetches(monkeypatch), [False, True, None]
    begin = FakeFile.begin_read

    def sometimes(file: FakeFile, size: int, offset: int, aio: FakeAio, done: Got) -> bool:
        fails.append(fails.pop(0))
        if fails[-1] is None:
            return False
        return begin(file, size, offset, aio, (lambda view: done(None)) if fails[-1] else done)

    monkeypatch.setattr(FakeFile, "begin_read", sometimes)
    store = LocalLedgerStore("/log", SMALL, disk=FakeDisk())
    reads = await read_through(await stored(store, 1000), 1000)
    assert reads / 3 < len(fetched) < reads
    await store.stop()


async def test_a_read_under_way_ends_with_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    callbacks: list[Got] = []
    under_way = asyncio.Event()

    def begin(file: FakeFile, size: int, offset: int, aio: FakeAio, done: Got) -> bool:
        callbacks.append(done)
        under_way.set()
        return True

    store = LocalLedgerStore("/log", SMALL, disk=FakeDisk())
    reader = await stored(store, 1000)
    await reader.read(0, entries_max=1, bytes_max=1)  # opens its file
    monkeypatch.setattr(FakeFile, "begin_read", begin)
    monkeypatch.setattr(FakeAio, "close", lambda aio: [done(None) for done in callbacks])
    reading = asyncio.ensure_future(reader.read(1, entries_max=10, bytes_max=1 << 20))
    await under_way.wait()
    await store.stop()
    with pytest.raises(Unavailable):
        await reading


@pytest.mark.parametrize("size", [1_000, 40_000, 66_000, 105_000])
async def test_a_read_of_what_was_forecast_reads_nothing_else(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A MiB takes two reads of the file, and none to learn that it was all."""
    read: list[int] = []
    begin = FakeFile.begin_read

    def counted(file: FakeFile, size: int, offset: int, aio: FakeAio, done: Got) -> bool:
        read.append(size)
        return begin(file, size, offset, aio, done)

    monkeypatch.setattr(FakeFile, "begin_read", counted)
    store = LocalLedgerStore("/log", LocalConfig(segment_bytes=16 << 20, reserved_bytes=1 << 20), disk=FakeDisk())
    writer, results = await store.create(await started(store), 1, {}), Results()
    entries = (4 << 20) // size
    for number in range(entries):
        results.append(writer, [bytes(size)])
        await results.wait(number + 1)  # each in a commit of its own
    reader = await store.open(1)
    await reader.read(0, entries_max=1, bytes_max=1)  # opens the file
    following = 0
    for _ in range(3):
        read.clear()
        forecast = store.forecast(1, following, entries_max=1 << 20, bytes_max=1 << 20)
        blocks = await reader.read(following, entries_max=forecast, bytes_max=1 << 20)
        assert blocks[-1].last_entry == following + forecast - 1
        assert len(read) == 2
        assert sum(read) < 1.2 * sum(len(block.data) for block in blocks) + (8 << 10)
        following += forecast
    await store.stop()
