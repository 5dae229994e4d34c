"""Direct I/O: reads and writes of whole pages that bypass the page cache, with buffers that the device accesses directly.

A commit rarely ends at a page boundary. Its last page is written again with the next commit; the beginning of that page is kept in
memory, so nothing has to be read. Linux only, and not on every file system: see `open_direct`.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Sequence

from messaging.storage.ledger_store import Buffer
from messaging.storage.local.device.aio import AioContext, Done
from messaging.storage.local.device.buffers import BufferPool, IoBuffer

PAGE_BYTES = 4096  # alignment of offsets, lengths and memory; no device requires more
STAGING_BYTES = 4 << 20  # the largest single write, submitted without a waiting thread; larger commits are rare
READ_BYTES = (576 << 10) + 2 * PAGE_BYTES  # bytes of a read buffer, at any alignment within a page
_ZEROS = bytes(PAGE_BYTES)

Got = Callable[[memoryview | None], None]  # called with the bytes read, or None after any failure


class DirectWriter:
    """Writes through a second descriptor of a file. For one thread at a time; the pages written must be allocated already."""

    __slots__ = ("_address", "_descriptor", "_staging", "_stop")

    def __init__(self, descriptor: int, staging: IoBuffer) -> None:
        """Takes ownership of `descriptor`, which was opened for this."""
        self._descriptor = descriptor
        self._staging, self._address = staging
        self._stop = -1  # where the last write ended; the staging buffer begins with the contents of that page before this offset

    def write_synced(self, buffers: Sequence[Buffer], offset: int, padding_bytes: int) -> None:
        """Writes `buffers` in order at `offset`, then zeros to the end of the page, or `padding_bytes` of them if one write can
        hold that many, and makes all of it durable. Blocks. Raises `OSError`; the contents of the range are then undefined."""
        at = offset % PAGE_BYTES
        page = offset - at
        if at and offset != self._stop:
            self.recall(page)
        self._stop = -1
        if at + sum(map(len, buffers)) <= len(self._staging):
            at, size = self._put_together(buffers, at, padding_bytes)
            self._write(size, page, os.RWF_DSYNC)
        else:
            page, at = self._write_long(buffers, page, at)
        self._keep_end(page, at)

    def begin_synced(self, buffers: Sequence[Buffer], offset: int, padding_bytes: int, aio: AioContext, done: Done) -> bool:
        """Like `write_synced`, without blocking: `done` is called on the loop, and no other method may be called before that.
        Returns False, with nothing started, if it would have to wait: for more than one write, for a page to be read first, or
        because the system refuses."""
        at = offset % PAGE_BYTES
        page = offset - at
        if (at and offset != self._stop) or at + sum(map(len, buffers)) > len(self._staging):
            return False
        self._stop = -1
        at, size = self._put_together(buffers, at, padding_bytes)

        def ended(error: OSError | None) -> None:
            if error is None:
                self._keep_end(page, at)
            done(error)

        try:
            aio.write(self._descriptor, self._address, size, page, ended)
        except OSError:
            return False
        return True

    def forget(self) -> None:
        """The file was written by other means: its contents must be read again."""
        self._stop = -1

    def close(self) -> None:
        self._staging.release()
        os.close(self._descriptor)

    def _put_together(self, buffers: Sequence[Buffer], at: int, padding_bytes: int) -> tuple[int, int]:
        """Assembles `buffers` in the staging buffer from `at` on. Returns (end of the data, number of bytes to write)."""
        staging = self._staging
        for buffer in buffers:
            stop = at + len(buffer)
            staging[at:stop] = buffer
            at = stop
        size = min(at + padding_bytes, len(staging))
        size += -size % PAGE_BYTES
        staging[at:size] = bytes(size - at)
        return at, size

    def _write_long(self, buffers: Sequence[Buffer], page: int, at: int) -> tuple[int, int]:
        """Writes what exceeds one staging buffer. Returns (file offset of the last staged part, end of the data)."""
        staging = self._staging
        whole = len(staging)
        for buffer in buffers:
            rest = memoryview(buffer)
            while rest:
                if at == whole:
                    self._write(whole, page, 0)
                    page, at = page + whole, 0
                part = min(len(rest), whole - at)
                staging[at : at + part] = rest[:part]
                at += part
                rest = rest[part:]
        _, size = self._put_together((), at, 0)
        self._write(size, page, 0)
        os.fdatasync(self._descriptor)
        return page, at

    def _keep_end(self, page: int, at: int) -> None:
        over = at % PAGE_BYTES
        if over:
            self._staging[:over] = self._staging[at - over : at]
        self._stop = page + at

    def _write(self, size: int, offset: int, flags: int) -> None:
        written = os.pwritev(self._descriptor, [self._staging[:size]], offset, flags)
        if written != size:
            raise OSError(errno.EIO, f"only {written} of {size} bytes were written past the page cache")

    def recall(self, page: int) -> None:
        got = os.preadv(self._descriptor, [self._staging[:PAGE_BYTES]], page)
        self._staging[got:PAGE_BYTES] = _ZEROS[got:]


def open_direct(descriptor: int, staging_buffers: BufferPool) -> DirectWriter | None:
    """Opens a direct writer for the open file `descriptor`, which the caller still owns. None if the system or the file system does
    not support direct writes, or has no descriptor or memory left for it."""
    direct = open_past_cache(descriptor, os.O_RDWR)
    if direct < 0:
        return None
    try:
        return DirectWriter(direct, staging_buffers.acquire())
    except (OSError, MemoryError):
        os.close(direct)
        return None


def open_past_cache(descriptor: int, flags: int) -> int:
    """A second, direct descriptor of the open file `descriptor`; -1 if the system or file system does not support direct I/O."""
    try:
        return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_DIRECT | os.O_CLOEXEC)
    except (AttributeError, OSError):
        return -1


def read_direct(descriptor: int, size: int, offset: int, read_buffers: BufferPool, aio: AioContext, done: Got) -> bool:
    """Starts reading the pages that hold these bytes; `done` is called with the bytes, or None. Returns False if nothing was
    started."""
    ahead = offset % PAGE_BYTES
    span = ahead + size + -(ahead + size) % PAGE_BYTES
    # A slice of the result keeps the whole buffer alive, so small reads get memory of their own.
    pooled = read_buffers.buffer_bytes < 2 * span <= 2 * read_buffers.buffer_bytes
    try:
        view, address = read_buffers.acquire() if pooled else _own_pages(span)
        aio.read(
            descriptor,
            address,
            span,
            offset - ahead,
            lambda error: done(view.toreadonly()[ahead : ahead + size] if error is None else None),
        )
    except (OSError, MemoryError):
        return False
    return True


def _own_pages(size: int) -> tuple[memoryview, int]:
    """Page-aligned memory, and its address."""
    memory = bytearray(size + PAGE_BYTES)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    skipped = -address % PAGE_BYTES
    return memoryview(memory)[skipped : skipped + size], address + skipped
