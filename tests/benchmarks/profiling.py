"""Where a broker's time goes under one load: functions of C and of the kernel by `perf`, those of Python by its own profiler."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.benchmarks import processes
from tests.benchmarks.generator import Generator
from tests.benchmarks.real_broker import RealBroker

_RAMP_S = 1.0  # of the load, before anything counts
_LINES = 28
_ANSWER_S = 10.0


Load = Callable[[RealBroker, float], object]  # puts the load on the broker for so many seconds, and blocks as long


def profiles(generator: Generator, folder: Path, name: str, load: tuple[str, ...], seconds: float = 3.0) -> list[tuple[str, str]]:
    """As `profiles_under`, of a load of the generator."""

    def run(broker: RealBroker, duration_s: float) -> None:
        topic = "persistent://public/default/profiled"
        generator.run(broker.address, broker.process.pid, topic, *load, "-dur", f"{duration_s:.2f}s")

    return profiles_under(folder, name, run, seconds)


def profiles_under(folder: Path, name: str, load: Load, seconds: float = 3.0) -> list[tuple[str, str]]:
    """(title, text) of each profile that this machine allows, of a broker of its own under `load`. Raises what that raises."""
    with tempfile.TemporaryDirectory(dir=folder) as made, ThreadPoolExecutor(1) as thread:
        table = Path(made) / "functions.txt"
        broker = RealBroker(Path(made), "--profile", table)
        try:

            def under(look: Callable[[], str]) -> str:
                running = thread.submit(load, broker, seconds + 2 * _RAMP_S)
                try:
                    time.sleep(_RAMP_S)
                    return look()
                finally:
                    running.result()

            native = under(lambda: _perf(broker, Path(made) / "perf.data", seconds))
            python = under(lambda: _functions(broker, table, seconds))
        finally:
            broker.close()
    return [(f"{name}: by perf", native), (f"{name}: by Python's profiler, which itself takes time", python)]


def _perf(broker: RealBroker, data: Path, seconds: float) -> str:
    program = shutil.which("perf")
    if program is None:
        return "perf is not installed here"
    record = [program, "record", "-q", "-F", "997", "-p", str(broker.process.pid), "-o", str(data), "--", "sleep", str(seconds)]
    with tempfile.TemporaryFile() as said:
        child = processes.start(record, said)
        try:
            child.wait(seconds + _ANSWER_S)
        finally:
            processes.end(child)
        if child.returncode:
            said.seek(0)
            return f"perf could not look: {said.read().decode(errors='replace')[-300:]}"
    return "\n".join(
        [
            "by thread and library",
            *_report(program, data, "pid,dso", 2),
            "",
            "by function",
            *_report(program, data, "dso,symbol", 0.5),
        ]
    )


def _report(program: str, data: Path, keys: str, percent_min: float) -> list[str]:
    command = [program, "report", "--stdio", "-q", "-i", str(data), "--sort", keys, "--percent-limit", str(percent_min)]
    text = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    # Some versions add columns for what only hardware counters would know.
    return [re.sub(r"(\s+-)+$", "", line.rstrip()) for line in text.splitlines() if line.strip()][:_LINES]


def _functions(broker: RealBroker, table: Path, seconds: float) -> str:
    os.kill(broker.process.pid, signal.SIGUSR2)
    time.sleep(seconds)
    os.kill(broker.process.pid, signal.SIGUSR2)
    deadline = time.monotonic() + _ANSWER_S
    while not table.exists():
        if time.monotonic() > deadline:
            return "the broker wrote no profile"
        time.sleep(0.02)
    return table.read_text()
