"""What subscriptions cost beside a peer: the same deliveries by both in turn, from a load generator of our own.

A row is a `Load` and what is judged of it. To add one: a line in `ROWS`.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from messaging.protocol import pulsar_pb2 as pb
from tests.benchmarks.beside_peer.delivery_load import Delivered, Load, Run
from tests.benchmarks.beside_peer.in_turn import InTurn
from tests.benchmarks.beside_peer.peer_process import PeerBroker
from tests.benchmarks.beside_peer.peer_report import COMPILED, PEER
from tests.benchmarks.load import Stalled
from tests.benchmarks.profiling import profiles_under
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number


class Judged(NamedTuple):
    """A figure of a row: ours divided by the peer's, or ours alone."""

    what: str
    of: Callable[[Delivered], float]
    target: float
    at_least: bool = True
    unit: str = "x"

    @property
    def beside_peer(self) -> bool:
        return self.unit == "x"


class Row(NamedTuple):
    name: str
    load: Load
    judged: tuple[Judged, ...]


def _a_core(target: float) -> Judged:
    return Judged("messages a core to the peer's", lambda delivered: 1 / delivered.cpu_us if delivered.cpu_us else 0.0, target)


_BEHIND = Judged("longest delivery", lambda delivered: delivered.behind_s, 1.0, at_least=False, unit="s")
_P99 = Judged("delivery p99 to the peer's", lambda delivered: delivered.delivery_p99_ms, 0.3, at_least=False)

ROWS = (
    Row("Shared, full speed", Load(), (_a_core(6), _BEHIND)),
    Row("Key_Shared, 1,000 keys, 4 consumers", Load(keys=1000, kind=pb.Subscribe.Key_Shared, consumers=4), (_a_core(4),)),
    Row("10 subscriptions", Load(subscriptions=10), (_a_core(4),)),
    Row("Shared, 1 KiB at 10,000/s", Load(size=1024, rate_per_s=10_000), (_P99,)),
    Row("non-persistent, Shared", Load(domain="non-persistent"), (_a_core(6),)),
)


class Plan(NamedTuple):
    """How long it takes: rounds x rows x 2 brokers x (`seconds` + some), and twice `warm_up_s`."""

    seconds: float = 3.0
    rounds: int = 4
    warm_up_s: float = 30.0
    rows: tuple[Row, ...] = ROWS
    profile: bool = False  # of the rows that miss a target


