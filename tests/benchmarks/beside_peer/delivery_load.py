"""A load generator for what is delivered: one producer, and subscriptions of its topic whose consumers acknowledge each message.

One thread and as good as no work a message (`equal_frames.py`), so that a figure belongs to the broker. Consumers ask for messages
as stock clients do, `PERMITS` at first and half of that again and again, each on a connection of its own. The producer stops after
some time; what is then on its way is waited for, so that the broker's CPU is that of whole messages: in, out and acknowledged.
"""

from __future__ import annotations

import select
import time
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from messaging.protocol import pulsar_pb2 as pb
from tests.benchmarks import load, wire
from tests.benchmarks.beside_peer import equal_frames
from tests.benchmarks.latencies import Latencies
from tests.benchmarks.link import Link
from tests.benchmarks.load import Stalled
from tests.benchmarks.processes import Cost

PERMITS = 1000
RING = 1 << 16  # different messages, sent again and again
WARM_UP = 0.2  # share of the time whose latencies do not count
_STALL_S = 20.0
_SILENCE_S = 0.5  # after which messages that may be lost are


class Load(NamedTuple):
    """`window`: entries without a receipt; `rate_per_s` 0: as fast as that allows. `keys`: of the messages, 0: none. `lossy`: the
    broker may drop messages."""

    size: int = 128
    window: int = 1000
    rate_per_s: float = 0.0
    keys: int = 0
    kind: pb.Subscribe.SubType = pb.Subscribe.Shared
    subscriptions: int = 1
    consumers: int = 1  # of each subscription
    domain: str = "persistent"

    @property
    def lossy(self) -> bool:
        return self.domain != "persistent"


class Delivered(NamedTuple):
    """Rates are those of the producer while it ran; `cpu_us` is the broker's for a message that every subscription received.
    Latencies in ms, of a delivery from the moment in which it was sent; each read counts with its oldest message. `behind_s`: the
    longest that a delivery took."""

    messages: float
    messages_per_s: float
    cpu_us: float
    cores: float
    receipt_p50_ms: float
    receipt_p99_ms: float
    delivery_p50_ms: float
    delivery_p99_ms: float
    behind_s: float
    received_share: float
    client_cores: float
    resident_mib: float


class _Subscription:
    received = 0


@cache
def _ring(size: int, keys: int) -> wire.Stream:
    return wire.Stream("bench", RING, size, 1, keys, numbered=True)


