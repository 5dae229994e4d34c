"""Connections without sockets: a transport for the broker, a peer for the simulation, and a seeded delay between the two.

What a peer sends arrives in pieces of any size, as over TCP. What the broker sends arrives in its order; the checker is told of it
when the broker writes it, since that is when the broker makes a promise.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import Received

DELAY_S_MAX = 0.002


class Link(asyncio.Transport):
    """One connection. `written` hears of what the broker writes, `received` of what arrives, `lost` of its end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        written: Callable[[Received], None],
        received: Callable[[Received], None],
        lost: Callable[[], None],
    ) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self._loop = loop
        self._random = random
        self._written, self._received, self._lost = written, received, lost
        self._protocol: Any = None
        self._to_broker = bytearray()
        self._incomplete = bytearray()  # the beginning of a frame that the broker has not written whole
        self._to_peer: deque[tuple[int, Received]] = deque()
        self._unread_bytes = 0
        self._high, self._low = 64 << 10, 16 << 10
        self._reading, self._writing, self._closing = True, True, False
        self._delivering, self._feeding = False, False
        self.peer_reads = True
        self.open = True

    def connect(self, protocol: Any) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    # The peer's side

    def send(self, data: bytes) -> None:
        self._to_broker += data
        self._feed_later()

    def read_on(self) -> None:
        """The peer reads again."""
        self.peer_reads = True
        self._deliver_later()

    def cut(self, *, arrives: bool = False) -> None:
        """The connection ends without a word. `arrives`: what the broker has written still reaches the peer."""
        if self.open:
            self.open = False
            if arrives:
                for _, received in self._to_peer:
                    self._received(received)
            self._to_peer.clear()
            self._lost()

    def close_by_peer(self) -> None:
        if self.open:
            self.cut()
            self._protocol.connection_lost(None)

    # In between

    def _feed_later(self) -> None:
        if not self._feeding and self._to_broker and self._reading and self.open:
            self._feeding = True
            self._loop.call_later(self._random.random() * DELAY_S_MAX, self._feed)

    def _feed(self) -> None:
        self._feeding = False
        if not self._reading or not self.open or self._closing:
            return
        size = len(self._to_broker)
        if self._random.random() < 0.3:
            size = self._random.randint(1, size)
        piece = bytes(self._to_broker[:size])
        del self._to_broker[:size]
        self._protocol.data_received(piece)
        self._feed_later()

    def _deliver_later(self) -> None:
        if not self._delivering and self._to_peer and self.peer_reads and self.open:
            self._delivering = True
            self._loop.call_later(self._random.random() * DELAY_S_MAX, self._deliver)

    def _deliver(self) -> None:
        self._delivering = False
        for _ in range(self._random.randint(1, 1 + len(self._to_peer))):
            if not self.open or not self.peer_reads or not self._to_peer:
                break
            size, received = self._to_peer.popleft()
            self._unread_bytes -= size
            self._received(received)
        if not self.open:
            return
        if not self._writing and self._unread_bytes <= self._low:
            self._writing = True
            self._protocol.resume_writing()
        if self._closing and not self._to_peer:
            self.abort()
        self._deliver_later()

    # The broker's side

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.open or self._closing:
            return
        self._incomplete += data
        while len(self._incomplete) >= 4:
            total = int.from_bytes(self._incomplete[:4], "big")
            if len(self._incomplete) < 4 + total:
                break
            frame = bytes(self._incomplete[4 : 4 + total])
            del self._incomplete[: 4 + total]
            size = int.from_bytes(frame[:4], "big")
            received = Received(pb.Command.FromString(frame[4 : 4 + size]), frame[4 + size :])
            self._to_peer.append((4 + total, received))
            self._unread_bytes += 4 + total
            self._written(received)
        if self._writing and self._unread_bytes > self._high:
            self._writing = False
            self._loop.call_soon(self._protocol.pause_writing)
        self._deliver_later()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._closing or not self.open

    def close(self) -> None:
        self._closing = True
        if not self._to_peer:
            self._loop.call_soon(self.abort)

    def abort(self) -> None:
        self._closing = True
        if self.open:
            self.cut()
            self._loop.call_soon(self._protocol.connection_lost, None)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._feed_later()

    def is_reading(self) -> bool:
        return self._reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 << 10 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._unread_bytes
