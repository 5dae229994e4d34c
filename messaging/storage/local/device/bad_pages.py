"""Reads around pages that the disk can no longer return: everything between them is served, their own contents are lost.

The bytes of an unreadable page come back as zeros, which match no checksum. If nothing nearby can be read either, the fault is the
disk's, not the page's: this raises an error, and a retry may succeed. A disk that fails for a moment only may look like one with a
bad page, so callers are told: what they miss then counts as lost only if it is still unreadable some time later.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from messaging.storage.local.device.direct import PAGE_BYTES
from messaging.storage.local.device.disk import DiskFile


def read_around(file: DiskFile, size: int, offset: int, unreadable: Callable[[], None] = lambda: None) -> bytes:
    """Like `DiskFile.read`; `unreadable` is called where some of it could not be read. Raises `OSError`."""
    try:
        return file.read(size, offset)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        any_read, data = _by_pages(file, size, offset)
        before, behind = offset // PAGE_BYTES - 1, -(-(offset + size) // PAGE_BYTES)
        if not any_read and not _answers(file, before, behind):
            raise
        unreadable()
        return data


def _by_pages(file: DiskFile, size: int, offset: int) -> tuple[bool, bytes]:
    """Reads page by page. Returns whether any page could be read, and the bytes."""
    parts: list[bytes] = []
    any_read = False
    stop = min(offset + size, file.size())
    while offset < stop:
        length = min(PAGE_BYTES - offset % PAGE_BYTES, stop - offset)
        try:
            parts.append(file.read(length, offset))
            any_read = True
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            parts.append(bytes(length))
        offset += length
    return any_read, b"".join(parts)


def _answers(file: DiskFile, *pages: int) -> bool:
    """Whether any of these pages can be read."""
    for page in pages:
        try:
            if page >= 0 and file.read(PAGE_BYTES, page * PAGE_BYTES):
                return True
        except OSError:
            continue
    return False
