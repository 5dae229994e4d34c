"""Returns memory that Python has freed but the C library keeps: 4 MiB after start, more after a run's hours were loaded."""

from __future__ import annotations

import ctypes
import gc
import sys


def trim_memory() -> None:
    """Collects garbage and returns free pages to the system where that can be asked for (glibc). Takes some milliseconds."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
