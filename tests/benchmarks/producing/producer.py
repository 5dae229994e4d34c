"""What the settings of a producer cost and save, and what the SDK costs beside Apache's client, which is written in C++.

The same messages at the same rate, compressed, to a topic of eight partitions: unbatched, with the default settings, and with those
that `magnetar tune` gives. Then as fast as it goes, with and without a partition that takes nothing, and beside Apache's client.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from messaging.adminrpc.methods import TOPICS_CREATE, TOPICS_STATS
from messaging.adminrpc.topics import StatsAsked, TopicCreate
from messaging.client.tuning import Traffic, advise
from tests.benchmarks import processes
from tests.benchmarks.load import Stalled
from tests.benchmarks.producing.client_process import OURS, STOCK, Client, Done, Order
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number

PARTITIONS = 8
BLOCKED = 3
RATE_PER_S = 4_000
SIZE_BYTES = 200
LATENCY_MS = 100
CONSUMED = 60_000
PATIENCE_S = 120.0

BYTES_MAX, CLIENT_CPU_MAX, BROKER_CPU_MAX = 0.45, 0.10, 0.20  # of tuned, beside unbatched
BLOCKED_MIN = 0.95 * (PARTITIONS - 1) / PARTITIONS
BESIDE_STOCK_MAX = 1.5

UNBATCHED = {"batching": False, "compression": "zstd"}
DEFAULT = {"compression": "zstd"}


def tuned() -> dict[str, Any]:
    advice = advise(Traffic(SIZE_BYTES, RATE_PER_S, PARTITIONS, LATENCY_MS))
    settings = {setting.name: setting.value for setting in advice.settings}
    return {name: value for name, value in settings.items() if name != "memory_bytes_max"}  # that of the client is more


class Cost(NamedTuple):
    """Of a message: bytes that were stored, and microseconds of client and broker."""

    stored_bytes: float
    client_us: float
    broker_us: float
    done: Done


def run(directory: Path | None, seconds: float, progress: Progress) -> Section:
    section = Section(
        "Producers",
        f"{SIZE_BYTES} bytes a message, {PARTITIONS} partitions, zstd. Each row is a producer in a process of its own; CPU is user "
        "and system time of the process, bytes are those that the broker stored with all metadata.",
    )
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        broker = RealBroker(Path(made))
        try:
            bench = Bench(broker, seconds, progress)
            _settings(bench, section)
            _blocked(bench, section)
            _beside_stock(bench, section)
        finally:
            broker.close()
    return section


class Bench:
    def __init__(self, broker: RealBroker, seconds: float, progress: Progress) -> None:
        self.broker = broker
        self.url = broker.addresses["broker_url"]
        self.seconds = seconds
        self.progress = progress
        self._topics = 0

    def topic(self, partitions: int = PARTITIONS) -> str:
        self._topics += 1
        topic = f"persistent://public/default/producer-{self._topics}"
        created = TopicCreate(topic=topic, partitions=partitions) if partitions else TopicCreate(topic=topic)
        self.broker.rpc.call(TOPICS_CREATE, created)
        return topic

    def run(self, order: Order) -> Done:
        """Raises `Stalled`."""
        processes.stop_if_interrupted()
        command = [sys.executable, "-m", "tests.benchmarks.producing.client_process", msgspec.json.encode(order).decode()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=Path(__file__).parents[3])
        if not done.stdout:
            raise Stalled(f"a {order.client} client did not end well: {done.stderr[-600:]}")
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=Done)

    @contextmanager
    def proxy(self, suffix: str) -> Iterator[str]:
        """The URL of a proxy that holds what goes to topics of this end."""
        command = [sys.executable, "-m", "tests.benchmarks.producing.holding_proxy", str(self.broker.address[1]), suffix]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as process:
            processes.children.add(process)  # type: ignore[arg-type]
            try:
                assert process.stdout is not None
                yield f"pulsar://127.0.0.1:{int(process.stdout.readline())}"
            finally:
                process.kill()
                processes.children.discard(process)

    def cost(self, client: Client, options: dict[str, Any], rate: int, partitions: int = PARTITIONS) -> Cost:
        topic = self.topic(partitions)
        before_s = self.broker.cost().cpu_s
        done = self.run(Order(client, self.url, topic, self.seconds, rate, SIZE_BYTES, options=options))
        broker_s = self.broker.cost().cpu_s - before_s
        names = [f"{topic}-partition-{index}" for index in range(partitions)] if partitions else [topic]
        stats = [self.broker.rpc.call(TOPICS_STATS, StatsAsked(topic=name)).stats for name in names]
        messages = sum(int(each["msgInCounter"]) for each in stats) or 1
        stored = sum(int(each["bytesInCounter"]) for each in stats)
        return Cost(stored / messages, done.cpu_us, broker_s / messages * 1e6, done)


def _settings(bench: Bench, section: Section) -> None:
    costs = {}
    for name, options in (("unbatched", UNBATCHED), ("default", DEFAULT), ("tuned", tuned())):
        bench.progress(f"{name}, at {RATE_PER_S} messages/s")
        costs[name] = bench.cost(OURS, options, RATE_PER_S)
    first, best = costs["unbatched"], costs["tuned"]
    rows: list[tuple[str, ...]] = [
        (name, number(cost.stored_bytes), number(cost.client_us), number(cost.broker_us), f"{cost.done.per_s:,.0f}")
        for name, cost in costs.items()
    ]
    section.tables.append(Table(("settings", "bytes", "client, us", "broker, us", "messages/s"), rows))
    section.figures += [
        Figure("tuned beside unbatched: bytes", best.stored_bytes / first.stored_bytes, BYTES_MAX, at_least=False),
        Figure("tuned beside unbatched: CPU of the client", best.client_us / first.client_us, CLIENT_CPU_MAX, at_least=False),
        Figure("tuned beside unbatched: CPU of the broker", best.broker_us / first.broker_us, BROKER_CPU_MAX, at_least=False),
    ]


def _blocked(bench: Bench, section: Section) -> None:
    rows: list[tuple[str, ...]] = []
    clients: tuple[tuple[Client, dict[str, Any]], ...] = ((OURS, tuned()), (STOCK, _stock_of(tuned())))
    for client, options in clients:
        done = []
        for suffix in ("-of-none", f"-partition-{BLOCKED}"):
            bench.progress(f"{client}, as fast as it goes, behind a proxy that holds what goes to *{suffix}")
            with bench.proxy(suffix) as url:
                order = Order(client, url, bench.topic(), bench.seconds, size=SIZE_BYTES, options=options)
                done.append(bench.run(order))
        free, held_up = done
        share = held_up.per_s / free.per_s
        rows.append((client, f"{free.per_s:,.0f}", f"{held_up.per_s:,.0f}", f"{100 * share:.0f} %"))
        if client == OURS:
            section.figures.append(Figure("one of 8 partitions blocked: throughput that is left", share, BLOCKED_MIN))
    section.tables.append(Table(("client", "messages/s", "with one of 8 partitions held", "left"), rows))


def _beside_stock(bench: Bench, section: Section) -> None:
    rows: list[tuple[str, ...]] = []
    done: dict[str, Done]
    for name, options in (("batched", {}), ("unbatched", {"batching": False})):
        done = {}
        for client, own in ((OURS, options), (STOCK, _stock_of({"batching": True, **options}))):
            bench.progress(f"{name}, {client}, as fast as it goes")
            done[client] = bench.cost(client, own, 0, partitions=0).done
        rows.append(_row(name, done))
        _judge(section, name, done)
    topic = bench.topic(partitions=0)
    bench.progress("consumers")
    filled = bench.run(Order(OURS, bench.url, topic, max(2.0, bench.seconds), size=SIZE_BYTES))
    consumed = min(CONSUMED, filled.messages)
    clients: tuple[Client, ...] = (OURS, STOCK)
    done = {client: bench.run(Order(client, bench.url, topic, 0, consume=consumed)) for client in clients}
    rows.append(_row("consumer", done))
    _judge(section, "consumer", done)
    section.tables.append(Table(("", "ours, messages/s", "us", "MiB", "Apache's, messages/s", "us", "MiB"), rows))


def _row(name: str, done: dict[str, Done]) -> tuple[str, ...]:
    cells = [name]
    for client in (OURS, STOCK):
        each = done[client]
        cells += [f"{each.per_s:,.0f}", number(each.cpu_us), number(each.resident_bytes_max / 2**20)]
    return tuple(cells)


def _judge(section: Section, name: str, done: dict[str, Done]) -> None:
    ours, stock = done[OURS], done[STOCK]
    section.figures += [
        Figure(f"{name}, beside Apache's: CPU of a message", ours.cpu_us / stock.cpu_us, BESIDE_STOCK_MAX, at_least=False),
        Figure(f"{name}, beside Apache's: throughput", ours.per_s / stock.per_s, 1 / BESIDE_STOCK_MAX),
    ]


def _stock_of(options: dict[str, Any]) -> dict[str, Any]:
    """The same settings in the words of Apache's client."""
    names = {
        "pending_max": "max_pending_messages",
        "pending_across_partitions_max": "max_pending_messages_across_partitions",
        "batch_messages_max": "batching_max_messages",
        "batch_bytes_max": "batching_max_allowed_size_in_bytes",
        "batch_delay_ms": "batching_max_publish_delay_ms",
        "batching": "batching_enabled",
        "compression": "compression_type",
    }
    given = {names[name]: value for name, value in options.items() if name in names}
    if "batching_max_publish_delay_ms" in given:
        given["batching_max_publish_delay_ms"] = round(given["batching_max_publish_delay_ms"])
    return {"batching_enabled": True, **given}
