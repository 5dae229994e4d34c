"""Child processes of a benchmark: each in a group of its own, and none outlives the benchmark, however it ends."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
children: set[subprocess.Popen[bytes]] = set()
received_signals: list[int] = []  # signals that ended the benchmark


class Cost(NamedTuple):
    """CPU seconds (user and system) since the process began; bytes resident now and at most."""

    cpu_s: float
    resident_bytes: int
    resident_bytes_max: int


def start(
    command: Sequence[str | Path], output: IO[bytes] | int, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """`command` in a process group of its own, both of its streams into `output`. Raises `Interrupted` once the benchmark is."""
    stop_if_interrupted()
    child = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    children.add(child)
    return child


def end(child: subprocess.Popen[bytes], patience_s: float = 0.0) -> None:
    """Asks the group to end and waits so long, then kills it. Blocks until the child is gone; may be called again."""
    if child.poll() is None and patience_s:
        _signal(child, signal.SIGCONT)
        _signal(child, signal.SIGTERM)
        try:
            child.wait(patience_s)
        except subprocess.TimeoutExpired:
            pass
    _signal(child, signal.SIGKILL)  # also what the child may have left behind in its group
    child.wait()
    children.discard(child)


def pause(child: subprocess.Popen[bytes]) -> None:
    """Takes the processor from the group until `resume`."""
    _signal(child, signal.SIGSTOP)


def resume(child: subprocess.Popen[bytes]) -> None:
    _signal(child, signal.SIGCONT)


def cost(process_id: int) -> Cost:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    sizes = {}
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "VmHWM"):
            sizes[name] = int(value.split()[0]) * 1024
    return Cost((int(fields[11]) + int(fields[12])) / _TICKS_PER_S, sizes["VmRSS"], sizes["VmHWM"])


class Interrupted(SystemExit):
    """Somebody ended the benchmark: nothing of it goes on."""


def end_with_us() -> None:
    """From here on Ctrl-C, SIGTERM and SIGHUP kill all children, then end the benchmark through its `finally` clauses."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)


@atexit.register
def end_all() -> None:
    for child in list(children):
        end(child)


def stop_if_interrupted() -> None:
    """A `finally` clause may have put another error, such as that of a killed child, in the place of the interruption."""
    if received_signals:
        raise Interrupted(128 + received_signals[0])


def _leave(number: int, frame: FrameType | None) -> None:
    received_signals.append(number)
    # Only kills: whoever was interrupted may be waiting for one of them, and `finally` clauses collect the rest.
    for child in list(children):
        _signal(child, signal.SIGKILL)
    for process_id in _others():
        os.kill(process_id, signal.SIGKILL)
    raise Interrupted(128 + number)


def _others() -> list[int]:
    """Our children that were not started here."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):  # it ended meanwhile
            continue
        if parent == os.getpid():
            pids.append(int(path.parent.name))
    return pids


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass
