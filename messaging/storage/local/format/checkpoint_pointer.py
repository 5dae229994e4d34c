"""The location of the last checkpoint of each unsealed segment: never synced, and trusted only if a checkpoint is found there.

The file has a few slots, indexed by segment number: when a process is killed, segments before the active one may not be sealed yet.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

from crc32c import crc32c

from messaging.storage.local.device.disk import Disk, DiskFile
from messaging.storage.local.format import records
from messaging.storage.local.format.segment import Segment

NAME = "checkpoint"
SLOTS = 8
_HINT = struct.Struct("<QQQ")
_SLOT_BYTES = 64


class CheckpointPointer:
    def __init__(self, directory: Path, disk: Disk) -> None:
        self._path = directory / NAME
        self._disk = disk
        self._file: DiskFile | None = None

    def note(self, segment: Segment, offset: int) -> None:
        """Failures are ignored: without the pointer, the next start only reads more."""
        with suppress(OSError):
            self._note(segment, offset)

    def _note(self, segment: Segment, offset: int) -> None:
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        place = _HINT.pack(segment.number, segment.generation, offset)
        self._file.write([place + records.CRC.pack(crc32c(place, segment.seed))], _slot(segment))

    def find(self, segment: Segment) -> int:
        """The offset of the commit recorded for `segment`; 0 if there is none or it cannot be read."""
        data = b""
        if NAME in self._disk.names(self._path.parent):
            with suppress(OSError):
                data = self._read(_slot(segment))
        if len(data) < _HINT.size + records.CRC.size:
            return 0
        number, generation, offset = _HINT.unpack_from(data)
        (crc,) = records.CRC.unpack_from(data, _HINT.size)
        if (number, generation) != (segment.number, segment.generation) or crc != crc32c(data[: _HINT.size], segment.seed):
            return 0
        return int(offset)

    def _read(self, offset: int) -> bytes:
        file = self._disk.open(self._path)
        try:
            return file.read(_HINT.size + records.CRC.size, offset)
        finally:
            file.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _slot(segment: Segment) -> int:
    return segment.number % SLOTS * _SLOT_BYTES
