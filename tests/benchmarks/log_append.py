"""Durable appends to the local log, against floors measured in the same run on the same disk.

128 B entries with 100 in flight stand beside a bare group-commit loop (one durable write, next batch is what piled up),
and 1 KiB messages in 100 KiB batches beside the best durable sequential writing of the disk.
"""

from __future__ import annotations

import asyncio
import os
import queue
import shutil
import statistics
import tempfile
import threading
import time
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path

from messaging.storage.ledger_store import LedgerWriter, StoreError
from messaging.storage.local import LocalConfig, LocalLedgerStore
from tests.benchmarks import floors
from tests.benchmarks.report import Figure, Progress, Section, Table, number
from tests.support.storage.owning import started as opened

SEGMENT_BYTES = 128 << 20
ROUNDS = 5


def run(directory: Path | None, seconds: float, progress: Progress) -> Section:
    """Each of the four measurements takes `seconds`, in `ROUNDS` parts: all in turn, since a disk's pace changes within seconds."""
    progress("durable appends to the log")
    part_s = seconds / ROUNDS
    small, floor, large = (_Rounds() for _ in range(3))
    sequential: dict[tuple[int, int], list[float]] = {}
    with tempfile.TemporaryDirectory(dir=directory) as made:
        root = Path(made)
        ways = [(size, flag) for size in (1 << 20, 4 << 20, 8 << 20) for flag in floors.ways_to_write(root)]
        for index in range(ROUNDS):
            folder = root / str(index)
            folder.mkdir()
            floor.add(partial(_group_commit_floor, folder / "floor", 128, 100, part_s))
            small.add(partial(_appends, folder / "small", 128, 100, part_s))
            for size, flag in ways:  # each in files of its own: what was written before is written faster
                rate = _sequential_floor(folder / f"sequential-{size}-{flag}", size, part_s / len(ways), flag)
                sequential.setdefault((size, flag), []).append(rate)
            large.add(partial(_appends, folder / "large", 100 << 10, 100, part_s))
            shutil.rmtree(folder)
    best_mib_per_s = max(statistics.median(rates) for rates in sequential.values())
    mib_per_s = large.rate * 100 / 1024
    columns = ("load", "append", "CPU us an entry", "floor", "CPU us an entry", "ratio")
    rows: list[tuple[str, ...]] = [
        (
            "entries of 128 B, 100 in flight; floor: a bare group commit",
            f"{number(small.rate)} entries/s",
            number(small.cpu_us),
            f"{number(floor.rate)} entries/s",
            number(floor.cpu_us),
            number(small.rate / floor.rate),
        ),
        (
            "entries of 100 KiB (1 KiB x 100), 100 in flight; floor: the best sequential writing",
            f"{number(mib_per_s)} MiB/s",
            number(large.cpu_us),
            f"{number(best_mib_per_s)} MiB/s",
            "",
            number(mib_per_s / best_mib_per_s),
        ),
    ]
    figures = [
        Figure("append, 128 B, 100 in flight: to the group-commit floor", small.rate / floor.rate, 0.5),
        Figure("append, 1 KiB in batches of 100 KiB: to the sequential floor", mib_per_s / best_mib_per_s, 0.6),
    ]
    words = (
        "The local log alone, in this process, without a socket; the floors are measured by such loops in turn with it. Medians of "
        f"{ROUNDS} rounds; of the ways to write sequentially (1, 4 or 8 MiB at a time, through the page cache or past it) the best."
    )
    return Section("Durable appends", words, [Table(columns, rows)], figures)


class _Rounds:
    """What several runs of one measurement gave: things/s over their own time, CPU microseconds a thing."""

    def __init__(self) -> None:
        self._found: list[tuple[float, float]] = []

    def add(self, work: Callable[[], float]) -> None:
        self._found.append(_measure(work))

    @property
    def rate(self) -> float:
        return statistics.median(rate for rate, _ in self._found)

    @property
    def cpu_us(self) -> float:
        return statistics.median(cpu_us for _, cpu_us in self._found)


