"""A disk in memory that forgets what was not synced: it drops, reorders and tears writes and names, fails on demand, fills up.

`power_loss(random)` gives the disk as it may be found after the power came back: of each unsynced write any subset of its sectors,
of each unsynced change of a name the old or the new state. After a failed sync the unsynced writes are marked clean, as Linux does:
a later sync succeeds and makes nothing of them durable.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.support.storage.fake_file import FakeAio, FakeFile, Inode, put
from tests.support.storage.faults import Fault

SECTOR_BYTES = 512


class _Operation:
    def __init__(self, disk: FakeDisk, kind: str, path: Path) -> None:
        self._disk, self._kind, self._path = disk, kind, path

    def __enter__(self) -> None:
        self._disk.before_unlocked(self._kind, self._path)
        self._disk.lock_.acquire()
        try:
            self._disk.before(self._kind, self._path)
        except BaseException:
            self._disk.lock_.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._disk.lock_.release()


class _Lock:
    def __init__(self, disk: FakeDisk, path: Path) -> None:
        self._disk, self._path = disk, path

    def release(self) -> None:
        self._disk.locks.discard(self._path)


def never(kind: str, path: Path, number: int) -> bool:
    return False


class FakeDisk:
    """Operations are counted from 1. `bad_pages` are pages of files that cannot be read."""

    def __init__(self, capacity_bytes: int = 1 << 30) -> None:
        self.lock_ = threading.RLock()
        self.locks: set[Path] = set()
        self.capacity_bytes = capacity_bytes
        self.operations = 0
        self._fails: Callable[[str, Path, int], bool | int] = never
        self._fault: Fault | None = None
        self.bad_pages: set[tuple[str, int]] = set()  # (name, number)
        self.before_unlocked: Callable[[str, Path], None] = lambda kind, path: None  # may block: other threads go on
        self.image_at = 0  # operation before which `image` is taken
        self.image: FakeDisk | None = None
        self.on_image: Callable[[], None] = lambda: None
        self.on_sync: Callable[[Path], None] = lambda path: None
        self.make_aio: Callable[[asyncio.AbstractEventLoop], FakeAio] = FakeAio
        self._names: dict[Path, Inode] = {}
        self._durable_names: dict[Path, Inode] = {}

    def fail(self, fails: Callable[[str, Path, int], bool | int], *, surely: bool = True) -> Fault:
        """From now on `fails(kind, path, number)` decides whether an operation raises EIO, or the error number that it returns.
        `surely`: one of them must."""
        self._fails = fails
        self._fault = Fault("an operation of the disk fails", surely=surely)
        return self._fault

    def fail_at(self, number: int, code: int = errno.EIO) -> None:
        """The operation of this number fails, and must come."""
        self.fail(lambda kind, path, at: code if at == number else False)

    def heal(self) -> None:
        self._fails = never

    def operation(self, kind: str, path: Path) -> _Operation:
        return _Operation(self, kind, path)

    def before(self, kind: str, path: Path) -> None:
        self.operations += 1
        if self.operations == self.image_at:
            self.image = self.frozen()
            self.on_image()
        if kind == "sync":
            self.on_sync(path)
        failure = self._fails(kind, path, self.operations)
        if failure:
            if self._fault is not None:
                self._fault.fire()
            code = errno.EIO if failure is True else failure
            raise OSError(code, f"{os.strerror(code)}, injected at operation {self.operations} ({kind} {path.name})")

    def frozen(self) -> FakeDisk:
        """The disk as it is now, unsynced writes included: what a killed process leaves."""
        with self.lock_:
            made = FakeDisk(self.capacity_bytes)
            inodes = {id(inode): inode.copy() for inode in (*self._names.values(), *self._durable_names.values())}
            made._names = {path: inodes[id(inode)] for path, inode in self._names.items()}
            made._durable_names = {path: inodes[id(inode)] for path, inode in self._durable_names.items()}
            return made

    def power_loss(self, random: Random) -> FakeDisk:
        made = self.frozen()
        for inode in {id(inode): inode for inode in (*made._names.values(), *made._durable_names.values())}.values():
            _lose(inode, random)
        for path in sorted(made._names.keys() | made._durable_names.keys()):
            old, new = made._durable_names.get(path), made._names.get(path)
            chosen = random.choice((old, new))
            made._names.pop(path, None)
            if chosen is not None:
                made._names[path] = chosen
        made._durable_names = dict(made._names)
        return made

    def free(self) -> int:
        return self.capacity_bytes - sum(len(inode.current) for inode in self._names.values())

    def holds(self, data: bytes) -> bool:
        """Whether a power loss now would leave `data` in some file."""
        return any(data in inode.durable for inode in self._durable_names.values())

    def file(self, path: Path) -> bytearray:
        """Its bytes, to damage them: both what is seen and what is durable."""
        inode = self._names[path]
        inode.durable = inode.current
        return inode.current

    def damage(self, data: bytes) -> int:
        """Turns a bit of `data` wherever it is stored. Returns how many places those are."""
        places = 0
        for inode in self._names.values():
            for content in (inode.current, inode.durable):
                at = content.find(data)
                while at >= 0:
                    content[at + len(data) // 2] ^= 1
                    places += 1
                    at = content.find(data, at + 1)
        return places

    def aio(self, loop: asyncio.AbstractEventLoop) -> Any:
        return self.make_aio(loop)

    def make_directory(self, path: Path) -> None:
        pass

    def lock(self, path: Path) -> _Lock:
        if path in self.locks:
            raise BlockingIOError
        self.locks.add(path)
        return _Lock(self, path)

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, scattered: bool = False) -> FakeFile:
        with self.operation("open", path):
            inode = self._names.get(path)
            if inode is None:
                if not create:
                    raise FileNotFoundError(errno.ENOENT, "No such file", str(path))
                inode = self._names[path] = Inode()
            if truncate:
                inode.current = bytearray()
                inode.unsynced.clear()
            return FakeFile(self, inode, path)

    def names(self, path: Path) -> list[str]:
        return sorted(name.name for name in self._names if name.parent == path)

    def rename(self, old: Path, new: Path) -> None:
        with self.operation("rename", new):
            self._names[new] = self._names.pop(old)

    def remove(self, path: Path) -> None:
        with self.operation("remove", path):
            self._names.pop(path, None)

    def sync_directory(self, path: Path) -> None:
        with self.operation("sync_directory", path):
            for name in list(self._durable_names):
                if name.parent == path:
                    del self._durable_names[name]
            self._durable_names.update({name: inode for name, inode in self._names.items() if name.parent == path})

    def free_bytes(self, path: Path) -> int:
        return self.free()


def _lose(inode: Inode, random: Random) -> None:
    content = bytearray(inode.durable)
    if len(inode.current) > len(content) and random.random() < 0.5:
        content.extend(bytes(len(inode.current) - len(content)))
    for offset, data in inode.unsynced:
        fate = random.choice(("kept", "lost", "torn", "torn"))
        at = 0
        while at < len(data):
            # Sectors of the disk, not of the write.
            stop = min(len(data), at + SECTOR_BYTES - (offset + at) % SECTOR_BYTES)
            if fate == "kept" or (fate == "torn" and random.random() < 0.5):
                put(content, offset + at, data[at:stop])
            at = stop
    inode.current = content
    inode.durable = bytearray(content)
    inode.unsynced = []
