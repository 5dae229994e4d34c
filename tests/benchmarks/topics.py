"""Many topics on one broker: what an idle one takes, how long they take to open, and throughput over all of them beside one."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.methods import STATUS
from tests.benchmarks.generator import Generator, Loaded
from tests.benchmarks.load import Stalled
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number

CONNECTIONS = 2
THROUGHPUT_TARGET = 0.7
IDLE_TARGET_KIB = 2.0
_LOADS = (
    ("128 B, 1,000 in flight", ("-size", "128", "-window", "1000")),
    ("1 KiB x 100 a batch, 50 in flight", ("-size", "1024", "-batch", "100", "-window", "50")),
)
_BASE = "persistent://public/default/many"
_OPEN_MS = 5  # of patience for each topic
_LOOK_S = 2.0  # between looks at the broker: each has it go over all topics
_HOLD_S = 8.0  # how long the generator keeps all producers open for us to look


class State(NamedTuple):
    """What the broker holds at one moment."""

    loaded: int
    producers: int
    resident_bytes: int
    descriptors: int
    tasks: int


def run(directory: Path | None, generator: Generator, topics: int, seconds: float, progress: Progress) -> Section:
    section = Section(
        f"{topics:,} topics",
        f"{topics // CONNECTIONS:,} topics on each of {CONNECTIONS} connections, a producer on each, sent to in turn. Every topic "
        "has stored a message before its throughput counts. "
        f"`rawload -topics {topics // CONNECTIONS} -conns {CONNECTIONS}`, idle with `-idle`.",
        [
            Table(("the broker with", "topics loaded", "producers", "resident MiB", "KiB a topic", "descriptors", "tasks"), []),
            Table(("load", "topics", "messages/s", "broker CPU us a message", "receipt p50 / p99 ms", "opened in, s"), []),
        ],
        [],
        [],
    )
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        try:
            _Many(Path(made), generator, topics, seconds, section, progress).run()
        except Stalled as error:
            section.failures.append(str(error))
    return section


class _Many:
    def __init__(
        self, folder: Path, generator: Generator, topics: int, seconds: float, section: Section, progress: Progress
    ) -> None:
        self.topics = topics // CONNECTIONS * CONNECTIONS
        self._look_s = min(_LOOK_S, topics / 10_000)
        self._folder, self._generator, self._seconds = folder, generator, seconds
        self._section, self._progress = section, progress
        self._answer = folder / "tasks.txt"
        self.broker = RealBroker(folder, "--tasks", self._answer)

    def run(self) -> None:
        try:
            alone = [self._load(name, load, 1) for name, load in _LOADS]
            self._idle()
            self._progress("a first message on each topic")
            self._generate("-count", str(self.topics // CONNECTIONS), patience_s=self._patience_s())
            for (name, load), alone_figures in zip(_LOADS, alone, strict=True):
                everywhere = self._load(name, load, self.topics)
                what = f"{name}: messages/s over {self.topics:,} topics to those of one"
                self._figure(Figure(what, everywhere.messages_per_s / alone_figures.messages_per_s, THROUGHPUT_TARGET))
            self._unloaded()
        finally:
            self.broker.close()

    def _idle(self) -> None:
        before = self._state()
        self._line("one topic, before", before)
        self._progress(f"opening {self.topics:,} topics")
        start = time.monotonic()
        running = self._generator.start(
            self.broker.address, self.broker.process.pid, _BASE, *self._spread(), "-idle", "-dur", f"{_HOLD_S}s"
        )
        try:
            self._until("open", lambda: self._status().producers == self.topics, self._patience_s(), self._look_s)
            open_s = time.monotonic() - start
            with_producers = self._state()
            idle_kib = self._line("a producer on each", with_producers, before)
        finally:
            running.result(self._patience_s())
        self._until("closed", lambda: self._status().producers == 0, 30, self._look_s)
        left = self._state()
        left_kib = self._line("the producers gone", left, before)
        self._section.tables[1].rows.append(("opening: look-up and producer", f"{self.topics:,}", "", "", "", number(open_s)))
        figures = (
            ("memory of an idle topic with a producer", idle_kib, IDLE_TARGET_KIB, "KiB"),
            ("memory of an idle topic whose producer has gone", left_kib, IDLE_TARGET_KIB, "KiB"),
            ("descriptors for all idle topics", max(0, with_producers.descriptors - before.descriptors - CONNECTIONS), 0, "in all"),
            ("tasks for all idle topics", max(0, with_producers.tasks - before.tasks - CONNECTIONS), 0, "in all"),
        )
        for what, value, target, unit in figures:
            self._figure(Figure(what, value, target, unit, at_least=False))

    def _unloaded(self) -> None:
        """After a restart: topics that nobody has asked for."""
        self._progress("restart with all topics")
        self.broker.close()
        self.broker = RealBroker(self._folder, "--tasks", self._answer)
        self._line(f"none loaded, {number(self.broker.start_s)} s after a restart", self._state())

    def _load(self, name: str, load: tuple[str, ...], topics: int) -> Loaded:
        self._progress(f"{name}, topics: {topics:,}")
        loaded = self._generate(*load, "-dur", f"{self._seconds}s", topics=topics, patience_s=self._patience_s())
        latency = f"{number(loaded.p50_ms)} / {number(loaded.p99_ms)}"
        cells = (number(loaded.messages_per_s), number(loaded.cpu_us), latency, number(loaded.open_s))
        self._section.tables[1].rows.append((name, f"{topics:,}", *cells))
        return loaded

    def _generate(self, *load: str, topics: int = 0, patience_s: float) -> Loaded:
        where = (f"{_BASE}-alone", "-conns", "1") if topics == 1 else (_BASE, *self._spread())
        return self._generator.run(self.broker.address, self.broker.process.pid, *where, *load, patience_s=patience_s)

    def _spread(self) -> tuple[str, ...]:
        return "-topics", str(self.topics // CONNECTIONS), "-conns", str(CONNECTIONS)

    def _patience_s(self) -> float:
        return 60 + self._seconds + self.topics * _OPEN_MS / 1000

    def _figure(self, figure: Figure) -> None:
        self._section.figures.append(figure)

    def _line(self, what: str, state: State, before: State | None = None) -> float:
        """Adds a line; returns KiB a topic more than `before`."""
        kib = (state.resident_bytes - before.resident_bytes) / 1024 / self.topics if before else 0.0
        cells = (f"{state.loaded:,}", f"{state.producers:,}", number(state.resident_bytes / 2**20), number(kib) if before else "")
        self._section.tables[0].rows.append((what, *cells, str(state.descriptors), str(state.tasks)))
        return kib

    def _status(self) -> State:
        status = self.broker.rpc.call(STATUS, BrokerAsked())
        return State(status.topics_loaded, status.producers, 0, 0, 0)

    def _state(self) -> State:
        process = self.broker.process.pid
        self._answer.unlink(missing_ok=True)
        os.kill(process, signal.SIGUSR1)
        self._until("counted its tasks", self._answer.exists, 10, 0.05)
        descriptors = len(list(Path(f"/proc/{process}/fd").iterdir()))
        return self._status()._replace(
            resident_bytes=self.broker.cost().resident_bytes, descriptors=descriptors, tasks=int(self._answer.read_text())
        )

    def _until(self, what: str, holds: Callable[[], bool], patience_s: float, look_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while not holds():
            if self.broker.process.poll() is not None:
                raise Stalled("the broker has ended")
            if time.monotonic() > deadline:
                raise Stalled(f"the broker has not {what} within {patience_s:.0f} s")
            time.sleep(look_s)
