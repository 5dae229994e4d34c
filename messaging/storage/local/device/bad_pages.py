"""Reading around pages that the disk cannot give any more: what stands between them is served, what stood in them is damage.

Bytes of such a page come back as zeros, which match no checksum. Where nothing near can be read either it is not the page but the
disk that does not answer: that is an error, and may pass.
"""

from __future__ import annotations

import errno

from messaging.storage.local.device.disk import DiskFile
from messaging.storage.local.format.segment import PAGE_BYTES


def read_around(file: DiskFile, size: int, offset: int) -> bytes:
    """As `DiskFile.read`. Raises `OSError`."""
    try:
        return file.read(size, offset)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        found, data = _by_pages(file, size, offset)
        before, behind = offset // PAGE_BYTES - 1, -(-(offset + size) // PAGE_BYTES)
        if not found and not _answers(file, before, behind):
            raise
        return data


def _by_pages(file: DiskFile, size: int, offset: int) -> tuple[bool, bytes]:
    """Whether any page could be read, and what was read."""
    parts: list[bytes] = []
    found = False
    stop = min(offset + size, file.size())
    while offset < stop:
        length = min(PAGE_BYTES - offset % PAGE_BYTES, stop - offset)
        try:
            parts.append(file.read(length, offset))
            found = True
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            parts.append(bytes(length))
        offset += length
    return found, b"".join(parts)


def _answers(file: DiskFile, *pages: int) -> bool:
    """Whether one of these can be read."""
    for page in pages:
        try:
            if page >= 0 and file.read(PAGE_BYTES, page * PAGE_BYTES):
                return True
        except OSError:
            continue
    return False
