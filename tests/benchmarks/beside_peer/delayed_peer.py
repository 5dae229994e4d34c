"""A million delayed messages on Magnetar and on a Pulsar, one after the other, by Apache's own client: how fast they are taken,
what they weigh, how soon the broker delivers again after `kill -9`, and how late those are that are due at once.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pulsar

from tests.benchmarks import processes
from tests.benchmarks.beside_peer.peer_process import PeerBroker
from tests.benchmarks.load import Stalled
from tests.benchmarks.processes import Cost
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Progress, Section, Table, number

COUNT = 1_000_000
DUE = 100_000
WARM = 50_000  # messages without a delay, before anything is measured: the peer compiles what runs often
FAR_MS, SPREAD_MS = 24 * 3_600_000, 48 * 3_600_000
SETTLE_S = 20.0
RECOVERY_S = 120.0
LEAD_MS = 20_000  # from publishing the first until what is due at once is due: time to publish it
DUE_S = 60.0
TOPIC, SUBSCRIPTION = "persistent://public/default/delayed", "s"
PAYLOAD = b"0123456789abcdef"
PENDING_MAX = 20_000
BUCKETS = "org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory"  # its index in buckets, which it stores


class Server(Protocol):
    start_s: float
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> tuple[str, int]: ...
    def cost(self) -> Cost: ...
    def close(self) -> None: ...


class Measured(NamedTuple):
    """Seconds, MB, milliseconds. None: it did not happen in time."""

    rate_per_s: float
    idle_mb: float
    resident_mb: float
    start_s: float
    first_s: float | None
    received: int
    late_ms: tuple[float, float, float]


def run(directory: Path | None, peer: Path, count: int, progress: Progress) -> Section:
    measured = {}
    for name in ("Magnetar", "Pulsar"):
        with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
            folder = Path(made)
            measured[name] = _measured(lambda: _started(name, folder, peer), count, lambda text: progress(f"{name}: {text}"))  # noqa: B023
    return section(measured, count)


def _started(name: str, folder: Path, peer: Path) -> Server:
    return RealBroker(folder) if name == "Magnetar" else PeerBroker(peer, folder, delayedDeliveryTrackerFactoryClassName=BUCKETS)


def _measured(start: Callable[[], Server], count: int, progress: Progress) -> Measured:
    server = start()
    try:
        with _client(server) as client:
            seen = _Seen(client)
            producer = _Sender(client)
            producer.send([0] * WARM)
            seen.wait_for(WARM, RECOVERY_S)
            idle_mb = server.cost().resident_bytes / 1e6
            progress(f"{count:,} delayed messages")
            draw, now_ms = random.Random(1), _now_ms()
            rate = count / producer.send([now_ms + FAR_MS + draw.randrange(SPREAD_MS) for _ in range(count)])
            time.sleep(SETTLE_S)
            resident_mb = server.cost().resident_bytes / 1e6
            processes.end(server.process)  # kill -9
        progress("again after kill -9")
        server = start()
        with _client(server) as client:
            began = time.monotonic()
            seen = _Seen(client)
            producer = _Sender(client)
            producer.send([0])
            first_s = time.monotonic() - began if seen.wait_for(1, RECOVERY_S) else None
            progress(f"{DUE:,} due within one second")
            seen.clear()
            at_ms = _now_ms() + LEAD_MS
            producer.send([at_ms + draw.randrange(1000) for _ in range(DUE)])
            seen.wait_for(DUE, LEAD_MS / 1000 + DUE_S)
            late = np.percentile(seen.late_ms or [0.0], (50, 99, 99.9)).tolist()
            return Measured(rate, idle_mb, resident_mb, server.start_s, first_s, len(seen.late_ms), (late[0], late[1], late[2]))
    finally:
        server.close()


@contextmanager
def _client(server: Server) -> Iterator[pulsar.Client]:
    host, port = server.address
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(f"pulsar://{host}:{port}", logger=logger, operation_timeout_seconds=60)
    try:
        yield client
    finally:
        with suppress(pulsar.PulsarException):
            client.close()


class _Sender:
    def __init__(self, client: pulsar.Client) -> None:
        self._producer = client.create_producer(
            TOPIC, block_if_queue_full=True, max_pending_messages=PENDING_MAX, batching_enabled=True, send_timeout_millis=0
        )

    def send(self, times: list[int]) -> float:
        """0: at once. Seconds until all have receipts. Raises `Stalled`."""
        failed: list[object] = []

        def told(result: pulsar.Result, _: object) -> None:
            if result != pulsar.Result.Ok:
                failed.append(result)

        began = time.monotonic()
        for at_ms in times:
            if at_ms:
                self._producer.send_async(PAYLOAD, told, deliver_at=at_ms, properties={"at": str(at_ms)})
            else:
                self._producer.send_async(PAYLOAD, told)
        self._producer.flush()
        if failed:
            raise Stalled(f"{len(failed)} messages were refused: {failed[0]}")
        return time.monotonic() - began


class _Seen:
    """A consumer of a Shared subscription that takes everything."""

    def __init__(self, client: pulsar.Client) -> None:
        self.late_ms: list[float] = []
        self._count, self._wanted, self._enough = 0, 0, threading.Event()
        client.subscribe(
            TOPIC,
            SUBSCRIPTION,
            pulsar.ConsumerType.Shared,
            message_listener=self._take,
            receiver_queue_size=10_000,
            initial_position=pulsar.InitialPosition.Earliest,
        )

    def _take(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        at = message.properties().get("at")
        if at is not None:
            self.late_ms.append(_now_ms() - int(at))
        consumer.acknowledge(message)
        self._count += 1
        if self._count >= self._wanted:
            self._enough.set()

    def clear(self) -> None:
        self._count, self.late_ms = 0, []

    def wait_for(self, count: int, seconds: float) -> bool:
        """Whether so many came in time, of all since `clear`."""
        self._enough.clear()
        self._wanted = count
        return self._count >= count or self._enough.wait(seconds)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def section(measured: dict[str, Measured], count: int) -> Section:
    made = Section(
        "Beside Pulsar",
        f"{count:,} messages that are due at random within two days from tomorrow on, by Apache's client for Python, for a Shared "
        f"subscription with a consumer; {SETTLE_S:g} s later the broker is killed with kill -9 and started again, and a message is "
        f"published without a delay: counted is the time from connecting until it comes. Then {DUE:,} are published that are due "
        "within one second. The two brokers run one after the other, with the defaults of each, but the peer syncs its journal, as "
        "ours does; its index of delayed messages is set to be in buckets. Lateness is counted by the clock "
        "of the client and includes what the client takes to hand them over; negative: early by less than a tick.",
    )
    publishing = Table(("broker", "published a second", "memory idle, MB", "with them, MB", "more, MB"), [])
    again = Table(("broker", "up again, s", "first message after that, s", "due came", "p50, ms", "p99, ms", "p99.9, ms"), [])
    for name, measurement in measured.items():
        more = measurement.resident_mb - measurement.idle_mb
        publishing.rows.append(
            (name, number(measurement.rate_per_s), number(measurement.idle_mb), number(measurement.resident_mb), number(more))
        )
        first = f"not within {RECOVERY_S:g}" if measurement.first_s is None else number(measurement.first_s)
        again.rows.append(
            (name, number(measurement.start_s), first, f"{measurement.received:,}", *(number(late) for late in measurement.late_ms))
        )
    made.tables += [publishing, again]
    return made
