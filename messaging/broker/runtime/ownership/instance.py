"""Which process a session belongs to: a random name beside the data of a broker, which one process at a time may open.

Where all brokers store in the same place, a broker that was killed leaves a session that lives on for seconds. If the session has
the name that lies in this broker's folder, which is locked, the former process is gone and the session may be replaced at once.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from functools import cache
from pathlib import Path

from messaging.settings import ConfigError
from messaging.storage.ownership import INSTANCE, MACHINE

FILE = "instance"
_NAME_BYTES = 16


class Instance:
    """Holds the lock until `close`. Raises `ConfigError` if another process has it, `OSError`."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.name = os.pread(self._file, 2 * _NAME_BYTES, 0).decode("ascii", "replace")
            if len(self.name) != 2 * _NAME_BYTES:
                self.name = secrets.token_hex(_NAME_BYTES)
                os.pwrite(self._file, self.name.encode(), 0)
        except BlockingIOError:
            self.close()
            raise ConfigError(
                f"another broker runs with the folder {folder}: stop it, or give this one a data_dir of its own"
            ) from None
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> dict[str, str]:
        """What a session of this process has among its addresses from the first moment to the last."""
        return {INSTANCE: self.name, MACHINE: machine()}

    def close(self) -> None:
        os.close(self._file)


@cache
def machine() -> str:
    """The same for all processes that have the same loopback addresses. "": that is not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/net').stat().st_ino}"
    except OSError:
        return ""
