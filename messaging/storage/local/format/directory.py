"""The directory of a log: who owns it, which format it has, how often it was opened.

lock        flock, exclusive, while a store has the directory open
format      JSON: {"format": 2, "store_id": "<16 hex digits>"}, written once
epoch       JSON: {"epoch": n}, raised and synced at each start: the fence
manifest    which segments there are, and which metadata belongs to them (see `manifest.py`)
segment-*   the log; spare-*: preallocated files; set-aside/: bytes cut off a torn tail
checkpoint  offsets of the last checkpoints (see `checkpoint_pointer.py`); may be deleted
index       a snapshot of what the footers contain (see `snapshot/snapshot.py`); may be deleted
"""

from __future__ import annotations

import errno
import json
import secrets
from pathlib import Path

from messaging.storage.ledger_store import StoreError, Unavailable
from messaging.storage.local.device.disk import DirectoryLock, Disk, read_file, replace_file

FORMAT_VERSION = 2
REPAIR = "`magnetar log repair` makes it anew from the segments"


class DirectoryInUse(StoreError):
    """Another process has the log open."""


class UnknownFormat(Unavailable):
    """The log was written by another release, which is no damage."""

    retryable = False


def lock(disk: Disk, directory: Path) -> DirectoryLock:
    """Raises `DirectoryInUse` and `Unavailable`."""
    try:
        disk.make_directory(directory)
        return disk.lock(directory / "lock")
    except BlockingIOError:
        raise DirectoryInUse(
            f"the log directory {directory} is in use by another process: stop that one, or use another directory"
        ) from None
    except OSError as error:
        raise Unavailable(f"the log directory {directory} cannot be opened: {error}") from error


def read_store_id(disk: Disk, directory: Path) -> int | None:
    """The id of the store in this directory; None if it has none yet. Raises `UnknownFormat` and `Unavailable`."""
    if "format" not in disk.names(directory):
        return None
    try:
        content = json.loads(read_file(disk, directory / "format"))
        version, store_id = content["format"], int(content["store_id"], 16)
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable(f"{directory / 'format'} cannot be read: {error!r}; {REPAIR}") from None
    if version != FORMAT_VERSION:
        raise UnknownFormat(
            f"the log in {directory} has format {version}; this release reads version {FORMAT_VERSION}: "
            "use the release that wrote it"
        )
    return store_id


def claim(disk: Disk, directory: Path) -> tuple[int, int]:
    """Returns (store id, epoch) for a new owner, which must hold the lock. Raises `Unavailable`, `UnknownFormat` and `OSError`."""
    store_id = read_store_id(disk, directory)
    names = disk.names(directory)
    if any(name.startswith("segment-") for name in names):
        # An epoch that was used before would make new commits look like older ones: they would be cut off as a torn tail.
        for name in ("format", "epoch"):
            if name not in names:
                raise Unavailable(f"{directory} holds segments but no file named {name}: restore it from a backup, or {REPAIR}")
    if store_id is None:
        store_id = secrets.randbits(63)
        content = {"format": FORMAT_VERSION, "store_id": f"{store_id:016x}"}
        replace_file(disk, directory / "format", json.dumps(content).encode())
    epoch = read_epoch(disk, directory) + 1
    _write_epoch(disk, directory, epoch)
    return store_id, epoch


def _write_epoch(disk: Disk, directory: Path, epoch: int) -> None:
    content = json.dumps({"epoch": epoch}).encode()
    write_whole(disk, directory / "epoch", content, content)


def write_whole(disk: Disk, path: Path, content: bytes, short: bytes) -> None:
    """Replaces a file of JSON. On a full disk, writes `short` in place, which must fit one sector: the disk writes that
    atomically. Raises `OSError`."""
    try:
        replace_file(disk, path, content)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or path.name not in disk.names(path.parent):
            raise
        file = disk.open(path)
        try:
            file.write([short.ljust(max(len(short), file.size()))], 0)
            file.sync()
        finally:
            file.close()


def read_epoch(disk: Disk, directory: Path) -> int:
    if "epoch" not in disk.names(directory):
        return 0
    try:
        return int(json.loads(read_file(disk, directory / "epoch"))["epoch"])
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable(f"{directory / 'epoch'} cannot be read: {error!r}; {REPAIR}") from None
