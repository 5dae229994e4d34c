"""Returns memory that Python has freed but the C library keeps: 4 MiB after start, more after a run's hours were loaded."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
from collections.abc import Callable

EVERY_S = 10.0  # at most; with schedules of seconds, trimming after each task took a fifth of a core


def trim_memory() -> None:
    """Collects garbage and returns free pages to the system where that can be asked for (glibc). Takes some milliseconds."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)


class MemoryTrimmer:
    """Tasks say that they have used memory; the process's main thread trims it, however many they were, once in `EVERY_S`.
    Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, trim: Callable[[], None] = trim_memory) -> None:
        self._clock, self._trim = clock, trim
        self._used = threading.Event()
        self._not_before_s = clock()

    def used(self) -> None:
        self._used.set()

    def trim_if_due(self) -> None:
        if self._used.is_set() and self._clock() >= self._not_before_s:
            self._used.clear()
            self._trim()
            self._not_before_s = self._clock() + EVERY_S


process_memory = MemoryTrimmer()