class Run:
    def __init__(self, address: tuple[str, int], topic: str, of: Load) -> None:
        """Connects everybody. Blocks. Raises `Stalled` where that is refused."""
        self.load = of
        self._ring = _ring(of.size, of.keys)
        self._subscriptions = [_Subscription() for _ in range(of.subscriptions)]
        self._links: list[Link] = []
        self._consumers: list[tuple[Link, _Subscription]] = []
        try:
            self._connect(address, topic)
        except BaseException:
            self._close()
            raise
        self._producer = self._links[0]
        self._granted = dict.fromkeys(self._links, 0)
        self._sent = self._receipts = self._pongs = 0
        self._firsts: list[int] = []  # number of the first message of each write, and when that was
        self._times: list[float] = []
        self._pending = memoryview(b"")  # of a write that the kernel took only in part
        self._counts_from = 0.0
        self._receipt_latencies, self._delivery_latencies = Latencies(), Latencies()
        self._behind_s = 0.0

    def _connect(self, address: tuple[str, int], topic: str) -> None:
        self._links.append(Link(load.publisher(address, topic)[0]))
        for number, subscription in enumerate(self._subscriptions):
            for _ in range(self.load.consumers):
                link = Link(load.subscriber(address, topic, PERMITS, f"bench-{number}", self.load.kind))
                self._links.append(link)
                self._consumers.append((link, subscription))

    def _close(self) -> None:
        for link in self._links:
            link.peer.close()

    def run(self, seconds: float, cost: Callable[[], Cost], patience_s: float = 120.0) -> Delivered:
        """Publishes for so long, then waits until all is delivered and acknowledged. Raises `Stalled`."""
        try:
            return self._run(seconds, cost, patience_s)
        finally:
            self._close()

    def _run(self, seconds: float, cost: Callable[[], Cost], patience_s: float) -> Delivered:
        before, own_cpu_s, start = cost(), time.process_time(), time.perf_counter()
        self._counts_from = start + seconds * WARM_UP
        stop = start + seconds
        while (now := time.perf_counter()) < stop:
            self._turn(self._send(start, now))
        published_s = time.perf_counter() - start
        self._finish(stop + patience_s)
        after, elapsed_s = cost(), time.perf_counter() - start
        received = sum(subscription.received for subscription in self._subscriptions) / len(self._subscriptions)
        cpu_s = after.cpu_s - before.cpu_s
        receipts, deliveries = self._receipt_latencies, self._delivery_latencies
        return Delivered(
            messages=self._sent,
            messages_per_s=self._sent / published_s,
            cpu_us=cpu_s / received * 1e6 if received else 0.0,
            cores=cpu_s / elapsed_s,
            receipt_p50_ms=receipts.quantile_ms(0.5),
            receipt_p99_ms=receipts.quantile_ms(0.99),
            delivery_p50_ms=deliveries.quantile_ms(0.5),
            delivery_p99_ms=deliveries.quantile_ms(0.99),
            behind_s=deliveries.worst_s,
            received_share=received / self._sent,
            client_cores=(time.process_time() - own_cpu_s) / elapsed_s,
            resident_mib=after.resident_bytes / 2**20,
        )

    def _finish(self, deadline: float) -> None:
        """Until everything sent has arrived and every consumer's last acknowledgement was read."""
        progress, changed_at = -1, time.perf_counter()
        while not self._complete():
            self._turn(0.05)
            now = time.perf_counter()
            reached = self._receipts + sum(subscription.received for subscription in self._subscriptions)
            if reached != progress:
                progress, changed_at = reached, now
            elif self.load.lossy and self._receipts == self._sent and now - changed_at > _SILENCE_S:
                break
            elif now - changed_at > _STALL_S:
                raise Stalled(f"{self._receipts} receipts for {self._sent}, and {self._received()}")
            if now > deadline:
                raise Stalled(f"all was not delivered in time: {self._received()} of {self._sent}")
        for link in self._links:
            link.out += wire.ping()
        while self._pongs < len(self._links):
            self._turn(0.05)
            if time.perf_counter() > deadline:
                raise Stalled("no answer to a ping")

    def _received(self) -> list[int]:
        return [subscription.received for subscription in self._subscriptions]

    def _complete(self) -> bool:
        return (
            not self._pending
            and self._receipts == self._sent
            and all(subscription.received >= self._sent for subscription in self._subscriptions)
        )

    def _turn(self, wait_s: float) -> None:
        if self._pending:
            self._write(self._pending)
        writers: list[Link] = [link for link in self._links if link.out or (link is self._producer and self._pending)]
        readable, _, _ = select.select(self._links, writers, (), wait_s)
        for link, subscription in self._consumers:
            if link in readable:
                self._deliveries(link, subscription)
            link.flush()
        if self._producer in readable:
            self._read_receipts()
        if not self._pending:
            self._producer.flush()

    def _send(self, start: float, now: float) -> float:
        """Sends what the window and the rate allow; returns for how long there is nothing to send."""
        sent, may, wait_s = self._sent, self._receipts + self.load.window, 0.05
        if self._pending:
            return wait_s
        if self.load.rate_per_s:
            due = int((now - start) * self.load.rate_per_s) + 1
            if due < may:
                may, wait_s = due, max(0.0, start + due / self.load.rate_per_s - now)
        if may > sent:
            self._firsts.append(sent)
            self._times.append(now)
            first = sent % RING
            stop = min(RING, first + may - sent)
            self._sent += stop - first
            self._write(self._ring.slice(first, stop))
        return wait_s

    def _write(self, data: memoryview) -> None:
        try:
            self._pending = data[self._producer.socket.send(data) :]
        except BlockingIOError:
            self._pending = data

    def _read_receipts(self) -> None:
        link, at = self._producer, 0
        link.receive()
        now = time.perf_counter()
        while True:
            kind, size, count = equal_frames.run_at(link.data, at, link.fill)
            if not count:
                break
            if kind == wire.SEND_RECEIPT:
                self._sample(self._receipt_latencies, self._receipts, count, now)
                self._receipts += count
            else:
                self._other(link, kind, at, size)
                count = 1
            at += size * count
        link.used(at)

    def _deliveries(self, link: Link, subscription: _Subscription) -> None:
        at = 0
        link.receive()
        data = link.data
        now = time.perf_counter()
        while True:
            kind, size, count = equal_frames.run_at(data, at, link.fill)
            if not count:
                break
            if kind == wire.MESSAGE:
                link.out += equal_frames.acks(data, at, size, count)
                in_ring = int.from_bytes(data[at + size - 4 : at + size], "big")
                self._sample(self._delivery_latencies, self._number(in_ring, subscription), count, now)
                subscription.received += count
                self._granted[link] += count
            else:
                self._other(link, kind, at, size)
                count = 1
            at += size * count
        link.used(at)
        if self._granted[link] >= PERMITS // 2:
            link.out += wire.flow(self._granted[link])
            self._granted[link] = 0

    def _number(self, in_ring: int, subscription: _Subscription) -> int:
        """Which message it is that has this number in the ring: the one next to those that arrived, or, where some never do, the
        last one sent."""
        if self.load.lossy:
            return self._sent - 1 - (self._sent - 1 - in_ring) % RING
        return subscription.received + (in_ring - subscription.received + RING // 2) % RING - RING // 2

    def _other(self, link: Link, kind: int, at: int, size: int) -> None:
        if kind == wire.PONG:
            self._pongs += 1
        link.other(kind, at, size)

    def _sample(self, latencies: Latencies, number: int, count: int, now: float) -> None:
        """Message `number` and those after it arrived now."""
        sent_at = self._times[max(0, bisect_right(self._firsts, number) - 1)]
        if now >= self._counts_from:
            latencies.add(now - sent_at, count)
