"""Files that are replaced as a whole: whoever reads one finds the old content or the new one, never a part.

The log in `messaging/storage/local` does the same through its own `Disk`, and `spark_jobs` for itself, as it is shipped alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DRAFT_SUFFIX = ".new"


@contextmanager
def replacing(path: Path, *, durable: bool) -> Iterator[Path]:
    """Gives the path to write the new content to; in the end that file takes the place of `path`. After an error `path` is
    unchanged and nothing is left beside it. `durable`: the new content survives a power loss, once this has ended. One writer at a
    time."""
    draft = path.with_name(path.name + DRAFT_SUFFIX)
    try:
        yield draft
        if durable:
            _sync(draft, os.O_RDONLY)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    if durable:
        _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def replace_file(path: Path, content: bytes, *, durable: bool, mode: int | None = None) -> None:
    """Puts `content` in place of the file. `mode`: its permissions, whatever the process's umask says. Raises `OSError`."""
    with replacing(path, durable=durable) as draft:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666 if mode is None else mode)
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)  # a draft that a crash left may have others
            file.write(content)


def take_file(path: Path) -> bytes:
    """What is in the file, which is not there any more, also after a power loss. Raises `OSError`."""
    content = path.read_bytes()
    path.unlink()
    _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    return content


def make_directory(path: Path, *, mode: int = 0o777) -> None:
    """Makes a directory and its missing parents, and their names durable: what is in a directory is lost with its name. Raises
    `OSError`."""
    missing: list[Path] = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(mode=mode, exist_ok=True)
        _sync(folder.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
