"""The usage files of a machine, as workers of other machines take them. Blocks on the disk: call it outside the event loop."""

from __future__ import annotations

import os
import re
from pathlib import Path

from messaging.adminrpc.usage import UsageFile, UsageFileList, UsageFilePiece, UsageFilesPage
from messaging.errors import InvalidName, NotFound

PAGE_FILES = 5_000
PIECE_BYTES = 1 << 20
_FOLDER = re.compile(r"boots|date=\d{4}-\d\d-\d\d/hour=\d\d", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(json|parquet)", re.ASCII)


def list_files(root: Path, request: UsageFileList) -> UsageFilesPage:
    """Raises `InvalidName`."""
    if not request.usage_folder:
        folders = [path.relative_to(root).as_posix() for path in (root / "boots", *root.glob("date=*/hour=*")) if path.is_dir()]
        return UsageFilesPage(folders=sorted(filter(_FOLDER.fullmatch, folders)), files=[], more=False)
    folder = _folder(root, request.usage_folder)
    names = sorted(name for name in _names(folder) if name > request.after_file)
    files = []
    for name in names[:PAGE_FILES]:
        try:
            files.append(UsageFile(name=name, size_bytes=(folder / name).stat().st_size))
        except OSError:
            continue  # it became part of another one
    return UsageFilesPage(folders=[], files=files, more=len(names) > PAGE_FILES)


def read_piece(root: Path, folder: str, name: str, offset: int) -> UsageFilePiece:
    """Raises `InvalidName`, `NotFound`."""
    if not _NAME.fullmatch(name):
        raise InvalidName(f"{name[:80]!r} is not the name of a usage file")
    try:
        with (_folder(root, folder) / name).open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            file.seek(offset)
            return UsageFilePiece(data=file.read(PIECE_BYTES), size_bytes=size_bytes)
    except FileNotFoundError:
        raise NotFound(f"usage file {folder}/{name} is not there: list the folder again") from None


def _folder(root: Path, name: str) -> Path:
    if not _FOLDER.fullmatch(name):
        raise InvalidName(f"{name[:80]!r} is no folder of usage files: it is boots, or like date=2026-11-27/hour=08")
    return root / name


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except FileNotFoundError:
        return []
