"""Magnetar beside a peer, through the socket, in one run: the same load on each in turn, never on both at once.

Three brokers run: ours compiled, ours in plain Python, and the peer; while one is under load the others are paused. Every row goes
around all three several times and the medians count, because machines like this swing. All are warm before the first row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.beside_peer.in_turn import Broker, InTurn
from tests.benchmarks.beside_peer.peer_process import PeerBroker
from tests.benchmarks.beside_peer.peer_report import COMPILED, OURS, PEER, PLAIN, ROWS, Measured, Row, ratio, section
from tests.benchmarks.generator import Generator, Loaded
from tests.benchmarks.load import Stalled
from tests.benchmarks.profiling import profiles
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Progress, Section


class Plan(NamedTuple):
    """How long it takes: rounds x rows x 3 brokers x (`seconds` + 1), and twice `warm_up_s`."""

    seconds: float = 5.0
    rounds: int = 6
    warm_up_s: float = 30.0
    rows: tuple[Row, ...] = ROWS
    profile: bool = False


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
        self.in_turn = InTurn(progress)
        self.measured = Measured({}, {}, self.in_turn.idle_mib, {}, "of an unknown version")
        self.failures: list[str] = []
        self._generator, self._plan, self._progress = generator, plan, progress

    def add(self, name: str, stack: ExitStack, start: Callable[[], Broker]) -> None:
        self.in_turn.add(name, stack, start)
        self.measured.start_s[name] = self.in_turn.brokers[name].start_s
        self.measured = self.measured._replace(version=self.in_turn.version)

    def warm_up(self) -> None:
        """The peer compiles what runs often, for half a minute or more; ours only fills its caches."""
        share_s = self._plan.warm_up_s / len(self._plan.rows)
        for name in self.in_turn.brokers:
            self._progress(f"warming up: {name}")
            if name == PEER:
                self._load(self._plan.rows[0], name, self._plan.warm_up_s)
            for row in self._plan.rows:
                self._load(row, name, share_s if name == PEER else min(0.5, share_s))

    def measure(self, row: Row) -> None:
        for number in range(self._plan.rounds):
            self._progress(f"{row.name}, round {number + 1} of {self._plan.rounds}")
            for name in self.in_turn.brokers:
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
        topic = self.in_turn.topic()
        try:
            with self.in_turn.turn(name, row.names(topic)) as broker:
                return self._generator.run(broker.address, broker.process.pid, topic, *row.load, "-dur", f"{seconds:.2f}s")
        except Stalled as error:
            self.failures.append(f"{row.name}, {name}: {error}")
            return None
