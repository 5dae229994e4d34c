"""Memory that a device writes from and reads into by itself: whole pages, lent in pieces, next to each other in the machine's own
memory where the system can do that.

A device is told of each stretch of memory one by one: half a MiB scattered over 130 pages takes it half as long again as the same
in one stretch, and the call that begins it twice as long. Asking the system for large pages costs clearing them, so that pieces are
lent again and again.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from contextlib import suppress
from typing import NamedTuple

LARGE_PAGE_BYTES = 2 << 20  # of most machines; where it is another, memory is only scattered more
ARENA_BYTES = 2 * LARGE_PAGE_BYTES  # asked of the system at a time, or one piece


class Piece(NamedTuple):
    """Lent until nobody holds `view` any more, nor a part of it."""

    view: memoryview
    address: int


class IoMemory:
    """Pieces of one size. For any thread: what two threads do to the lists here are single steps of the interpreter."""

    def __init__(self, piece_bytes: int) -> None:
        self.piece_bytes = piece_bytes
        self._type = ctypes.c_ubyte * piece_bytes
        self._arenas: list[_Arena] = []

    @property
    def held_bytes(self) -> int:
        """Of the system's memory, lent or not."""
        return sum(arena.pieces * self.piece_bytes for arena in self._arenas)

    def take(self) -> Piece:
        """What it holds is left over from whoever had it before. Raises `OSError` or `MemoryError` where the system has no more."""
        for arena in self._arenas:
            with suppress(IndexError):
                return self._lend(arena, arena.free.pop())
        arena = _Arena(self.piece_bytes)
        offset = arena.free.pop()
        self._arenas.append(arena)
        return self._lend(arena, offset)

    def _lend(self, arena: _Arena, offset: int) -> Piece:
        lent = self._type.from_buffer(arena.memory, offset)
        weakref.finalize(lent, self._give_back, arena, offset).atexit = False
        return Piece(memoryview(lent).cast("B"), ctypes.addressof(lent))

    def _give_back(self, arena: _Arena, offset: int) -> None:
        arena.free.append(offset)
        if arena.unused and sum(one.unused for one in self._arenas) > 1:  # one stays, for the next
            with suppress(ValueError):
                self._arenas.remove(arena)


class _Arena:
    """The system takes its memory back when the last piece of it is gone."""

    __slots__ = ("free", "memory", "pieces")

    def __init__(self, piece_bytes: int) -> None:
        size = max(ARENA_BYTES, piece_bytes)
        # Private: what processes share is not given large pages. What lies before the first large page is never used.
        self.memory = mmap.mmap(-1, size + LARGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(AttributeError, OSError):
            self.memory.madvise(mmap.MADV_HUGEPAGE)
        begin = -ctypes.addressof(ctypes.c_ubyte.from_buffer(self.memory)) % LARGE_PAGE_BYTES
        self.free = [begin + offset for offset in range(0, size - piece_bytes + 1, piece_bytes)]  # where pieces begin
        self.pieces = len(self.free)

    @property
    def unused(self) -> bool:
        return len(self.free) == self.pieces
