"""Files that are copied with their checksums, private to their owner, durable, and without filling the page cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from io import BufferedWriter
from pathlib import Path

from controlplane.backup.manifest import READ_BYTES, CopiedFile
from messaging.atomic_files import make_directory
from messaging.settings import ConfigError

FILE_MODE, FOLDER_MODE = 0o600, 0o700
_ZEROS = bytes(READ_BYTES)


class Copies:
    """What was copied so far into a new directory. Every call blocks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[CopiedFile] = []
        self._folders: set[Path] = set()
        self._make_folder(folder)

    def copy(
        self,
        source: Path,
        name: str,
        *,
        stop: int | None = None,
        size: int | None = None,
        first_page: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """The first `stop` bytes of a file; the copy has `size` bytes, the others zero. `first_page` changes the first 4096.
        Raises `ConfigError` if the source is shorter."""
        path = self._place(name)
        digest, at = hashlib.sha256(), 0
        with source.open("rb", buffering=0) as reading, _created(path) as writing:
            length = os.fstat(reading.fileno()).st_size
            stop = length if stop is None else stop
            while at < stop and (chunk := reading.read(min(READ_BYTES, stop - at))):
                if at == 0 and first_page is not None:
                    chunk = first_page(chunk[:4096]) + chunk[4096:]
                digest.update(chunk)
                if chunk != _ZEROS[: len(chunk)]:  # a hole takes no space
                    os.pwrite(writing.fileno(), chunk, at)
                at += len(chunk)
            if at < stop:
                raise ConfigError(f"{source} ends at byte {at}, but had {stop} bytes when the backup began: try again")
            size = max(stop, length if size is None else size)
            os.ftruncate(writing.fileno(), size)
            os.fsync(writing.fileno())
            for file in (reading, writing):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.files.append(CopiedFile(name, stop, size, digest.hexdigest()))

    def write(self, name: str, content: bytes) -> None:
        path = self._place(name)
        with _created(path) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.files.append(CopiedFile(name, len(content), len(content), hashlib.sha256(content).hexdigest()))

    def copy_tree(self, source: Path, name: str, passed_over: Callable[[Path], bool] = lambda path: False) -> None:
        """All files below `source`, if it exists; links are passed over, and what is removed meanwhile."""
        if not source.is_dir():
            return
        for path in sorted(source.rglob("*")):
            if path.is_symlink() or not path.is_file() or passed_over(path):
                continue
            try:
                self.copy(path, f"{name}/{path.relative_to(source)}")
            except FileNotFoundError:
                continue

    def made(self, name: str) -> Path:
        """The path of a file that somebody else writes; call `finished` after it."""
        return self._place(name)

    def growing(self, name: str) -> GrowingFile:
        """A file that is written piece by piece, in any thread."""
        return GrowingFile(self._place(name), name, self.files)

    def finished(self, name: str) -> None:
        path = self.folder / name
        digest = hashlib.sha256()
        with path.open("rb", buffering=0) as file:
            os.fchmod(file.fileno(), FILE_MODE)
            while chunk := file.read(READ_BYTES):
                digest.update(chunk)
            os.fsync(file.fileno())
        size = path.stat().st_size
        self.files.append(CopiedFile(name, size, size, digest.hexdigest()))

    def sync_folders(self) -> None:
        for folder in self._folders:
            sync_folder(folder)

    def _place(self, name: str) -> Path:
        path = self.folder / name
        self._make_folder(path.parent)
        return path

    def _make_folder(self, folder: Path) -> None:
        if folder not in self._folders:
            make_directory(folder, mode=FOLDER_MODE)
            self._folders.add(folder)
            self._folders.update(parent for parent in folder.parents if parent.is_relative_to(self.folder))


class GrowingFile:
    """Part of the copies when it is finished. Calls block, raise `OSError`, and come one after the other."""

    def __init__(self, path: Path, name: str, files: list[CopiedFile]) -> None:
        self._name = name
        self._files = files
        self._file = _created(path)
        self._digest = hashlib.sha256()
        self._bytes = 0

    def write(self, parts: Sequence[bytes]) -> None:
        for part in parts:
            self._file.write(part)
            self._digest.update(part)
            self._bytes += len(part)

    def finish(self) -> None:
        with self._file as file:
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self._files.append(CopiedFile(self._name, self._bytes, self._bytes, self._digest.hexdigest()))

    def abandon(self) -> None:
        """It is no part of the copies. Raises nothing."""
        self._file.raw.close()  # what is buffered is for nobody


def put_back(folder: Path, files: Iterable[CopiedFile], target: Path) -> None:
    """Copies files of a backup to `target`, checking them again. Raises `ConfigError`."""
    copies = Copies(target)
    for file in files:
        copies.copy(folder / file.path, file.path, stop=file.bytes, size=file.size)
        if copies.files[-1].sha256 != file.sha256:
            raise ConfigError(f"{folder / file.path} changed while it was read: its checksum is another one now")
    copies.sync_folders()


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _created(path: Path) -> BufferedWriter:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE), "wb")
