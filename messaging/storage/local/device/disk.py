"""The interface to the disk. Every effect of the local store goes through it, so tests can drop, tear and fail each one.

All calls block and raise `OSError`, unless documented otherwise. Written data survives a power loss only after `DiskFile.sync`; a
new or changed name only after `Disk.sync_directory`.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from messaging.atomic_files import make_directory
from messaging.storage.ledger_store import Buffer
from messaging.storage.local.device.aio import AioContext, Done
from messaging.storage.local.device.buffers import BufferPool
from messaging.storage.local.device.direct import (
    READ_BYTES,
    STAGING_BYTES,
    DirectWriter,
    Got,
    open_direct,
    open_past_cache,
    read_direct,
)

IOV_MAX = 1024
_WRITES_SYNCED = hasattr(os, "RWF_DSYNC")
CACHED_BYTES = 4 << 20  # bytes of a file being written that stay in the page cache: fits the CPU cache and the disk's read-ahead


class DiskFile(Protocol):
    def write(self, buffers: Sequence[Buffer], offset: int) -> None:
        """Writes all of `buffers` in order, starting at `offset`."""

    def write_synced(self, buffers: Sequence[Buffer], offset: int, padding_bytes: int = 0) -> None:
        """Like `write`, followed by `padding_bytes` zeros, which end at a page boundary; makes all of this durable.

        Earlier writes may not be durable yet."""

    def begin_synced(self, buffers: Sequence[Buffer], offset: int, padding_bytes: int, aio: AioContext, done: Done) -> bool:
        """Like `write_synced`, without blocking: `done` is called on the loop, and no other method may be called before that.

        Returns False if nothing was started; call `write_synced` instead."""

    def read(self, size: int, offset: int) -> bytes:
        """Reads up to `size` bytes; returns fewer only at the end of the file."""

    def begin_read(self, size: int, offset: int, aio: AioContext, done: Got) -> bool:
        """Like `read`, without blocking: `done` is called on the loop. Returns False if nothing was started. After a failure, call
        `read` to learn the error."""

    def sync(self) -> None: ...
    def allocate(self, size: int) -> None:
        """Extends the file to at least `size` bytes and reserves disk space for all of them."""

    def size(self) -> int: ...
    def next_data(self, offset: int) -> int | None:
        """The first offset at or after `offset` where non-zero bytes may stand; None if there is none. Returning `offset` itself is
        always correct."""

    def close(self) -> None: ...


class DirectoryLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def aio(self, loop: asyncio.AbstractEventLoop) -> AioContext | None:
        """The AIO context for `begin_synced` and `begin_read`; None if the system does not support it."""

    def make_directory(self, path: Path) -> None:
        """With its missing parents; their names are durable when it returns."""

    def lock(self, path: Path) -> DirectoryLock:
        """Raises `BlockingIOError` if another process holds the lock."""

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, scattered: bool = False) -> DiskFile:
        """`scattered`: disables read-ahead, for random reads."""

    def names(self, path: Path) -> list[str]: ...
    def rename(self, old: Path, new: Path) -> None: ...
    def remove(self, path: Path) -> None: ...
    def sync_directory(self, path: Path) -> None: ...
    def free_bytes(self, path: Path) -> int: ...


class OsFile:
    """A file whose written pages do not stay in the page cache. Recent entries are served from the broker's own memory, and caching
    pages that nobody reads costs more than the disk does: copying into them, freeing them, writing them back.

    `write_synced` bypasses the cache. Where the system does not support direct writes, it writes and syncs in one call or two; a
    sync then evicts all but the newest `CACHED_BYTES`."""

    __slots__ = (
        "_cached_from",
        "_descriptor",
        "_direct",
        "_past_cache",
        "_read_buffers",
        "_reading",
        "_staging_buffers",
        "_written_to",
    )

    def __init__(self, descriptor: int, staging_buffers: BufferPool, read_buffers: BufferPool) -> None:
        """Takes ownership of `descriptor`. Writes from a buffer of `staging_buffers`, reads into buffers of `read_buffers`."""
        self._descriptor = descriptor
        self._staging_buffers = staging_buffers
        self._read_buffers = read_buffers
        self._direct: DirectWriter | None = None  # set by the first `write_synced`
        self._past_cache = True
        self._reading: int | None = None  # a direct descriptor, opened by the first `begin_read`; -1 if direct I/O is not supported
        self._written_to = 0
        self._cached_from = 0

    def write(self, buffers: Sequence[Buffer], offset: int) -> None:
        if self._direct is not None:
            self._direct.forget()
        if len(buffers) == 1:
            _write_all(self._descriptor, buffers[0], offset)
            self._written_to = offset + len(buffers[0])
            return
        for start in range(0, len(buffers), IOV_MAX):
            part = buffers[start : start + IOV_MAX]
            wanted = sum(map(len, part))
            written = os.pwritev(self._descriptor, part, offset)
            if written != wanted:
                _write_all(self._descriptor, b"".join(part)[written:], offset + written)
            offset += wanted
        self._written_to = offset

    def write_synced(self, buffers: Sequence[Buffer], offset: int, padding_bytes: int = 0) -> None:
        if not (self._past_cache and self._write_direct(buffers, offset, padding_bytes)):
            self._write_cached([*buffers, bytes(padding_bytes)], offset)

    def begin_synced(self, buffers: Sequence[Buffer], offset: int, padding_bytes: int, aio: AioContext, done: Done) -> bool:
        return self._direct is not None and self._direct.begin_synced(buffers, offset, padding_bytes, aio, done)

    def _write_direct(self, buffers: Sequence[Buffer], offset: int, padding_bytes: int) -> bool:
        """Whether this file supports direct writes."""
        if self._direct is None:
            self._direct = open_direct(self._descriptor, self._staging_buffers)
        if self._direct is not None:
            try:
                self._direct.write_synced(buffers, offset, padding_bytes)
                return True
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
            self._direct.close()  # some file systems accept the open and then refuse every write
            self._direct = None
        self._past_cache = False
        return False

    def _write_cached(self, buffers: Sequence[Buffer], offset: int) -> None:
        wanted = sum(map(len, buffers))
        if not _WRITES_SYNCED or len(buffers) > IOV_MAX or os.pwritev(self._descriptor, buffers, offset, os.RWF_DSYNC) != wanted:
            self.write(buffers, offset)
            self.sync()
            return
        self._written_to = offset + wanted
        self._let_go()

    def read(self, size: int, offset: int) -> bytes:
        data = os.pread(self._descriptor, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        while data and size > (got := sum(map(len, parts))):
            data = os.pread(self._descriptor, size - got, offset + got)
            parts.append(data)
        return b"".join(parts)

    def begin_read(self, size: int, offset: int, aio: AioContext, done: Got) -> bool:
        if self._reading is None:
            self._reading = open_past_cache(self._descriptor, os.O_RDONLY)
        return self._reading >= 0 and read_direct(self._reading, size, offset, self._read_buffers, aio, done)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)
        self._let_go()

    def _let_go(self) -> None:
        if self._written_to - self._cached_from > 2 * CACHED_BYTES:
            stop = self._written_to - CACHED_BYTES
            os.posix_fadvise(self._descriptor, self._cached_from, stop - self._cached_from, os.POSIX_FADV_DONTNEED)
            self._cached_from = stop

    def allocate(self, size: int) -> None:
        os.posix_fallocate(self._descriptor, 0, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def next_data(self, offset: int) -> int | None:
        try:
            return os.lseek(self._descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            # ENXIO: only a hole follows; allocated space that was never written counts as a hole.
            return None if error.errno == errno.ENXIO else offset

    def close(self) -> None:
        if self._direct is not None:
            self._direct.close()
        if self._reading is not None and self._reading >= 0:
            os.close(self._reading)
        os.close(self._descriptor)


def _write_all(descriptor: int, data: Buffer, offset: int) -> None:
    written = os.pwrite(descriptor, data, offset)
    while written < len(data):
        data = memoryview(data)[written:]
        offset += written
        written = os.pwrite(descriptor, data, offset)


class _OsLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


class OsDisk:
    """`read_only`: files are opened for reading alone, so that this needs no right to write. What is not a plain file cannot be
    opened either way: opening a pipe would wait for its other end."""

    def __init__(self, staging_bytes: int = STAGING_BYTES, *, read_only: bool = False) -> None:
        self._access = os.O_RDONLY if read_only else os.O_RDWR
        self._staging_buffers = BufferPool(staging_bytes)
        self._read_buffers = BufferPool(READ_BYTES)

    def aio(self, loop: asyncio.AbstractEventLoop) -> AioContext | None:
        try:
            return AioContext(loop)
        except OSError:
            return None

    def make_directory(self, path: Path) -> None:
        make_directory(path)

    def lock(self, path: Path) -> DirectoryLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        return _OsLock(descriptor)

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, scattered: bool = False) -> DiskFile:
        flags = self._access | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_CREAT if create else 0) | (os.O_TRUNC if truncate else 0)
        descriptor = os.open(path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        if scattered:
            # Some systems read 8 MiB ahead: a concurrent commit then waits 10 ms for the disk instead of half a millisecond.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        return OsFile(descriptor, self._staging_buffers, self._read_buffers)

    def names(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))  # noqa: PTH208 -- names are wanted, not Path objects

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, path: Path) -> int:
        state = os.statvfs(path)
        return state.f_bavail * state.f_frsize


def replace_file(disk: Disk, path: Path, content: bytes) -> None:
    """Replaces the file at `path` with `content`, atomically and durably."""
    temporary = path.with_name(path.name + ".new")
    file = disk.open(temporary, create=True, truncate=True)
    try:
        file.write([content], 0)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_directory(path.parent)


def read_file(disk: Disk, path: Path) -> bytes:
    file = disk.open(path)
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()
