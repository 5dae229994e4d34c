"""A process forked before anything else that ends the children when the supervisor was killed and could not do it itself.

It shares the supervisor's memory pages, so it costs next to nothing. It reads a pipe whose other end only the supervisor holds:
``+<group>`` when a child was spawned, ``-<group>`` when it is gone, and end of file when the supervisor is. Then every group that
is left gets SIGTERM, and SIGKILL after a while; the data directory's lock, which the watchdog inherited, is held until then.
On Linux the children also ask the kernel for SIGTERM on the death of their parent (`process.py`), so there the
watchdog is the second safety net for them, and the first for processes that the children started.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

GRACE_S = 6.0


class Watchdog:
    """The supervisor's end."""

    def __init__(self, descriptor: int, pid: int) -> None:
        self._descriptor = descriptor
        self.pid = pid

    def spawned(self, group: int) -> None:
        self._tell(b"+%d\n" % group)

    def gone(self, group: int) -> None:
        self._tell(b"-%d\n" % group)

    def release(self) -> None:
        """The children are stopped: the watchdog ends."""
        os.close(self._descriptor)
        os.waitpid(self.pid, 0)

    def _tell(self, line: bytes) -> None:
        try:
            os.write(self._descriptor, line)
        except BrokenPipeError:
            pass  # somebody killed the watchdog; the kernel's signal on parent death is left


def start(leftovers: Sequence[Path] = ()) -> Watchdog:
    """Forks the watchdog; `leftovers` are files it removes in the supervisor's stead.

    Call it before starting threads or opening what it should not hold.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        try:
            _keep(reader, leftovers)
        finally:
            os._exit(0)
    os.close(reader)
    return Watchdog(writer, pid)


def _keep(reader: int, leftovers: Sequence[Path]) -> None:
    os.setsid()  # a Ctrl-C in the terminal is not for it
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    rest = b""
    while data := os.read(reader, 4096):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            group = int(line[1:])
            if line[:1] == b"+":
                groups.add(group)
            else:
                groups.discard(group)
    end_groups(groups, GRACE_S, time.monotonic, time.sleep)
    for path in leftovers:
        path.unlink(missing_ok=True)


def end_groups(groups: set[int], grace_s: float, clock: Callable[[], float], pause: Callable[[float], None]) -> None:
    """SIGTERM to every process group, SIGKILL to those left after `grace_s`. Blocks until they are gone or were killed."""
    left = {group for group in groups if _signal_group(group, signal.SIGTERM)}
    deadline_s = clock() + grace_s
    while (left := left & living_groups()) and clock() < deadline_s:
        pause(0.05)
    for group in left:
        _signal_group(group, signal.SIGKILL)


def living_groups() -> set[int]:
    """Process groups with a member that is not a zombie: where nobody reaps orphans, as in many containers, zombies stay."""
    groups: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = entry.read_bytes().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            groups.add(int(group))
    return groups


def _signal_group(group: int, number: int) -> bool:
    """Whether there was anybody to signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
