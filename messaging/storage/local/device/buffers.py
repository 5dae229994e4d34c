"""Buffers that a device writes from and reads into directly (DMA): whole pages, next to each other in the machine's own
memory where the system can do that.

A device is told of each stretch of memory one by one: half a MiB scattered over 130 pages takes it half as long again as the same
in one stretch, and the call that begins it twice as long. Asking the system for large pages costs clearing them, so that pieces are
used again and again.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from contextlib import suppress
from typing import NamedTuple

LARGE_PAGE_BYTES = 2 << 20  # of most machines; where it is another, memory is only scattered more
ARENA_BYTES = 2 * LARGE_PAGE_BYTES  # asked of the system at a time, or one piece


class IoBuffer(NamedTuple):
    """In use until nobody holds `view` any more, nor a part of it."""

    view: memoryview
    address: int


class BufferPool:
    """Pieces of one size. For any thread: what two threads do to the lists here are single steps of the interpreter."""

    def __init__(self, buffer_bytes: int) -> None:
        self.buffer_bytes = buffer_bytes
        self._type = ctypes.c_ubyte * buffer_bytes
        self._arenas: list[_Arena] = []

    @property
    def held_bytes(self) -> int:
        """Of the system's memory, in use or not."""
        return sum(arena.buffers * self.buffer_bytes for arena in self._arenas)

    def acquire(self) -> IoBuffer:
        """What it holds is left over from whoever had it before. Raises `OSError` or `MemoryError` where the system has no more."""
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
        if arena.unused and sum(one.unused for one in self._arenas) > 1:  # one stays, for the next
            with suppress(ValueError):
                self._arenas.remove(arena)


class _Arena:
    """The system takes its memory back when the last piece of it is gone."""

    __slots__ = ("buffers", "free", "memory")

    def __init__(self, buffer_bytes: int) -> None:
        size = max(ARENA_BYTES, buffer_bytes)
        # Private: what processes share is not given large pages. What lies before the first large page is never used.
        self.memory = mmap.mmap(-1, size + LARGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(AttributeError, OSError):
            self.memory.madvise(mmap.MADV_HUGEPAGE)
        begin = -ctypes.addressof(ctypes.c_ubyte.from_buffer(self.memory)) % LARGE_PAGE_BYTES
        self.free = [begin + offset for offset in range(0, size - buffer_bytes + 1, buffer_bytes)]  # where pieces begin
        self.buffers = len(self.free)

    @property
    def unused(self) -> bool:
        return len(self.free) == self.buffers
