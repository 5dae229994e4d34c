"""Disk space kept in a file, given back bit by bit once the disk is full: what must be written then still can be.

Without it a full disk would stop everything that writes a row: opening a topic after a crash, a new subscription, a checkpoint of
the cursors. The file holds nothing. It is made whole again when there is space.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

from messaging.atomic_files import replace_file
from messaging.settings import Settings

SLICE_BYTES = 1 << 20
LOW_BYTES = 256 << 10  # more than a transaction of ours writes
MARGIN_BYTES = 4 << 20  # left to others when the reserve is made whole: it must not fill the disk itself
FILL_S = 5.0  # between two tries of `fill_at_times`
METADATA_BYTES_MAX = 16 << 20  # thousands of subscriptions, or all that a running broker writes in hours
DATABASE_BYTES_MAX = 8 << 20  # sessions, audit records and outbox rows of days
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskReserve:
    """For any thread. `size_bytes` 0: nothing is kept. Never raises: what the disk does to it only makes it smaller."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._lock = threading.Lock()
        self._held_bytes = 0
        self._fill_at_s = 0.0

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    @property
    def whole(self) -> bool:
        return self._held_bytes >= self.size_bytes

    @property
    def disk_full(self) -> bool:
        """Whether a slice would help whoever was refused something."""
        return self._free_bytes() < SLICE_BYTES

    def why_not_whole(self) -> str:
        """For people: what is missing and what follows. Empty if nothing is, as the file on the disk says."""
        try:
            kept_bytes = self.path.stat().st_size
        except OSError:
            kept_bytes = 0
        if kept_bytes >= self.size_bytes:
            return ""
        return (
            f"{self.size_bytes - kept_bytes} of the {self.size_bytes} bytes in {self.path} are missing: the disk is full, or was "
            f"when they were wanted ({self._free_bytes()} bytes are free now). Without them a full disk stops more than producers: "
            f"new subscriptions, changes of policies, sign-in and revoked keys cannot be saved"
        )

    def fill(self) -> bool:
        """Makes it whole, if that leaves enough to others. Whether it is whole."""
        if self.whole:
            return True
        with self._lock:
            try:
                self._fill()
            except OSError:
                pass  # as much as there is; the next time more
        return self.whole

    def _fill(self) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._held_bytes = kept_bytes = min(os.fstat(descriptor).st_size, self.size_bytes)
            state = os.fstatvfs(descriptor)
            if kept_bytes < self.size_bytes and state.f_bavail * state.f_frsize >= self.size_bytes - kept_bytes + MARGIN_BYTES:
                os.posix_fallocate(descriptor, 0, self.size_bytes)
                self._held_bytes = self.size_bytes
        finally:
            os.close(descriptor)

    def release(self) -> bool:
        """Gives a slice back to the disk. False: there is nothing left to give."""
        with self._lock:
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                return False
            try:
                kept_bytes = os.fstat(descriptor).st_size
                self._held_bytes = max(0, kept_bytes - SLICE_BYTES)
                os.ftruncate(descriptor, self._held_bytes)
            except OSError:
                return False
            finally:
                os.close(descriptor)
            return kept_bytes > 0

    def make_room(self) -> None:
        """For who cannot try again: before something is written, gives a slice back where there is next to no space; where there is
        some, makes the reserve whole, now and then. A slice that nobody needs yet others would take."""
        if self.size_bytes and self._free_bytes() < LOW_BYTES:
            self.release()
        else:
            self.fill_at_times()

    def fill_at_times(self) -> None:
        """`fill`, but not at every call."""
        if not self.whole and (now_s := time.monotonic()) >= self._fill_at_s:
            self._fill_at_s = now_s + FILL_S
            self.fill()

    def _free_bytes(self) -> int:
        try:
            state = os.statvfs(self.path.parent)
        except OSError:
            return SLICE_BYTES
        return state.f_bavail * state.f_frsize

    def write_file(self, path: Path, content: bytes) -> None:
        """Puts `content` in place of the file, wholly or not at all, with space of its own if need be. Raises `OSError`."""
        while True:
            try:
                replace_file(path, content, durable=False)
                return
            except OSError as error:
                if error.errno not in NO_SPACE or not self.release():
                    raise


NO_RESERVE = DiskReserve(Path(os.devnull), 0)


def of_broker(settings: Settings) -> DiskReserve:
    """For the metadata and the feed of a broker: a part of what is kept of the disk."""
    return DiskReserve(settings.broker_path / "meta.reserve", min(METADATA_BYTES_MAX, settings.reserved_bytes // 4))


def of_database(path: Path, settings: Settings) -> DiskReserve:
    """For the control plane's own database."""
    return DiskReserve(path.with_suffix(".reserve"), min(DATABASE_BYTES_MAX, settings.reserved_bytes // 8))
