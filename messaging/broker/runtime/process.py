"""This process: its resident memory, and tuning of the garbage collector, the allocator and thread switching."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

FREED_BYTES_KEPT = 64 << 20
_MMAP_BYTES = 32 << 20  # glibc's maximum: larger buffers are mapped separately
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's numbers
SWITCH_S = 0.00005


def resident_bytes() -> int:
    """Resident memory now, or its peak if the system does not report the current value."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class ProcessorUse:
    """Of this process, since it was asked for the last time but at least a second ago, in percent of one processor."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic, used_s: Callable[[], float] = time.process_time) -> None:
        self._now_s, self._used_s = now_s, used_s
        self._since = now_s(), used_s()
        self._percent = 0.0

    def percent(self) -> float:
        now_s, used_s = self._now_s(), self._used_s()
        passed_s = now_s - self._since[0]
        if passed_s >= 1.0:
            self._percent = 100.0 * (used_s - self._since[1]) / passed_s
            self._since = now_s, used_s
        return self._percent


def machine_bytes() -> int:
    """Memory of the machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def tune_gc() -> None:
    """Lets reference counts do nearly all, as they can: what a block leaves behind has no cycles.

    By default Python looks for cycles every 700 objects. A broker has as many on their way to the log all the time, so that each
    look finds nothing, and 100,000 topics are 5 million objects to look through: more than a third of the broker's work, and
    pauses of a second. What does leave cycles (some exceptions, ended connections) is few objects and young, but may hold many
    bytes: `free_young_cycles` finds it.
    """
    gc.collect()
    gc.freeze()  # modules and classes never become garbage
    gc.set_threshold(50_000, 10, 1_000)


def free_young_cycles() -> None:
    """Frees cycles among what was made lately: at most 50,000 objects are looked through, some ms; none, where nothing goes on.

    A broker that makes no more objects than it frees never looks by itself, however large what a cycle holds."""
    gc.collect(0)


def tune_thread_switching() -> None:
    """Lets threads have their turn while the loop is busy.

    One that wants to run asks the running one to stop after this long (Python's default: 5 ms). A commit by the log's thread asks
    some four times, where the kernel does not carry it out by itself: beside a loop with a backlog to dispatch, receipts took 9 ms
    with 0.5 ms here, and 4 ms with 0.05. Throughput is the same."""
    sys.setswitchinterval(SWITCH_S)


def tune_malloc() -> None:
    """Has the C library keep what is freed, up to `FREED_BYTES_KEPT`, for the next large buffer.

    Reads and commits of large messages are buffers of some hundred KiB, made and dropped thousands of times a second. By default
    their memory goes back to the kernel each time, which clears it for the next one: a sixth of the time of 64 KiB messages. Does
    nothing where the C library is not glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_TRIM_THRESHOLD, FREED_BYTES_KEPT)
    mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
