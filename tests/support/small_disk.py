"""A real file system of a few MiB that a test fills up and empties; where it may not be mounted the test is skipped."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STEP_BYTES = 1 << 20


class NotPermitted(Exception):
    """This process may not mount a file system."""


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def free_bytes(self) -> int:
        state = os.statvfs(self.path)
        return state.f_bavail * state.f_frsize

    def fill(self) -> None:
        """To the last byte."""
        size = STEP_BYTES
        with self._ballast.open("ab", buffering=0) as file:
            while size >= 1:
                try:
                    if file.write(b"\1" * size) < size:
                        size //= 2
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Mounted at `path`. Raises `NotPermitted`."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=700", "tmpfs", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotPermitted(str(error)) from error
    if done.returncode:
        raise NotPermitted(done.stderr.strip())
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
