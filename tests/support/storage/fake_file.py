"""A file of the fake disk: what was written, what of it is durable, and reads and writes that the loop begins."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from messaging.storage.ledger_store import Buffer
from messaging.storage.local.device.aio import Done
from messaging.storage.local.device.direct import PAGE_BYTES, Got


class Operations(Protocol):
    """What a file needs of its disk."""

    bad_pages: set[tuple[str, int]]

    def operation(self, kind: str, path: Path) -> AbstractContextManager[None]: ...
    def free(self) -> int: ...


class Inode:
    def __init__(self) -> None:
        self.current = bytearray()
        self.durable = bytearray()
        self.unsynced: list[tuple[int, bytes]] = []

    def copy(self) -> Inode:
        made = Inode()
        made.current = bytearray(self.current)
        made.durable = bytearray(self.durable)
        made.unsynced = list(self.unsynced)
        return made


def put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset + len(data):
        content.extend(bytes(offset + len(data) - len(content)))
    content[offset : offset + len(data)] = data


class FakeFile:
    def __init__(self, disk: Operations, inode: Inode, path: Path) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path

    def write(self, buffers: Sequence[Buffer], offset: int) -> None:
        data = b"".join(buffers)
        with self._disk.operation("write", self._path):
            put(self._inode.current, offset, data)
            self._inode.unsynced.append((offset, data))

    def write_synced(self, buffers: Sequence[Buffer], offset: int, padding_bytes: int = 0) -> None:
        """Two operations, as the worst disk would have it, and whole pages, as writing past the page cache has it."""
        stop = offset + sum(map(len, buffers)) + padding_bytes
        self.write([*buffers, bytes(padding_bytes + min(-stop % PAGE_BYTES, max(0, self.size() - stop)))], offset)
        self.sync()

    def begin_synced(self, buffers: Sequence[Buffer], offset: int, padding_bytes: int, aio: Any, done: Done) -> bool:
        aio.begin(lambda: self.write_synced(buffers, offset, padding_bytes), done)
        return True

    def read(self, size: int, offset: int) -> bytes:
        with self._disk.operation("read", self._path):
            for name, page in self._disk.bad_pages:
                if name == self._path.name and offset < (page + 1) * PAGE_BYTES and offset + size > page * PAGE_BYTES:
                    raise OSError(errno.EIO, f"page {page} of {name} cannot be read")
            return bytes(self._inode.current[offset : offset + size])

    def begin_read(self, size: int, offset: int, aio: Any, done: Got) -> bool:
        views: list[memoryview] = []
        aio.begin(lambda: views.append(memoryview(self.read(size, offset))), lambda _: done(views[0] if views else None))
        return True

    def sync(self) -> None:
        inode = self._inode
        try:
            with self._disk.operation("sync", self._path):
                if len(inode.durable) < len(inode.current):
                    inode.durable.extend(bytes(len(inode.current) - len(inode.durable)))
                for offset, data in inode.unsynced:
                    put(inode.durable, offset, data)
        finally:
            inode.unsynced.clear()

    def allocate(self, size: int) -> None:
        with self._disk.operation("allocate", self._path):
            if size - len(self._inode.current) > self._disk.free():
                raise OSError(errno.ENOSPC, "No space left on device")
            if len(self._inode.current) < size:
                self._inode.current.extend(bytes(size - len(self._inode.current)))

    def size(self) -> int:
        return len(self._inode.current)

    def next_data(self, offset: int) -> int | None:
        return offset if offset < len(self._inode.current) else None

    def close(self) -> None:
        pass


class FakeAio:
    """What is begun happens at once; the loop hears of it later."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def begin(self, work: Callable[[], None], done: Done) -> None:
        try:
            work()
        except OSError as error:
            self.later(done, error)
        else:
            self.later(done, None)

    def later(self, done: Done, error: OSError | None) -> None:
        self.loop.call_soon(done, error)

    def close(self) -> None:
        pass
