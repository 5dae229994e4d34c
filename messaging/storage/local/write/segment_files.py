"""Creates segment files: preallocates them, and turns them into segments when needed."""

from __future__ import annotations

import errno
from pathlib import Path

from messaging.storage.local.device.disk import Disk, DiskFile
from messaging.storage.local.format.records import seed_of
from messaging.storage.local.format.segment import PAGE_BYTES, Segment, header_page, name_of

PREALLOCATED_PREFIX = "spare-"
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


class NoSpace(Exception):
    """A file could not be allocated, or allocating it would use reserved space."""


class PreallocatedSegment:
    """An allocated file, ready to become a segment. `recycled`: it holds bytes of an earlier segment."""

    def __init__(self, path: Path, size_bytes: int, *, recycled: bool) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.recycled = recycled


def preallocate(disk: Disk, path: Path, size_bytes: int, keep_free_bytes: int) -> PreallocatedSegment:
    """Allocates a file of whole pages, at least `size_bytes`. Raises `NoSpace` if less than `keep_free_bytes` would remain free;
    other `OSError`s pass through."""
    size_bytes += -size_bytes % PAGE_BYTES
    if disk.free_bytes(path.parent) < size_bytes + keep_free_bytes:
        raise NoSpace(f"{path.parent} has no room for {size_bytes} bytes beside {keep_free_bytes} kept free")
    file = disk.open(path, create=True)
    try:
        file.allocate(size_bytes)
    except OSError as error:
        disk.remove(path)
        if error.errno in NO_SPACE:
            raise NoSpace(f"{path.parent}: {error.strerror}") from error
        raise
    finally:
        file.close()
    return PreallocatedSegment(path, size_bytes, recycled=False)


def make_segment(
    disk: Disk, preallocated: PreallocatedSegment, store_id: int, number: int, generation: int = 0
) -> tuple[Segment, DiskFile]:
    """Turns a preallocated file into a segment, durably, before any commit is written to it."""
    path = preallocated.path.with_name(name_of(number, generation))
    file = disk.open(preallocated.path)
    try:
        file.write([header_page(store_id, number, generation, recycled=preallocated.recycled)], 0)
        file.sync()
        disk.rename(preallocated.path, path)
        disk.sync_directory(path.parent)
    except BaseException as error:
        file.close()
        if isinstance(error, OSError) and error.errno in NO_SPACE:  # on a copy-on-write file system
            raise NoSpace(f"{path.parent}: {error.strerror}") from error
        raise
    seed = seed_of(store_id, number, generation)
    return Segment(number, generation, path, seed, preallocated.size_bytes, preallocated.recycled, PAGE_BYTES), file
