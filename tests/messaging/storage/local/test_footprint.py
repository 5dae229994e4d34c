"""What an idle ledger costs: no descriptor, no task, no thread, little memory; and commits do not depend on how many there are."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import tracemalloc
from array import array
from pathlib import Path

import pytest

from messaging.storage.ledger_store import LedgerWriter, StoreError
from messaging.storage.local import LocalConfig, LocalLedgerStore
from tests.support.storage.damaged_log import append
from tests.support.storage.owning import started
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio

LEDGERS = 5000
CONFIG = LocalConfig(segment_bytes=4 << 20, reserved_bytes=0)


async def test_idle_ledgers_cost_little(tmp_path: Path) -> None:
    store = LocalLedgerStore(tmp_path / "log", CONFIG)
    fence = await started(store)
    await store.create(fence, 1_000_000, {"tenant": "t"})
    before = (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), threading.active_count())  # noqa: PTH208
    tracemalloc.start()
    writers: list[LedgerWriter] = []
    for first in range(1, LEDGERS, 100):
        writers += await asyncio.gather(*(store.create(fence, number, {"tenant": "t"}) for number in range(first, first + 100)))
    told: list[StoreError | None] = []
    ended = asyncio.get_running_loop().create_future()

    def done(error: StoreError | None) -> None:
        told.append(error)
        if len(told) == LEDGERS:
            ended.set_result(None)

    commits = store.queue.commits
    data, end_offsets = b"x", array("I", [1])
    for writer in writers:
        writer.append(b"", data, end_offsets, done)
    await ended
    assert store.queue.commits - commits <= 2, "one turn of the loop is one commit, however many ledgers it touches"
    written, _ = tracemalloc.get_traced_memory()
    other = await store.create(fence, 1_000_001, {})
    for _ in range(6):  # until no footer is missing that lists them
        await append(other, bytes(1 << 20))
    await eventually(lambda: all(store.log.ledgers.states[writer.ledger_id].extents is None for writer in writers))
    told.clear()
    gc.collect()
    idle, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    after = (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), threading.active_count())  # noqa: PTH208
    assert after[0] - before[0] <= 2 and after[1:] == before[1:]
    assert written / LEDGERS < 1100, f"{written / LEDGERS:.0f} bytes a ledger in the segment being written"
    assert idle / LEDGERS < 480, f"{idle / LEDGERS:.0f} bytes an idle ledger"
    await store.stop()


async def test_descriptors_for_reading_are_bounded(tmp_path: Path) -> None:
    config = LocalConfig(segment_bytes=64 << 10, reserved_bytes=0, files_open_max=4)
    store = LocalLedgerStore(tmp_path / "log", config)
    fence = await started(store)
    writer = await store.create(fence, 1, {})
    for _ in range(40):
        ended = asyncio.get_running_loop().create_future()
        writer.append(b"", b"x" * 40_000, array("I", [40_000]), ended.set_result)
        assert await ended is None
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    reader = await store.open(1)
    for entry in range(40):
        assert (await reader.read(entry, entries_max=1, bytes_max=1))[0].first_entry == entry
    assert len(os.listdir("/proc/self/fd")) - before <= 5  # noqa: PTH208
    await store.stop()
