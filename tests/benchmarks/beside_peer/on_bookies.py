"""`magnetar bench bookies`: a broker of ours and one of the peer on the same bookies, and one of ours with its own log of files.

All run at the same time, since a broker that is paused loses its session with ZooKeeper; each load goes to one after the other, in
turns, and the medians count. The peer is warmed up, as its virtual machine compiles what runs often. Topics are deleted after each
turn, and bookies free their space at once.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.benchmarks.beside_peer import reading_on_bookies
from tests.benchmarks.beside_peer.in_turn import Broker
from tests.benchmarks.beside_peer.peer_process import PeerOnBookies
from tests.benchmarks.generator import Generator, Loaded
from tests.benchmarks.load import Stalled
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number
from tests.support.bookkeeper.cluster import Cluster

BOOKIES = 3
OURS, PEER, LOCAL = "ours on bookies", "the peer on the same", "ours, own log"
_FOLDERS = {OURS: "ours", PEER: "peer", LOCAL: "local"}
SHARED = (OURS, PEER)  # on the bookies
_MEMORY = ("-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=1g")
_SETTINGS = {
    "journalSyncData": "true",
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "dbStorage_writeCacheMaxSizeMb": 128,
    "dbStorage_readAheadCacheMaxSizeMb": 64,
    "flushInterval": 10_000,
    "zkTimeout": 30_000,
    # So that a run needs little space.
    "journalMaxSizeMB": 128,
    "journalMaxBackups": 0,
    "logSizeLimit": 64 << 20,
    "gcWaitTime": 2_000,
}
MESSAGE_BYTES_MAX = 4_000_000  # what bookies take by default, less what arrives together with it
FORGET_S = 3.0  # so that bookies have freed what a turn stored


class Row(NamedTuple):
    """`judged`: what of it counts, `cpu_us`, `p50_ms` or `p99_ms`; ours are at most `x_max` of the peer's."""

    name: str
    load: tuple[str, ...]
    judged: tuple[tuple[str, float], ...]


ROWS = (
    Row("128 B, one in flight", ("-size", "128", "-window", "1"), (("p99_ms", 1.0), ("cpu_us", 0.5))),
    Row("128 B, 1,000 in flight", ("-size", "128", "-window", "1000"), (("p99_ms", 1.0), ("cpu_us", 0.2))),
    Row(
        "1 KiB x 100 a batch, 50 in flight", ("-size", "1024", "-batch", "100", "-window", "50"), (("p99_ms", 1.0), ("cpu_us", 0.5))
    ),
    Row("1 KiB at 1,000/s", ("-size", "1024", "-rate", "1000"), (("p99_ms", 1.0), ("cpu_us", 1.0))),
)
_WORDS = {"p50_ms": "receipt p50", "p99_ms": "receipt p99", "cpu_us": "broker CPU of a message"}


class Plan(NamedTuple):
    """How long it takes: rounds x rows x 3 brokers x (`seconds` + `FORGET_S`), `warm_up_s`, and reading
    `read_messages` as often."""

    seconds: float = 4.0
    rounds: int = 5
    warm_up_s: float = 30.0
    rows: tuple[Row, ...] = ROWS
    read_messages: int = reading_on_bookies.MESSAGES


