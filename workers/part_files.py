"""Files on the disk for the first pass of a compaction (`messaging.broker.core.compaction.last_values`)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from messaging.errors import NotReady

READ_BYTES = 24 * (32 << 10)  # whole records, of 24 or 16 bytes
FREE_BYTES_MIN = 1 << 30  # of the disk: it is the broker's as well


class DiskPart:
    """One part, in a file that is open only while it is used: there are hundreds."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, records: bytes) -> None:
        """Raises `NotReady`: there is little room left on the disk; `OSError`."""
        if shutil.disk_usage(self._path.parent).free < FREE_BYTES_MIN:
            raise NotReady(f"the worker's disk has less than {FREE_BYTES_MIN >> 20} MiB left, which compactions do not use")
        with self._path.open("ab") as file:
            file.write(records)

    def read(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            while records := file.read(READ_BYTES):
                yield records


def fresh_folder(path: Path) -> Path:
    """An empty folder there; what a worker that was killed left in it is gone."""
    forget_folder(path)
    path.mkdir(parents=True)
    return path


def forget_folder(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
