"""The floor of receipts beside a reader: what the disk alone makes of the same writing and reading, with no broker between.

Bytes come at a steady rate; a write takes all that came since the last one began, and makes it durable, like the log's commits. A
process of its own reads the broker's cold segments at the reader's rate. The calls of the system are the log's; no byte is encoded,
copied to a socket or waited for.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

from messaging.storage.local.device.disk import OsDisk
from tests.benchmarks.load import Stalled

READ_BYTES = 576 << 10  # as the broker reads
ARRIVALS = 4  # looked at of each write: those of its first eighth, third eighth and so on
_FILE_BYTES_MAX = 1 << 30
_BLOCK_BYTES_MAX = 8 << 20


class Receipts(NamedTuple):
    """From a byte's arrival to its being durable."""

    p50_ms: float
    p99_ms: float


def receipts(folder: Path, segments: Path, write_per_s: float, read_per_s: float, seconds: float) -> Receipts:
    """Rates in bytes/s; `read_per_s` 0: nobody reads. `folder` lies on the disk in question, `segments` hold what is read.

    Raises `Stalled` where those cannot be read."""
    context = multiprocessing.get_context("spawn")
    begun, ended = context.Event(), context.Event()
    reader = context.Process(target=_read, args=(segments, read_per_s, begun, ended), daemon=True)
    if read_per_s:
        reader.start()
        while not begun.wait(1.0):
            if not reader.is_alive():
                raise Stalled(f"the process that reads {segments} ended with {reader.exitcode}")
    try:
        return _write(folder, write_per_s, seconds)
    finally:
        ended.set()
        if read_per_s:
            reader.join()


def _write(folder: Path, per_s: float, seconds: float) -> Receipts:
    block = memoryview(os.urandom(_BLOCK_BYTES_MAX))
    file_bytes = min(_FILE_BYTES_MAX, int(per_s * seconds) + _BLOCK_BYTES_MAX)
    waits: list[tuple[float, int]] = []  # (ms, bytes that waited so long)
    with tempfile.NamedTemporaryFile(dir=folder) as named, closing(OsDisk().open(Path(named.name))) as file:
        file.allocate(file_bytes)
        file.sync()
        offset = 0
        start = before = time.perf_counter()
        while before - start < seconds:
            began = time.perf_counter()
            size = min(_BLOCK_BYTES_MAX, max(1, int(per_s * (began - before))))
            if offset + size > file_bytes:
                offset = 0
            file.write_synced([block[:size]], offset)
            done = time.perf_counter()
            offset += size
            for index in range(ARRIVALS):
                arrived = before + (began - before) * (index + 0.5) / ARRIVALS
                waits.append(((done - arrived) * 1000, size))
            before = began
    return Receipts(quantile(waits, 0.5), quantile(waits, 0.99))


def quantile(waits: list[tuple[float, int]], share: float) -> float:
    waits.sort()
    left = share * sum(size for _, size in waits)
    for wait_ms, size in waits:
        left -= size
        if left <= 0:
            return wait_ms
    return waits[-1][0]


def _read(segments: Path, per_s: float, begun: Event, ended: Event) -> None:
    """Over all segments, from the first one again at the end; the kernel keeps nothing of them."""
    paths = sorted(path for path in segments.iterdir() if path.name.startswith("segment-"))
    buffer = bytearray(READ_BYTES)
    taken, start = 0, time.perf_counter()
    while True:
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead, as in the broker
                offset = 0
                while size := os.preadv(descriptor, [buffer], offset):
                    begun.set()
                    if ended.is_set():
                        return
                    offset += size
                    taken += size
                    early_s = start + taken / per_s - time.perf_counter()
                    if early_s > 0:
                        time.sleep(early_s)
            finally:
                os.close(descriptor)