def run(directory: Path | None, generator: Generator, peer: Path, plan: Plan, progress: Progress) -> Section:
    """Raises `Stalled` only if something does not start; a load that fails is named in the section."""
    section = Section(
        "On the same bookies",
        f"{BOOKIES} bookies and a ZooKeeper on this machine, journals synced; ensemble, write and ack quorum 3, 3, 2. Medians of "
        f"{plan.rounds} rounds of {plan.seconds:g} s (the first fifth does not count), each on all three brokers in turn. CPU is "
        "user and system time of the broker; the bookies' is not in it. Bookies and brokers share the processors and the disk.",
        [Table(("load", "broker", "messages/s", "receipt p50 / p99 ms", "broker CPU us a message", "resident MiB"), [])],
    )
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made, ExitStack() as stack:
        folder = Path(made)
        progress("starting bookies")
        cluster = Cluster(folder / "bookies", BOOKIES, _SETTINGS, _MEMORY)
        stack.callback(cluster.kill)
        cluster.start()
        turns = Turns(generator, plan, progress, section.failures)
        ledger_url = f"bookkeeper://{cluster.hosts}/ledgers"
        for name in (OURS, LOCAL, PEER):
            progress(f"starting: {name}")
            home = folder / _FOLDERS[name]
            home.mkdir()
            broker: Broker
            if name == PEER:
                broker = PeerOnBookies(peer, home, cluster.hosts)
                section.title = f"On the same bookies as a broker of Pulsar {broker.version}"
            else:
                urls = {"ledger_url": ledger_url} if name == OURS else {}
                broker = RealBroker(home, message_bytes_max=MESSAGE_BYTES_MAX, **urls)
            stack.callback(broker.close)
            turns.brokers[name] = broker
        turns.warm_up()
        for row in plan.rows:
            measured = turns.measure(row)
            for name, rounds in measured.items():
                section.tables[0].rows.append((row.name, name, *_cells(rounds)))
            section.figures += figures(row, measured)
        caught = reading_on_bookies.measure(turns.brokers, plan.read_messages, plan.rounds, progress, section.failures)
        section.tables.append(reading_on_bookies.table(caught))
        section.figures += reading_on_bookies.figures(caught[OURS], caught[PEER])
    return section


class Turns:
    def __init__(self, generator: Generator, plan: Plan, progress: Progress, failures: list[str]) -> None:
        self.brokers: dict[str, Broker] = {}
        self.runs = 0
        self._generator, self._plan, self._progress, self._failures = generator, plan, progress, failures

    def warm_up(self) -> None:
        """Each load for its share of the time, on both that are on bookies; ours only fills its caches."""
        for row in self._plan.rows:
            self._progress(f"warming up: {row.name}")
            self._load(row, PEER, self._plan.warm_up_s / len(self._plan.rows))
            for name in (OURS, LOCAL):
                self._load(row, name, 0.5)

    def measure(self, row: Row) -> dict[str, list[Loaded]]:
        """What each round gave, by broker; a round in which one failed counts for none."""
        measured: dict[str, list[Loaded]] = {name: [] for name in self.brokers}
        for number_ in range(self._plan.rounds):
            self._progress(f"{row.name}, round {number_ + 1} of {self._plan.rounds}")
            loaded = {name: self._load(row, name, self._plan.seconds) for name in self.brokers}
            for name, result in loaded.items():
                if result is not None and None not in loaded.values():
                    measured[name].append(result)
        return {name: rounds for name, rounds in measured.items() if rounds}

    def _load(self, row: Row, name: str, seconds: float) -> Loaded | None:
        self.runs += 1
        topic, broker = f"persistent://public/default/bench-{self.runs}", self.brokers[name]
        try:
            return self._generator.run(broker.address, broker.process.pid, topic, *row.load, "-dur", f"{seconds:.2f}s")
        except Stalled as error:
            self._failures.append(f"{row.name}, {name}: {error}")
            return None
        finally:
            broker.forget(topic)
            time.sleep(FORGET_S)


def _cells(rounds: list[Loaded]) -> tuple[str, ...]:
    middle = Loaded(*(median(values) for values in zip(*rounds, strict=True)))
    latencies = f"{number(middle.p50_ms)} / {number(middle.p99_ms)}"
    return number(middle.messages_per_s), latencies, number(middle.cpu_us), number(middle.resident_mib)


def figures(row: Row, measured: dict[str, list[Loaded]]) -> list[Figure]:
    """Medians of the ratios of each round: what disturbs one round disturbs both sides of it, more or less."""
    made = []
    for what, x_max in row.judged:
        pairs = zip(measured.get(OURS, []), measured.get(PEER, []), strict=True)
        ratios = [getattr(mine, what) / getattr(theirs, what) for mine, theirs in pairs if getattr(theirs, what)]
        if ratios:
            made.append(Figure(f"{row.name}: {_WORDS[what]} to the peer's", median(ratios), x_max, at_least=False))
    return made