def run(directory: Path | None, peer: Path, plan: Plan, progress: Progress) -> Section:
    """Raises `Stalled` only if a broker does not start; a row that fails is named in the section, and the others are measured."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made, ExitStack() as stack:
        ours = Path(made, "ours")
        ours.mkdir()
        comparison = Comparison(plan, progress)
        comparison.in_turn.add(COMPILED, stack, lambda: RealBroker(ours))
        comparison.in_turn.add(PEER, stack, lambda: PeerBroker(peer, Path(made)))
        comparison.warm_up()
        for row in plan.rows:
            comparison.measure(row)
        stack.close()  # a profile needs the processor
        return comparison.report(Path(made))


class Comparison:
    def __init__(self, plan: Plan, progress: Progress) -> None:
        self.in_turn = InTurn(progress)
        self.failures: list[str] = []
        self.rounds: dict[tuple[str, str], list[Delivered]] = {}  # by row and broker
        self._plan, self._progress = plan, progress

    def warm_up(self) -> None:
        """The peer compiles what runs often; ours only fills its caches."""
        share_s = self._plan.warm_up_s / len(self._plan.rows)
        for name in self.in_turn.brokers:
            self._progress(f"warming up: {name}")
            for row in self._plan.rows:
                self._run(row, name, share_s if name == PEER else min(0.5, share_s))

    def measure(self, row: Row) -> None:
        for round_number in range(self._plan.rounds):
            self._progress(f"{row.name}, round {round_number + 1} of {self._plan.rounds}")
            both = {name: self._run(row, name, self._plan.seconds) for name in self.in_turn.brokers}
            for name, delivered in both.items():
                if delivered is not None:
                    self.rounds.setdefault((row.name, name), []).append(delivered)

    def _run(self, row: Row, name: str, seconds: float) -> Delivered | None:
        topic = self.in_turn.topic(row.load.domain)
        try:
            with self.in_turn.turn(name, [topic]) as broker:
                return Run(broker.address, topic, row.load).run(seconds, broker.cost)
        except (Stalled, OSError) as error:
            self.failures.append(f"{row.name}, {name}: {error}")
            return None

    def report(self, folder: Path) -> Section:
        figures = [figure for row in self._plan.rows for judged in row.judged if (figure := self._figure(row, judged))]
        words = (
            f"128 B, 1,000 messages in flight, where nothing else is said. Medians of {self._plan.rounds} rounds in which a "
            f"producer publishes for {self._plan.seconds:g} s, each on both brokers in turn, the other one paused; topics are "
            "new in each round. Everything is waited for until it was delivered to all subscriptions and acknowledged, each "
            "message in a frame of its own: CPU is user and system time of the whole process for all of that. Every consumer "
            "has a connection and 1,000 permits. A delivery's latency counts from the writing of the message; the longest one "
            "says how far the consumers fell behind. For latencies the first fifth of the time does not count. The peer syncs "
            "its journal (journalSyncData=true, checked). Of a non-persistent topic counts what is delivered; the rest was dropped."
        )
        title = f"Deliveries beside the peer, Pulsar {self.in_turn.version}"
        return Section(title, words, [self._all(), self._ratios()], figures, self.failures, self._profiles(folder))

    def _profiles(self, folder: Path) -> list[tuple[str, str]]:
        profiles = []
        for row in self._plan.rows if self._plan.profile else ():
            if not all(figure.reached for judged in row.judged if (figure := self._figure(row, judged))):
                self._progress(f"profile: {row.name}")
                try:
                    profiles += profiles_under(folder, row.name, partial(_profiled, row.load), self._plan.seconds)
                except (Stalled, OSError) as error:
                    self.failures.append(f"profile of {row.name}: {error}")
        return profiles

    def _figure(self, row: Row, judged: Judged) -> Figure | None:
        values = self._values(row, judged)
        if not values:
            return None
        value = statistics.median(values) if judged.beside_peer else max(values)
        return Figure(f"{row.name}: {judged.what}", value, judged.target, judged.unit, at_least=judged.at_least)

    def _values(self, row: Row, judged: Judged) -> list[float]:
        """Of every round: what disturbs one round disturbs both sides of it, more or less."""
        ours = [judged.of(delivered) for delivered in self.rounds.get((row.name, COMPILED), [])]
        if not judged.beside_peer:
            return ours
        theirs = [judged.of(delivered) for delivered in self.rounds.get((row.name, PEER), [])]
        return [mine / other for mine, other in zip(ours, theirs, strict=False) if mine and other]

    def _all(self) -> Table:
        columns = (
            "load",
            "broker",
            "messages/s",
            "broker CPU us a message",
            "cores",
            "receipt p50 / p99 ms",
            "delivery p50 / p99 ms",
            "longest, s",
            "delivered",
            "generator cores",
            "resident MiB",
        )
        lines = []
        for row in self._plan.rows:
            for name in self.in_turn.brokers:
                rounds = self.rounds.get((row.name, name))
                if rounds:
                    lines.append((row.name, name, *_cells(rounds)))
        return Table(columns, lines)

    def _ratios(self) -> Table:
        """With the value of every round: how far they lie apart says what the medians are worth."""
        lines: list[tuple[str, ...]] = [
            (row.name, judged.what, ", ".join(map(number, self._values(row, judged))) or "not measured")
            for row in self._plan.rows
            for judged in row.judged
        ]
        return Table(("load", "figure", "each round"), lines)


def _profiled(of: Load, broker: RealBroker, seconds: float) -> None:
    Run(broker.address, f"{of.domain}://public/default/profiled", of).run(seconds, broker.cost)


def _cells(rounds: list[Delivered]) -> tuple[str, ...]:
    middle = Delivered(*(statistics.median(values) for values in zip(*rounds, strict=True)))
    return (
        number(middle.messages_per_s),
        number(middle.cpu_us),
        number(middle.cores),
        f"{number(middle.receipt_p50_ms)} / {number(middle.receipt_p99_ms)}",
        f"{number(middle.delivery_p50_ms)} / {number(middle.delivery_p99_ms)}",
        number(max(delivered.behind_s for delivered in rounds)),
        f"{middle.received_share:.1%}",
        number(middle.client_cores),
        number(middle.resident_mib),
    )
