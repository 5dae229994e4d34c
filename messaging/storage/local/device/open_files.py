"""File descriptors of segments, kept open for reading."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from messaging.storage.local.device.disk import Disk, DiskFile

DESCRIPTORS_A_FILE = 2  # descriptors per file at most: one of them for direct I/O


@dataclass(slots=True)
class _OpenFile:
    file: DiskFile
    users: int = 0


class OpenFiles:
    """An LRU cache of segment files open for reading. Thread-safe."""

    def __init__(self, disk: Disk, descriptors_max: int) -> None:
        self._disk = disk
        self._files_max = max(1, descriptors_max // DESCRIPTORS_A_FILE)
        self._lock = threading.Lock()
        self._files: OrderedDict[Path, _OpenFile] = OrderedDict()

    def is_open(self, path: Path) -> bool:
        """Whether the file is open already, so that `use` does not block."""
        return path in self._files

    @contextmanager
    def use(self, path: Path) -> Iterator[DiskFile]:
        with self._lock:
            opened = self._files.get(path)
            if opened is None:
                opened = self._files[path] = _OpenFile(self._disk.open(path, scattered=True))
            self._files.move_to_end(path)
            opened.users += 1
        try:
            yield opened.file
        finally:
            with self._lock:
                opened.users -= 1
                if self._files.get(path) is not opened:
                    if not opened.users:
                        opened.file.close()  # `forget` was called while the file was in use
                elif len(self._files) > self._files_max:
                    self._close_idle()

    def forget(self, path: Path) -> None:
        """Closes the file as soon as nobody uses it."""
        with self._lock:
            opened = self._files.pop(path, None)
            if opened is not None and not opened.users:
                opened.file.close()

    def close(self) -> None:
        for path in list(self._files):
            self.forget(path)

    def _close_idle(self) -> None:
        for path, opened in list(self._files.items()):
            if len(self._files) <= self._files_max:
                return
            if not opened.users:
                del self._files[path]
                opened.file.close()
