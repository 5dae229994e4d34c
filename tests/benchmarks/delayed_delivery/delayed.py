"""Delayed messages by the million: memory, index, ingest, recovery after `kill -9`, and how late those are that are due at once.

The messages are published below the socket, at the publish call of the broker (`delayed_broker.py`), in blocks of 1,000.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks import processes
from tests.benchmarks.load import Stalled
from tests.benchmarks.report import Figure, Progress, Section, Table, number

COUNTS = (1_000_000, 10_000_000, 100_000_000)
COMPARED = 1_000_000  # messages published with and without a delay
FILL_S, SERVE_S = 3600.0, 600.0
MEMORY_MB, INDEX_BYTES, RECOVERY_S, CPU_PERCENT, TURN_MS, LATE_MS = 256.0, 6.0, 3.0, 15.0, 10.0, 1000.0

Found = dict[str, Any]


class Measured(NamedTuple):
    """Of one number of pending messages."""

    pending: int
    filled: Found
    recovered: Found
    together: Found
    scattered: Found


def run(directory: Path | None, counts: tuple[int, ...], progress: Progress) -> Section:
    measured = []
    for count in counts:
        progress(f"{count:,} delayed messages")
        with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
            measured.append(_measured(Path(made), count))
    compared = []
    for kind in ("plain", "delayed"):
        progress(f"{kind} messages, to compare")
        with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
            compared.append(_ended(Path(made), "fill", min(COMPARED, counts[0]), kind, FILL_S, 1)[0])
    return section(measured, compared[0], compared[1])


def _measured(folder: Path, count: int) -> Measured:
    (filled,) = _ended(folder, "fill", count, "delayed", FILL_S, 1)  # killed as soon as it has told
    recovered, together, scattered = _ended(folder, "serve", count, filled["start_ms"], SERVE_S, 3)
    return Measured(count, filled, recovered, together, scattered)


def _ended(folder: Path, what: str, count: int, last: object, most_s: float, lines: int) -> list[Found]:
    """What a process of `delayed_broker.py` told in so many lines; it is killed then."""
    path = folder / f"{what}.output"
    with path.open("wb") as output:
        command = [
            sys.executable,
            "-m",
            "tests.benchmarks.delayed_delivery.delayed_broker",
            what,
            str(folder),
            str(count),
            str(last),
        ]
        child = processes.start(command, output)
        try:
            deadline = time.monotonic() + most_s
            while len(told := _told(path)) < lines:
                if child.poll() is not None or time.monotonic() > deadline:
                    raise Stalled(f"{what} of {count} ended early: {path.read_text()[-1000:]}")
                time.sleep(0.05)
        finally:
            processes.end(child)
    return told


def _told(path: Path) -> list[Found]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{") and line.endswith("}")]


def section(measured: list[Measured], plain: Found, delayed: Found) -> Section:
    made = Section(
        "Delayed messages",
        "Due at random within two days from tomorrow on, but 100,000 that were published one after another and are due within one "
        "second, and as many that are due within another second and lie at random among the first half of all. Published below the "
        "socket in blocks of 1,000; killed with kill -9; opened again, with a new Shared subscription to all of it, "
        "which is first sent a message that is published then. What of the index was not sealed is read again by it meanwhile. "
        "The clock is set to 50 s before they are due. "
        "Lateness is counted from the delivery time with the clock that delays go by; negative values are early by less than the "
        "tick of a second, as without strict. Turns include those of the load, which publishes 1,000 messages in one.",
    )
    longest = "longest turn, ms"
    filled = Table(("pending", "published a second", "memory over idle, MB", "index, bytes an entry", "runs", longest), [])
    again = Table(("pending", "log open, s", "topic open, s", "first message, s", "memory over an open log, MB", longest), [])
    due = Table(("pending", "due within a second", "p50, ms", "p99, ms", "p99.9, ms", "reads", longest), [])
    for measurement in measured:
        over_mb = measurement.filled["resident_mb"] - measurement.filled["idle_mb"]
        entry = measurement.filled["index_bytes"] / max(1, measurement.filled["indexed"])
        rate, runs = measurement.pending / measurement.filled["seconds"], measurement.filled["runs"]
        turn = measurement.filled["longest_ms"]
        filled.rows.append((f"{measurement.pending:,}", number(rate), number(over_mb), number(entry), str(runs), number(turn)))
        at = measurement.recovered
        times = (number(at[key]) for key in ("open_s", "load_s", "first_s"))
        again.rows.append((f"{measurement.pending:,}", *times, number(at["resident_mb"] - at["log_mb"]), number(at["longest_ms"])))
        for what, late in (("published together", measurement.together), ("scattered", measurement.scattered)):
            times = (number(late[key]) for key in ("p50_ms", "p99_ms", "p999_ms"))
            due.rows.append(
                (
                    f"{measurement.pending:,}",
                    f"{late['received']:,} {what}",
                    *times,
                    f"{late['reads']:,}",
                    number(late["longest_ms"]),
                )
            )
    made.tables += [filled, again, due]
    more = delayed["cpu_us"] - plain["cpu_us"]
    made.tables.append(
        Table(
            ("publishing below the socket", "CPU us a message"),
            [("plain", number(plain["cpu_us"])), ("delayed", number(delayed["cpu_us"])), ("more", number(more))],
        )
    )
    largest = measured[-1]
    name = f"{largest.pending:,} pending"
    figures = (
        ("memory over idle", largest.filled["resident_mb"] - largest.filled["idle_mb"], MEMORY_MB, "MB"),
        ("index, an entry", largest.filled["index_bytes"] / max(1, largest.filled["indexed"]), INDEX_BYTES, "bytes"),
        ("first message after a kill -9, beside opening the log", largest.recovered["first_s"], RECOVERY_S, "s"),
        ("p99 lateness, 100,000 published together", largest.together["p99_ms"], LATE_MS, "ms"),
        ("p99 lateness, 100,000 scattered", largest.scattered["p99_ms"], LATE_MS, "ms"),
        ("longest turn while publishing", largest.filled["longest_ms"], TURN_MS, "ms"),
        ("longest turn while delivering", max(largest.together["longest_ms"], largest.scattered["longest_ms"]), TURN_MS, "ms"),
    )
    made.figures += [Figure(f"{name}: {what}", value, target, unit, at_least=False) for what, value, target, unit in figures]
    percent = 100 * more / plain["cpu_us"]
    made.figures.append(Figure("CPU over a plain publish, below the socket", percent, CPU_PERCENT, "%", at_least=False))
    return made
