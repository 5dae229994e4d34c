"""Creates segment files: preallocates them, and turns them into segments when needed."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from messaging.storage.local.device.disk import Disk, DiskFile
from messaging.storage.local.format.records import seed_of
from messaging.storage.local.format.segment import PAGE_BYTES, Segment, header_page, name_of

PREALLOCATED_PREFIX = "spare-"
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
# What a new file also needs. Nothing is wrong with the disk, and what is used up may come back.
NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
USED_UP = NO_SPACE | NO_DESCRIPTOR | {errno.ENOMEM}


class NoSpace(Exception):
    """A file could not be made now: the disk has no room or no inode for it, or would use reserved space; the process or the system
    has no descriptor or no memory left. Nothing of the log was changed: try again later."""


@contextmanager
def used_up_is_no_space(directory: Path) -> Iterator[None]:
    """For operations on files that are not part of the log yet: whatever is used up is `NoSpace`. Other `OSError`s pass through."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_DESCRIPTOR:
            raise NoSpace(
                f"no file can be opened in {directory} ({error.strerror}): close connections, or raise the limit of open files "
                "(ulimit -n, LimitNOFILE)"
            ) from error
        if error.errno in NO_SPACE:
            raise NoSpace(f"the disk under {directory} is full, or no inodes are left: free some space") from error
        if error.errno in USED_UP:
            raise NoSpace(f"no file can be made in {directory}: {error.strerror}") from error
        raise


class PreallocatedSegment:
    """An allocated file, ready to become a segment. `recycled`: it holds bytes of an earlier segment."""

    def __init__(self, path: Path, size_bytes: int, *, recycled: bool) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.recycled = recycled


def preallocate(disk: Disk, path: Path, size_bytes: int, keep_free_bytes: int) -> PreallocatedSegment:
    """Allocates a file of whole pages, at least `size_bytes`. Raises `NoSpace`, also if less than `keep_free_bytes` would remain
    free; other `OSError`s pass through."""
    size_bytes += -size_bytes % PAGE_BYTES
    with used_up_is_no_space(path.parent):
        if disk.free_bytes(path.parent) < size_bytes + keep_free_bytes:
            kept = f"beside {keep_free_bytes} that are kept free"
            raise NoSpace(f"the disk under {path.parent} is full: it has no room for {size_bytes} bytes {kept}; free some space")
        file = disk.open(path, create=True)
        try:
            file.allocate(size_bytes)
        except OSError:
            with suppress(OSError):  # the next start removes it
                disk.remove(path)
            raise
        finally:
            file.close()
    return PreallocatedSegment(path, size_bytes, recycled=False)


def make_segment(
    disk: Disk, preallocated: PreallocatedSegment, store_id: int, number: int, generation: int = 0
) -> tuple[Segment, DiskFile]:
    """Turns a preallocated file into a segment, durably, before any commit is written to it. Raises `NoSpace`, after which it is a
    preallocated file as before; other `OSError`s pass through."""
    path = preallocated.path.with_name(name_of(number, generation))
    with used_up_is_no_space(path.parent):
        file = disk.open(preallocated.path)
        renamed = False
        try:
            file.write([header_page(store_id, number, generation, recycled=preallocated.recycled)], 0)
            file.sync()
            disk.rename(preallocated.path, path)
            renamed = True
            disk.sync_directory(path.parent)
        except BaseException:
            file.close()
            if renamed:
                try:
                    disk.rename(path, preallocated.path)
                except OSError:  # it stays where it is, to become that segment later
                    preallocated.path = path
            raise
    seed = seed_of(store_id, number, generation)
    return Segment(number, generation, path, seed, preallocated.size_bytes, preallocated.recycled, PAGE_BYTES), file
