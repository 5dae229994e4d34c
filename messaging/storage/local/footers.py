"""Footers of sealed segments, read when asked for and kept while there is room for them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

import msgspec

from messaging.storage.local import digest, records
from messaging.storage.local.digest import Table
from messaging.storage.local.disk import DiskFile
from messaging.storage.local.segment import Segment
from messaging.storage.local.segment_files import OpenFiles

CACHE_BYTES_MAX = 32 << 20


class BadFooter(Exception):
    """The footer of a sealed segment does not match its checksum."""


def read_footer(file: DiskFile, segment: Segment) -> Table:
    """Raises `BadFooter` and `OSError`."""
    data = file.read(segment.footer_bytes, segment.footer_offset)
    record = records.parse(data, 0)
    if record is None or record.type != records.FOOTER or not records.intact(memoryview(data), record, segment.seed):
        raise BadFooter(f"the footer of {segment.path} does not match its checksum")
    try:
        return Table(digest.decode(memoryview(data)[record.data_start : record.stop]))
    except msgspec.DecodeError as error:
        raise BadFooter(f"the footer of {segment.path} cannot be read: {error}") from error


class Footers:
    """For any thread."""

    def __init__(self, files: OpenFiles, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._files = files
        self._bytes_max = bytes_max
        self._bytes = 0
        self._lock = threading.Lock()
        self._tables: OrderedDict[Path, Table] = OrderedDict()

    def forget(self, path: Path) -> None:
        with self._lock:
            table = self._tables.pop(path, None)
            if table is not None:
                self._bytes -= table.size_bytes()

    def get(self, segment: Segment) -> Table:
        """Blocks on the disk if it is not kept. Raises `BadFooter` and `OSError`."""
        with self._lock:
            table = self._tables.get(segment.path)
            if table is not None:
                self._tables.move_to_end(segment.path)
                return table
        with self._files.use(segment.path) as file:
            table = read_footer(file, segment)
        with self._lock:
            if segment.path not in self._tables:
                self._tables[segment.path] = table
                self._bytes += table.size_bytes()
            while self._bytes > self._bytes_max and len(self._tables) > 1:
                self._bytes -= self._tables.popitem(last=False)[1].size_bytes()
        return table
