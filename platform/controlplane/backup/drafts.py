"""A backup that is being taken: a directory with a name of its own until it is whole, and whoever takes it holds a lock in it.

One that was killed leaves its directory, as large as a backup; the next one that is taken to the same place removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from messaging.atomic_files import make_directory

UNFINISHED = "unfinished-"
_BEGINNING = ".beginning-"
_LOCK = "taking"


class Draft:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def become(self, final: Path) -> None:
        """All of it is written. Raises `OSError`."""
        self.folder.rename(final)
        (final / _LOCK).unlink()


@contextmanager
def new_draft(target: Path, backup_id: str) -> Iterator[Draft]:
    """A directory below `target`, which is there. After an error nothing of it is left. Raises `OSError`."""
    beginning, folder = target / f"{_BEGINNING}{backup_id}", target / f"{UNFINISHED}{backup_id}"
    make_directory(beginning, mode=0o700)
    descriptor = os.open(beginning / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        beginning.rename(folder)  # whoever sees this name finds the lock held
        yield Draft(folder)
    except BaseException:
        for remains in (beginning, folder):
            shutil.rmtree(remains, ignore_errors=True)
        raise
    finally:
        os.close(descriptor)


def remove_abandoned(target: Path) -> list[Path]:
    """Directories below `target` of backups that were killed, which are gone then. What another process is writing stays."""
    removed: list[Path] = []
    for folder in sorted(target.glob(f"{UNFINISHED}*")):
        with suppress(OSError):  # of somebody else, or gone meanwhile
            descriptor = os.open(folder / _LOCK, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
                removed.append(folder)
            finally:
                os.close(descriptor)
    return removed
