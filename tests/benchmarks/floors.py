"""What this machine can do at best, measured in the same run as the benchmarks: figures of a broker mean little without it."""

from __future__ import annotations

import mmap
import os
import socket
import statistics
import tempfile
import threading
import time
from pathlib import Path

from controlplane.doctor.checks import sync_probe_ms
from messaging.storage.ledger_store import Buffer
from messaging.storage.local.device.buffers import BufferPool

BUSY_LOOK_S = 1.0
SYNC_PROBES = 400
PING_PONGS = 4000
# A broker's commits are of any size; the disks of virtual machines swing, so the median of these counts.
WRITE_BYTES = (1 << 20, 4 << 20, 8 << 20)
WRITTEN_BYTES = 160 << 20


def measure(folder: Path) -> dict[str, float]:
    """`folder` lies on the disk that the broker will write to. Where others are at work no figure means much: the first says."""
    return {
        "busy_before_percent": _busy_percent(),
        "sync_4kib_p50_ms": statistics.median(sync_probe_ms(folder, SYNC_PROBES)),
        "durable_sequential_mib_per_s": statistics.median(_sequential_mib_per_s(folder, size) for size in WRITE_BYTES),
        "loopback_ping_pong_p50_ms": _ping_pong_p50_ms(),
        "memory_copy_gib_per_s": _copy_gib_per_s(),
    }


def write_synced(descriptor: int, data: Buffer, offset: int) -> int:
    """In the one call that does both; returns the bytes written."""
    return os.pwritev(descriptor, [data], offset, os.RWF_DSYNC)


def ways_to_write(folder: Path) -> list[int]:
    """Flags to open a file of `folder` with: through the page cache and, where its file system takes that, past it."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        try:
            descriptor = os.open(file.name, os.O_RDWR | os.O_DIRECT)
        except (AttributeError, OSError):
            return [0]
        try:
            write_synced(descriptor, block_of(mmap.PAGESIZE), 0)
        except OSError:
            return [0]
        finally:
            os.close(descriptor)
    return [0, os.O_DIRECT]


def block_of(size: int) -> memoryview:
    """Random bytes that can be written either way, in the memory that a device takes them from fastest."""
    block = BufferPool(size).acquire().view
    block[:] = os.urandom(size)
    return block


def _busy_percent() -> float:
    """How busy the processor is with other things."""

    def idle_ticks() -> int:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return int(fields[4]) + int(fields[5])  # idle, waiting for a disk

    start, before = time.monotonic(), idle_ticks()
    time.sleep(BUSY_LOOK_S)
    possible = (time.monotonic() - start) * os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
    return max(0.0, 100 * (1 - (idle_ticks() - before) / possible))


def _sequential_mib_per_s(folder: Path, size: int) -> float:
    """Writes of `size` bytes into a preallocated file, each made durable, in the way that is faster here."""
    block, best = block_of(size), 0.0
    for flag in ways_to_write(folder):
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            descriptor = os.open(file.name, os.O_RDWR | flag)
            os.posix_fallocate(descriptor, 0, WRITTEN_BYTES)
            os.fsync(descriptor)
            start = time.perf_counter()
            for offset in range(0, WRITTEN_BYTES, size):
                write_synced(descriptor, block, offset)
            best = max(best, WRITTEN_BYTES / (1 << 20) / (time.perf_counter() - start))
            os.close(descriptor)
    return best


def _ping_pong_p50_ms() -> float:
    """One byte there and back between two threads' sockets on the loopback interface: two wake-ups and no work."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def echo() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while data := peer.recv(16):
                    peer.sendall(data)

        thread = threading.Thread(target=echo)
        thread.start()
        took_ms = []
        with socket.create_connection(listener.getsockname()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(PING_PONGS):
                start = time.perf_counter()
                connection.sendall(b"x")
                connection.recv(16)
                took_ms.append((time.perf_counter() - start) * 1000)
        thread.join()
    return statistics.median(took_ms)


def _copy_gib_per_s() -> float:
    source = bytes(64 << 20)
    start = time.perf_counter()
    for _ in range(8):
        bytearray(source)
    return 8 * len(source) / (1 << 30) / (time.perf_counter() - start)
