"""How exact rate limits are: what passes in ten seconds under a limit, beside what the limit allows.

One connection publishes, or consumes a backlog, as fast as the broker lets it, until as much has passed as the limit allows in the
time of a measurement; the error is how much faster or slower that was.
"""

from __future__ import annotations

import select
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from messaging.protocol import pulsar_pb2 as pb
from tests.benchmarks import load, wire
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number

ERROR_PERCENT = 2.0
STALL_S = 20.0
MEGABYTE = 1_000_000


class Limit(NamedTuple):
    """`rate` of messages, or of bytes, a second; `size` of a payload."""

    what: str
    unit: str
    rate: int
    size: int
    window: int

    @property
    def policy(self) -> dict[str, int]:
        return {self.unit: self.rate}


LIMITS = (
    Limit("100 messages/s", "messages", 100, 100, 1_000),
    Limit("10,000 messages/s", "messages", 10_000, 100, 5_000),
    Limit("10 MB/s", "bytes", 10 * MEGABYTE, 10_000, 300),
)


class Passed(NamedTuple):
    """In messages or bytes a second. `cpu_s`: of the broker."""

    rate: float
    error_percent: float
    cpu_s: float


def run(directory: Path | None, seconds: float, progress: Progress) -> Section:
    results: list[tuple[str, Limit, Passed]] = []
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        broker = RealBroker(Path(made))
        try:
            for limit in LIMITS:
                for kind, measure in (("publish", _publishing), ("dispatch", _dispatching)):
                    progress(f"{kind} rate of {limit.what}")
                    results.append((kind, limit, measure(broker, limit, seconds)))
        finally:
            broker.close()
    return _section(results, seconds)


def _topic(broker: RealBroker, name: str, **policies: int) -> str:
    topic = f"persistent://public/default/{name}"
    broker.tell([("topic", topic, {"policies": policies})])
    return topic


def _publishing(broker: RealBroker, limit: Limit, seconds: float) -> Passed:
    topic = _topic(broker, f"publish-{limit.rate}", **{f"publish_rate_{limit.unit}": limit.rate})
    peer, name = load.publisher(broker.address, topic)
    stream, size = _stream(name, limit, seconds)
    cpu_s, began_s = broker.cost().cpu_s, time.perf_counter()
    load.Run(peer, stream, limit.window).run()
    elapsed_s = time.perf_counter() - began_s
    peer.close()
    return _passed(limit, len(stream.stops), size, elapsed_s, broker.cost().cpu_s - cpu_s)


def _dispatching(broker: RealBroker, limit: Limit, seconds: float) -> Passed:
    topic = _topic(broker, f"dispatch-{limit.rate}")
    load.subscriber(broker.address, topic, 0, kind=pb.Subscribe.Exclusive).close()
    peer, name = load.publisher(broker.address, topic)
    stream, size = _stream(name, limit, seconds)
    load.Run(peer, stream, limit.window).run()
    peer.close()
    _topic(broker, f"dispatch-{limit.rate}", **{f"dispatch_rate_{limit.unit}": limit.rate})
    cpu_s, began_s = broker.cost().cpu_s, time.perf_counter()
    consumer = load.subscriber(broker.address, topic, 2 * len(stream.stops), kind=pb.Subscribe.Exclusive)
    _receive(consumer, len(stream.stops))
    elapsed_s = time.perf_counter() - began_s
    consumer.close()
    return _passed(limit, len(stream.stops), size, elapsed_s, broker.cost().cpu_s - cpu_s)


def _stream(name: str, limit: Limit, seconds: float) -> tuple[wire.Stream, float]:
    """As much as the limit allows in that time, and the bytes of one message that count: with its metadata."""
    stream = wire.Stream(name, 1, limit.size, 1)
    counted = len(stream.data)
    count = limit.rate * seconds / (1 if limit.unit == "messages" else counted)
    return wire.Stream(name, max(1, round(count)), limit.size, 1), counted


def _receive(consumer: load.Peer, count: int) -> None:
    """Until so many messages have come. Raises `Stalled`."""
    consumer.socket.setblocking(False)
    received = 0
    while received < count:
        received += sum(kind == wire.MESSAGE for kind, _ in wire.split(consumer.buffer))
        if received >= count:
            return
        if not select.select([consumer.socket], [], [], STALL_S)[0]:
            raise load.Stalled(f"{received} of {count} messages came")
        data = consumer.socket.recv(1 << 20)
        if not data:
            raise load.Stalled("the broker closed the connection")
        consumer.buffer += data


def _passed(limit: Limit, count: int, size: float, elapsed_s: float, cpu_s: float) -> Passed:
    rate = count * (1 if limit.unit == "messages" else size) / elapsed_s
    return Passed(rate, (rate / limit.rate - 1) * 100, cpu_s)


def _section(results: list[tuple[str, Limit, Passed]], seconds: float) -> Section:
    rows: list[tuple[str, ...]] = [
        (
            f"{kind} rate of {limit.what}",
            f"{passed.rate:,.0f} {limit.unit}/s",
            f"{passed.error_percent:+.2f} %",
            f"{100 * passed.cpu_s / seconds:.1f} %",
        )
        for kind, limit, passed in results
    ]
    section = Section(
        "Rate limits",
        f"What passed in {number(seconds)} s under each limit. Bytes are those of messages with metadata and framing. A limit "
        "allows up to 0.15 s of its rate at once after a pause, which is the most of what is above it here.",
        [Table(("limit", "passed", "error", "of a core"), rows)],
    )
    worst = max(abs(passed.error_percent) for _, _, passed in results)
    section.figures.append(Figure("rate limits: largest error", worst, ERROR_PERCENT, "%", at_least=False))
    return section
