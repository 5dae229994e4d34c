"""A reader from the beginning of a topic that no broker has in memory: ours and the peer's on the same bookies, in turns.

Each broker stores the topic once, and unloads it before each reading. An Exclusive reader asks for messages as fast as it gets
them, and looks at lengths of frames only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from statistics import median
from typing import NamedTuple

from tests.benchmarks import catch_up, load, wire
from tests.benchmarks.beside_peer.in_turn import Broker
from tests.benchmarks.load import Stalled
from tests.benchmarks.report import Figure, Progress, Table, number

SIZE, BATCH, WINDOW = 1024, 100, 50
MESSAGES = 150_000
TOPIC = "persistent://public/default/bench-read"
COLUMNS = ("catching up", "broker", "messages/s", "broker CPU us a message", "first message, ms")
_KEPT = "keeps"  # a subscription, so that nothing is deleted


class Caught(NamedTuple):
    """`begun_ms`: from the connection to the first bytes."""

    messages_per_s: float
    cpu_us: float
    begun_ms: float


def store(broker: Broker, messages: int) -> None:
    """Raises `Stalled`."""
    load.subscriber(broker.address, TOPIC, 0, _KEPT).close()
    peer, name = load.publisher(broker.address, TOPIC)
    with closing(peer):
        load.Run(peer, wire.Stream(name, messages // BATCH, SIZE, BATCH), WINDOW).run()


def caught_up(broker: Broker, messages: int) -> Caught:
    """Raises `Stalled`."""
    broker.unload(TOPIC)
    cpu_s, start = broker.cost().cpu_s, time.perf_counter()
    reader = catch_up.Reader(broker.address, TOPIC, BATCH)
    with closing(reader.peer):
        reader.take()
        begun_s = time.perf_counter() - start
        while reader.messages < messages:
            reader.take()
        elapsed_s = time.perf_counter() - start - begun_s
    return Caught(messages / elapsed_s, (broker.cost().cpu_s - cpu_s) / messages * 1e6, begun_s * 1000)


def measure(
    brokers: Mapping[str, Broker], messages: int, rounds: int, progress: Progress, failures: list[str]
) -> dict[str, list[Caught]]:
    """What each round gave, by broker; one before them does not count. A round in which one failed counts for none."""
    measured: dict[str, list[Caught]] = {name: [] for name in brokers}
    try:
        for name, broker in brokers.items():
            progress(f"storing what is read: {name}")
            store(broker, messages)
        for turn in range(rounds + 1):
            progress(f"catching up, {f'round {turn} of {rounds}' if turn else 'to warm up'}")
            for name, broker in brokers.items():
                result = caught_up(broker, messages)
                if turn:
                    measured[name].append(result)
    except (Stalled, OSError) as error:
        failures.append(f"catching up: {error}")
        whole = min(map(len, measured.values()))
        measured = {name: results[:whole] for name, results in measured.items()}
    finally:
        for broker in brokers.values():
            broker.forget(TOPIC)
    return measured


def table(measured: Mapping[str, list[Caught]]) -> Table:
    rows = []
    for name, results in measured.items():
        if results:
            middle = (number(median(values)) for values in zip(*results, strict=True))
            rows.append((f"{SIZE} B x {BATCH} a batch", name, *middle))
    return Table(COLUMNS, rows)


def figures(ours: list[Caught], theirs: list[Caught]) -> list[Figure]:
    """Medians of the ratios of each round."""
    if not ours:
        return []
    pairs = list(zip(ours, theirs, strict=True))
    rate = median(mine.messages_per_s / other.messages_per_s for mine, other in pairs)
    cost = median(mine.cpu_us / other.cpu_us for mine, other in pairs)
    return [
        Figure("catching up: messages/s to the peer's", rate, 1.0),
        Figure("catching up: broker CPU of a message to the peer's", cost, 0.5, at_least=False),
    ]
