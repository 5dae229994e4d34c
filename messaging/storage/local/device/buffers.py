"""Buffers for direct memory access (DMA) by a device: whole pages, physically contiguous where the system allows it.

A device handles each contiguous stretch of memory separately: half a MiB scattered over 130 pages takes half as long again as one
stretch, and submitting it takes twice as long. Asking the system for large pages costs clearing them, so buffers are reused.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from contextlib import suppress
from typing import NamedTuple

LARGE_PAGE_BYTES = 2 << 20  # of most machines; with another size, memory is only more scattered
ARENA_BYTES = 2 * LARGE_PAGE_BYTES  # requested from the system at a time, or one buffer if that is larger


class IoBuffer(NamedTuple):
    """A buffer that stays in use as long as anything references `view` or a slice of it."""

    view: memoryview
    address: int


class BufferPool:
    """A pool of buffers of one size. Thread-safe: list operations here are atomic under the GIL."""

    def __init__(self, buffer_bytes: int) -> None:
        self.buffer_bytes = buffer_bytes
        self._type = ctypes.c_ubyte * buffer_bytes
        self._arenas: list[_Arena] = []

    @property
    def held_bytes(self) -> int:
        """Bytes allocated from the system, in use or not."""
        return sum(arena.buffers * self.buffer_bytes for arena in self._arenas)

    def acquire(self) -> IoBuffer:
        """Returns a buffer with arbitrary contents. Raises `OSError` or `MemoryError` if the system has no more memory."""
        for arena in self._arenas:
            with suppress(IndexError):
                return self._acquire_from(arena, arena.free.pop())
        arena = _Arena(self.buffer_bytes)
        offset = arena.free.pop()
        self._arenas.append(arena)
        return self._acquire_from(arena, offset)

    def _acquire_from(self, arena: _Arena, offset: int) -> IoBuffer:
        acquired = self._type.from_buffer(arena.memory, offset)
        weakref.finalize(acquired, self._release, arena, offset).atexit = False
        return IoBuffer(memoryview(acquired).cast("B"), ctypes.addressof(acquired))

    def _release(self, arena: _Arena, offset: int) -> None:
        arena.free.append(offset)
        if arena.unused and sum(other.unused for other in self._arenas) > 1:  # one is kept for the next caller
            with suppress(ValueError):
                self._arenas.remove(arena)


class _Arena:
    """A mapping that is returned to the system when its last buffer is released."""

    __slots__ = ("buffers", "free", "memory")

    def __init__(self, buffer_bytes: int) -> None:
        size = max(ARENA_BYTES, buffer_bytes)
        # Private, because shared mappings get no large pages. The part before the first large page is never used.
        self.memory = mmap.mmap(-1, size + LARGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(AttributeError, OSError):
            self.memory.madvise(mmap.MADV_HUGEPAGE)
        begin = -ctypes.addressof(ctypes.c_ubyte.from_buffer(self.memory)) % LARGE_PAGE_BYTES
        self.free = [begin + offset for offset in range(0, size - buffer_bytes + 1, buffer_bytes)]  # the offsets of its buffers
        self.buffers = len(self.free)

    @property
    def unused(self) -> bool:
        return len(self.free) == self.buffers