def _measure(work: Callable[[], float]) -> tuple[float, float]:
    """(what `work` returns: things/s over its own time, CPU microseconds a thing)."""
    cpu, started = time.process_time(), time.perf_counter()
    rate = work()
    elapsed = time.perf_counter() - started
    return rate, (time.process_time() - cpu) * 1e6 / max(1.0, rate * elapsed)


def _appends(directory: Path, size: int, in_flight: int, seconds: float) -> float:
    return asyncio.run(_append_for(directory, size, in_flight, seconds))


async def _append_for(directory: Path, size: int, in_flight: int, seconds: float) -> float:
    store = LocalLedgerStore(directory, LocalConfig(segment_bytes=SEGMENT_BYTES))
    fence = await opened(store)
    writer: LedgerWriter = await store.create(fence, 1, {"tenant": "benchmark"})
    ended = asyncio.get_running_loop().create_future()
    data, end_offsets, header = os.urandom(size), array("I", [size]), b"h" * 40
    confirmed = 0
    stopping = False

    def done(error: StoreError | None) -> None:
        nonlocal confirmed
        if error is not None:
            raise error
        confirmed += 1
        if not stopping:
            writer.append(header, data, end_offsets, done)
        elif writer.pending_bytes == 0 and not ended.done():
            ended.set_result(None)

    started = time.perf_counter()
    for _ in range(in_flight):
        writer.append(header, data, end_offsets, done)
    await asyncio.sleep(seconds)
    rate = confirmed / (time.perf_counter() - started)
    stopping = True
    await ended
    await store.stop()
    return rate


def _group_commit_floor(path: Path, size: int, in_flight: int, seconds: float) -> float:
    return asyncio.run(_group_commit_for(path, size, in_flight, seconds))


async def _group_commit_for(path: Path, size: int, in_flight: int, seconds: float) -> float:
    """The same shape with nothing in it: no record, no checksum, no index; callbacks on the loop."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(descriptor, 0, SEGMENT_BYTES)
    loop = asyncio.get_running_loop()
    batches: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
    data = os.urandom(size)
    confirmed = 0
    stopping = False
    ended = loop.create_future()

    def sync() -> None:
        offset = 0
        while (batch := batches.get()) is not None:
            offset += floors.write_synced(descriptor, b"".join(batch), offset % (SEGMENT_BYTES - (1 << 20)))
            loop.call_soon_threadsafe(synced, batch)

    def synced(batch: list[bytes]) -> None:
        nonlocal confirmed
        again: list[bytes] = []
        for item in batch:
            confirmed += 1
            again.append(item)
        if stopping:
            ended.set_result(None)
        else:
            batches.put(again)

    thread = threading.Thread(target=sync)
    thread.start()
    started = time.perf_counter()
    batches.put([data] * in_flight)
    await asyncio.sleep(seconds)
    rate = confirmed / (time.perf_counter() - started)
    stopping = True
    await ended
    batches.put(None)
    thread.join()
    os.close(descriptor)
    return rate


def _sequential_floor(path: Path, size: int, seconds: float, flag: int) -> float:
    """MiB/s of durable writes into allocated files, a new one each 128 MiB as the log does, opened with `flag`."""
    data = floors.block_of(size)
    written, number, descriptor, offset = 0, 0, -1, SEGMENT_BYTES
    started = time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        if offset + size > SEGMENT_BYTES:
            if descriptor >= 0:
                os.close(descriptor)
            number += 1
            descriptor = os.open(path.with_name(f"{path.name}-{number}"), os.O_RDWR | os.O_CREAT | flag)
            os.posix_fallocate(descriptor, 0, SEGMENT_BYTES)
            offset = 0
        offset += floors.write_synced(descriptor, data, offset)
        written += size
    os.close(descriptor)
    return written / elapsed / (1 << 20)
