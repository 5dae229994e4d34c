"""Memory for the device: lent in pieces, given back when nobody holds a part of one, kept for the next."""

from __future__ import annotations

import asyncio
import gc
import mmap
import os
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from messaging.storage.local.device.aio import AioContext, Done
from messaging.storage.local.device.buffers import ARENA_BYTES, BufferPool, IoBuffer
from messaging.storage.local.device.direct import PAGE_BYTES, READ_BYTES, open_past_cache, read_direct
from messaging.storage.local.read.gathered_blocks import READ_BYTES_MAX
from tests.support.storage.ledger_harness import needs_the_kernel

SMALL = 3 * PAGE_BYTES
A_ARENA = ARENA_BYTES // SMALL


def test_pieces_are_whole_pages_and_apart_from_each_other() -> None:
    memory = BufferPool(SMALL)
    buffers = [memory.acquire() for _ in range(A_ARENA + 1)]
    places = sorted(piece.address for piece in buffers)
    assert all(place % PAGE_BYTES == 0 for place in places)
    assert all(following - place >= SMALL for place, following in pairwise(places))
    for number, piece in enumerate(buffers):
        piece.view[:] = number.to_bytes(4, "big") * (SMALL // 4)
    assert all(piece.view == number.to_bytes(4, "big") * (SMALL // 4) for number, piece in enumerate(buffers))
    assert memory.held_bytes == 2 * A_ARENA * SMALL


def test_a_piece_is_lent_again_only_when_nobody_holds_a_part_of_it() -> None:
    memory = BufferPool(ARENA_BYTES)  # one piece an arena
    view, address = memory.acquire()
    part = view[100:200].toreadonly()
    view.release()
    second = memory.acquire()
    assert second.address != address
    part.release()
    assert memory.acquire().address == address


def test_unused_arenas_but_one_go_back_to_the_system() -> None:
    memory = BufferPool(SMALL)
    buffers = [memory.acquire() for _ in range(3 * A_ARENA)]
    assert memory.held_bytes == 3 * A_ARENA * SMALL
    del buffers[1:]
    gc.collect()
    assert memory.held_bytes == 2 * A_ARENA * SMALL  # the one that is in use, and one for the next
    buffers.clear()
    assert memory.held_bytes == A_ARENA * SMALL


def test_a_system_without_large_pages_lends_ordinary_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(mmap.mmap):
        def madvise(self, *_: int) -> None:
            raise OSError(22, "not configured")

    monkeypatch.setattr(mmap, "mmap", Plain)
    assert len(BufferPool(SMALL).acquire().view) == SMALL


def test_threads_never_get_the_same_piece() -> None:
    memory = BufferPool(SMALL)
    clashes: list[int] = []

    def use(mark: int) -> None:
        for _ in range(2_000):
            buffers: list[IoBuffer] = [memory.acquire() for _ in range(3)]
            for piece in buffers:
                piece.view[:4] = mark.to_bytes(4, "big")
            clashes.extend(mark for piece in buffers if piece.view[:4] != mark.to_bytes(4, "big"))

    threads = [threading.Thread(target=use, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes
    assert memory.held_bytes <= A_ARENA * SMALL


async def test_bytes_that_a_read_did_not_fill_are_not_seen(tmp_path: Path) -> None:
    needs_the_kernel(tmp_path)
    loop = asyncio.get_running_loop()
    (tmp_path / "file").write_bytes(b"ours" * 1000)
    with (tmp_path / "file").open("rb") as file:
        descriptor = open_past_cache(file.fileno(), os.O_RDONLY)
    memory = BufferPool(READ_BYTES)
    memory.acquire().view[:] = b"\x17" * READ_BYTES  # a neighbour's
    aio = AioContext(loop)
    ended = loop.create_future()
    assert read_direct(descriptor, READ_BYTES_MAX, 0, memory, aio, ended.set_result)
    assert memory.held_bytes
    assert await ended is None
    aio.close()
    os.close(descriptor)


@pytest.mark.parametrize("offset", [0, 1, PAGE_BYTES - 1, PAGE_BYTES])
@pytest.mark.parametrize(("size", "lent"), [(READ_BYTES_MAX, True), (256 << 10, False), (5 << 20, False)])
def test_the_readers_largest_read_fits_a_piece_and_small_ones_hold_none(offset: int, size: int, lent: bool) -> None:
    memory = BufferPool(READ_BYTES)
    got: list[memoryview | None] = []

    class Noting(AioContext):
        def __init__(self) -> None:
            """Without the kernel's queue."""

        def read(self, descriptor: int, address: int, size: int, place: int, done: Done) -> None:
            assert address % PAGE_BYTES == place % PAGE_BYTES == size % PAGE_BYTES == 0
            got.append(None)

    assert read_direct(0, size, offset, memory, Noting(), got.append)
    assert bool(memory.held_bytes) == lent
