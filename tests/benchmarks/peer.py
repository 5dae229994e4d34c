"""Magnetar beside a peer, through the socket, in one run: the same load on each in turn, never on both at once.

Three brokers run: ours compiled, ours in plain Python, and the peer; while one is under load the others are paused. Every row goes
around all three several times and the medians count, because machines like this swing. All are warm before the first row.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.benchmarks import processes
from tests.benchmarks.generator import Generator, Loaded
from tests.benchmarks.load import Stalled
from tests.benchmarks.peer_process import PeerBroker
from tests.benchmarks.peer_report import COMPILED, OURS, PEER, PLAIN, ROWS, Measured, Row, ratio, section
from tests.benchmarks.processes import Cost
from tests.benchmarks.profiling import profiles
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Progress, Section

_QUIET_CORES = 0.1
_QUIET_MAX_S = 6.0
_LOOK_S = 0.25


class Plan(NamedTuple):
    """How long it takes: rounds x rows x 3 brokers x (`seconds` + 1), and twice `warm_up_s`."""

    seconds: float = 5.0
    rounds: int = 6
    warm_up_s: float = 30.0
    rows: tuple[Row, ...] = ROWS
    profile: bool = False


class Broker(Protocol):
    """What is measured: ours or the peer."""

    process: subprocess.Popen[bytes]
    start_s: float

    @property
    def address(self) -> tuple[str, int]: ...
    def cost(self) -> Cost: ...
    def forget(self, topic: str) -> None: ...
    def close(self) -> None: ...


def run(directory: Path | None, generator: Generator, peer: Path, plan: Plan, progress: Progress) -> Section:
    """Raises `Stalled` only if a broker does not start; a row that fails is named in the section, and the others are measured."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made, ExitStack() as stack:
        folder = Path(made)
        comparison = Comparison(generator, plan, progress)
        comparison.add(COMPILED, stack, lambda: RealBroker(_folder(folder, "compiled")))
        comparison.add(PLAIN, stack, lambda: RealBroker(_folder(folder, "plain"), "--plain"))
        comparison.add(PEER, stack, lambda: PeerBroker(peer, folder))
        comparison.warm_up()
        for row in plan.rows:
            comparison.measure(row)
        stack.close()
        return comparison.report(folder)


def _folder(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


class Comparison:
    def __init__(self, generator: Generator, plan: Plan, progress: Progress) -> None:
        self.brokers: dict[str, Broker] = {}
        self.measured = Measured({}, {}, {}, {}, "of an unknown version")
        self.failures: list[str] = []
        self._generator, self._plan, self._progress = generator, plan, progress
        self._runs = 0

    def add(self, name: str, stack: ExitStack, start: Callable[[], Broker]) -> None:
        """Starts a broker, with the others paused, and pauses it when it is quiet."""
        self._progress(f"starting: {name}")
        broker = start()
        stack.callback(broker.close)
        self.brokers[name] = broker
        self.measured.start_s[name] = broker.start_s
        if isinstance(broker, PeerBroker):
            self.measured = self.measured._replace(version=broker.version)
        _quiet(broker)
        self.measured.idle_mib[name] = broker.cost().resident_bytes / 2**20
        processes.pause(broker.process)

    def warm_up(self) -> None:
        """The peer compiles what runs often, for half a minute or more; ours only fills its caches."""
        share_s = self._plan.warm_up_s / len(self._plan.rows)
        for name in self.brokers:
            self._progress(f"warming up: {name}")
            if name == PEER:
                self._load(self._plan.rows[0], name, self._plan.warm_up_s)
            for row in self._plan.rows:
                self._load(row, name, share_s if name == PEER else min(0.5, share_s))

    def measure(self, row: Row) -> None:
        for number in range(self._plan.rounds):
            self._progress(f"{row.name}, round {number + 1} of {self._plan.rounds}")
            for name in self.brokers:
                loaded = self._load(row, name, self._plan.seconds)
                if loaded is not None:
                    self.measured.rounds.setdefault((row.name, name), []).append(loaded)
                    self.measured.resident_mib[row.name, name] = loaded.resident_mib

    def report(self, folder: Path) -> Section:
        """Made after the brokers have ended: the profiles of rows that missed their target need the processor."""
        details = []
        for row in self._plan.rows if self._plan.profile else ():
            if self._missed(row):
                self._progress(f"profile: {row.name}")
                try:
                    details += profiles(self._generator, folder, row.name, row.load)
                except Stalled as error:
                    self.failures.append(f"profile of {row.name}: {error}")
        loads = "; ".join(f"{row.name}: `rawload {' '.join(row.load)}`" for row in self._plan.rows)
        words = (
            f"Medians of {self._plan.rounds} rounds of {self._plan.seconds:g} s (the first fifth does not count), each on all "
            "three brokers in turn, the others paused; topics are new in each round. CPU is user and system time of the whole "
            "process tree, and a core stands for a second of it. The peer syncs its journal (journalSyncData=true, checked). "
            f"{loads}."
        )
        return section(self._plan.rows, self.measured, words, self.failures, details)

    def _missed(self, row: Row) -> bool:
        for ours in OURS:
            target, value = row.judged.target(ours), ratio(row, ours, self.measured)
            if target is not None and value is not None and (value < target if row.judged.at_least else value > target):
                return True
        return False

    def _load(self, row: Row, name: str, seconds: float) -> Loaded | None:
        """One run on one broker, on topics that are gone afterwards; None if it failed, which is noted."""
        broker = self.brokers[name]
        self._runs += 1
        topic = f"persistent://public/default/bench-{self._runs}"
        processes.resume(broker.process)
        try:
            if broker.process.poll() is not None:
                raise Stalled("the broker has ended")
            return self._generator.run(broker.address, broker.process.pid, topic, *row.load, "-dur", f"{seconds:.2f}s")
        except Stalled as error:
            self.failures.append(f"{row.name}, {name}: {error}")
            return None
        finally:
            if broker.process.poll() is None:
                for one in row.names(topic):
                    broker.forget(one)
                _quiet(broker)
                processes.pause(broker.process)


def _quiet(broker: Broker) -> None:
    """Waits until the broker has done what the last load left it to do, such as freeing what was deleted."""
    deadline = time.monotonic() + _QUIET_MAX_S
    before = broker.cost().cpu_s
    while time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        now = broker.cost().cpu_s
        if now - before < _QUIET_CORES * _LOOK_S:
            return
        before = now
