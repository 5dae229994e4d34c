"""Ensures one supervisor per data directory by an exclusive `flock` on DATA_DIR/lock, which contains the holder's process id.

The supervisor shares the lock with its watchdog. If the supervisor is killed, the watchdog keeps the lock until the children have
ended. A new start then finds a dead process id and waits, instead of finding the ports in use.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

CLEAN_UP_S = 12.0  # longer than the watchdog takes to end the children of a killed supervisor


class AlreadyRunning(Exception):
    """`pid` is 0 where it is not known."""

    def __init__(self, data_dir: str, pid: int) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            f"the data directory {data_dir} is in use by {holder}: stop it first, "
            "or start a second one with --data-dir and ports of its own"
        )
        self.pid = pid


def acquire(data_dir: str, wait_s: float = CLEAN_UP_S) -> int:
    """The descriptor that holds the lock until it is closed, or `AlreadyRunning`.

    Blocks only while the children of a killed supervisor end.
    """
    descriptor = os.open(Path(data_dir, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = holder(descriptor)
            if (pid and alive(pid)) or time.monotonic() > deadline_s:
                os.close(descriptor)
                raise AlreadyRunning(data_dir, pid) from None
            time.sleep(0.02)
            continue
        record(descriptor)
        return descriptor


def record(descriptor: int) -> None:
    """Writes this process's id into the lock file. On a full disk nobody learns it; the lock holds all the same."""
    text = f"{os.getpid()}\n".encode()
    with suppress(OSError):
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))


def holder(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else 0


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return True
