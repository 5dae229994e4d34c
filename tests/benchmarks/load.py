"""A load generator in one thread: prepared frames out, receipts and messages in, with as little work a message as Python allows.

It shares the machine with the broker, so a figure near the generator's own limit says little about the broker; `Result` tells how
busy it was. Times are taken once a read and once a write, for all messages of it: the error is that of one socket read.
"""

from __future__ import annotations

import select
import socket
import time
from typing import NamedTuple

from messaging.protocol import pulsar_pb2 as pb
from tests.benchmarks import wire

_READ_BYTES = 1 << 20
_STALL_S = 20.0


class Stalled(Exception):
    """The broker stopped answering."""


class Result(NamedTuple):
    """Latencies in ms of entries after the warm-up; `elapsed_s` from the first byte to the last receipt (or delivery)."""

    entries: int
    messages: int
    elapsed_s: float
    receipt_ms: list[float]
    delivery_ms: list[float]
    generator_cpu_s: float

    @property
    def messages_per_s(self) -> float:
        return self.messages / self.elapsed_s


class Peer:
    """One connection of the binary protocol, past its handshake."""

    def __init__(self, address: tuple[str, int], topic: str) -> None:
        self.topic = topic
        self.socket = socket.create_connection(address, timeout=_STALL_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.ask(wire.connect(), wire.CONNECTED)

    def ask(self, request: bytes, kind: int) -> bytes:
        """Sends one command and waits for the answer of a kind; returns its frame without the total. Raises `Stalled` where it is
        refused or the connection ends, and has closed it then."""
        self.socket.sendall(request)
        while True:
            for number, frame in wire.split(self.buffer):
                if number == kind:
                    return bytes(frame)
                if number in (wire.ERROR, wire.SEND_ERROR):
                    self.close()
                    raise Stalled(f"the broker refused: {bytes(frame)!r}")
                if number == wire.PING:
                    self.socket.sendall(wire.pong())
            data = self.socket.recv(_READ_BYTES)
            if not data:
                self.close()
                raise Stalled("the broker closed the connection")
            self.buffer += data

    def close(self) -> None:
        self.socket.close()


def publisher(address: tuple[str, int], topic: str) -> tuple[Peer, str]:
    """A connection with a producer on it, and the producer's name."""
    from messaging.protocol.frames import decode

    peer = Peer(address, topic)
    peer.ask(wire.lookup(topic), 24)
    frame = peer.ask(wire.producer(topic), wire.PRODUCER_SUCCESS)
    return peer, decode(frame).producer_success.producer_name


def subscriber(
    address: tuple[str, int],
    topic: str,
    permits: int,
    subscription: str = "bench",
    kind: pb.Subscribe.SubType = pb.Subscribe.Shared,
) -> Peer:
    peer = Peer(address, topic)
    peer.ask(wire.lookup(topic), 24)
    peer.ask(wire.subscribe(topic, subscription, kind), wire.SUCCESS)
    peer.socket.sendall(wire.flow(permits))
    return peer


class Run:
    """Sends a stream of entries with at most `window` unanswered; a `consumer` receives and acknowledges each one by itself."""

    def __init__(
        self, peer: Peer, stream: wire.Stream, window: int, rate_per_s: float = 0.0, consumer: Peer | None = None, permits: int = 0
    ) -> None:
        self.peer, self.stream, self.window, self.rate_per_s = peer, stream, window, rate_per_s
        self.consumer, self.permits = consumer, permits
        self.total = len(stream.stops)
        self.sent_at: list[float] = []
        self.receipts_at: list[float] = []
        self.deliveries_at: list[float] = []
        self._pending = memoryview(b"")  # of a write that the kernel took only in part
        self._acks = bytearray()
        self._granted = 0

    def run(self, warm_up: float = 0.2) -> Result:
        """Blocks until every entry was receipted (and delivered). `warm_up`: share of the entries whose latencies do not count."""
        cpu_s, start = time.process_time(), time.perf_counter()
        peers = {self.peer.socket.fileno(): self.peer}
        self.peer.socket.setblocking(False)
        if self.consumer is not None:
            peers[self.consumer.socket.fileno()] = self.consumer
            self.consumer.socket.setblocking(False)
        poll = select.poll()
        for descriptor in peers:
            poll.register(descriptor, select.POLLIN)
        while not self._done():
            wait_s = self._send(start)
            poll.modify(self.peer.socket, select.POLLIN | (select.POLLOUT if self._pending else 0))
            ready = poll.poll(wait_s * 1000)
            if not ready and wait_s >= _STALL_S:
                raise Stalled(f"{len(self.receipts_at)} of {self.total} receipts, {len(self.deliveries_at)} deliveries")
            for descriptor, events in ready:
                if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    self._read(peers[descriptor])
            self._flush_acks()
        elapsed_s = time.perf_counter() - start
        skip = int(self.total * warm_up)
        return Result(
            entries=self.total,
            messages=self.total * self.stream.batch,
            elapsed_s=elapsed_s,
            receipt_ms=[(done - sent) * 1000 for sent, done in zip(self.sent_at[skip:], self.receipts_at[skip:], strict=True)],
            delivery_ms=[(done - sent) * 1000 for sent, done in zip(self.sent_at[skip:], self.deliveries_at[skip:], strict=False)],
            generator_cpu_s=time.process_time() - cpu_s,
        )

    def _done(self) -> bool:
        return len(self.receipts_at) >= self.total and (self.consumer is None or len(self.deliveries_at) >= self.total)

    def _send(self, start: float) -> float:
        """Sends what the window and the rate allow; returns for how long there is nothing to send."""
        if self._pending:
            self._write(self._pending)
            if self._pending:
                return _STALL_S
        sent = len(self.sent_at)
        may = min(self.total, len(self.receipts_at) + self.window)
        wait_s = _STALL_S
        now = time.perf_counter()
        if self.rate_per_s:
            due = int((now - start) * self.rate_per_s) + 1
            if due < may:
                may, wait_s = due, max(0.0, start + due / self.rate_per_s - now)
        if may > sent:
            self.sent_at.extend([now] * (may - sent))
            self._write(self.stream.slice(sent, may))
        return wait_s

    def _write(self, data: memoryview) -> None:
        try:
            self._pending = data[self.peer.socket.send(data) :]
        except BlockingIOError:
            self._pending = data

    def _read(self, peer: Peer) -> None:
        data = peer.socket.recv(_READ_BYTES)
        if not data:
            raise Stalled("the broker closed the connection")
        peer.buffer += data
        now = time.perf_counter()
        receipts = deliveries = 0
        acks = self._acks
        for kind, frame in wire.split(peer.buffer):
            if kind == wire.SEND_RECEIPT:
                receipts += 1
            elif kind == wire.MESSAGE:
                deliveries += 1
                # size | 08 09 4a n | 08 consumer 12 m | m bytes of message id: acknowledged as it came
                identifier = frame[12 : 12 + frame[11]]
                size = frame[11] + 6
                acks += (size + 8).to_bytes(4, "big") + (size + 4).to_bytes(4, "big") + b"\x08\x0a\x52"
                acks += bytes((size, 0x08, 1, 0x10, 0, 0x1A, frame[11])) + identifier
            elif kind == wire.PING:
                peer.socket.sendall(b"\x00\x00\x00\x09\x00\x00\x00\x05\x08\x13\x9a\x01\x00")
            elif kind in (wire.ERROR, wire.SEND_ERROR):
                raise Stalled(f"the broker refused: {bytes(frame)!r}")
        self.receipts_at.extend([now] * receipts)
        self.deliveries_at.extend([now] * deliveries)

    def _flush_acks(self) -> None:
        if self.consumer is None or not self._acks:
            return
        delivered = len(self.deliveries_at)
        if delivered * self.stream.batch - self._granted >= self.permits // 2:
            self._acks += wire.flow(delivered * self.stream.batch - self._granted)
            self._granted = delivered * self.stream.batch
        try:
            sent = self.consumer.socket.send(self._acks)
        except BlockingIOError:
            return
        del self._acks[:sent]
