"""The unanswered requests of one connection that run as tasks: limits their number and keeps their order.

Look-ups that wait until somebody serves their topic again do not count as running: for seconds the connection would be read no
further, with all that its producers and consumers send behind them. They have bounds of their own, beyond which they are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from messaging.broker.core.memory.memory_charge import MemoryCharge
from messaging.broker.runtime.wire.outbound import OutboundBuffer
from messaging.protocol import pulsar_pb2 as pb

REQUESTS_MAX = 500  # pending per connection; reading pauses until half of them are answered
REQUESTS_BYTES_MAX = 2 << 20  # of them
TASK_BYTES = 1024  # memory charged for a running request, in addition to its frame
WAITING_MAX = 1_000  # look-ups of a connection that wait
WAITING_BYTES_MAX = 2 << 20  # of them
# Handled even while requests are pending or responses pile up: they add nothing to memory and may be what ends the wait.
NOT_A_REQUEST = frozenset({pb.Command.SEND, pb.Command.FLOW, pb.Command.PONG, pb.Command.CONNECT})
SMALL_ANSWER = frozenset({pb.Command.ACK})  # handled while responses pile up: a slow consumer must be able to acknowledge


class PendingRequests:
    """`answered` is called when half of the slots are free again."""

    __slots__ = ("_memory_charge", "_out", "answered", "count", "order", "size_bytes", "waiting", "waiting_bytes")

    def __init__(self, out: OutboundBuffer, memory_charge: MemoryCharge) -> None:
        self._out = out
        self._memory_charge = memory_charge
        self.answered: Callable[[], None] = lambda: None
        self.count = 0
        self.size_bytes = 0
        self.waiting = 0  # of them
        self.waiting_bytes = 0
        self.order: dict[Any, asyncio.Task[None]] = {}  # the last command per producer or consumer

    def admits(self, kind: int, size: int) -> bool:
        """False for a request of `size` bytes that must wait until others are answered or the peer reads its responses."""
        if kind in NOT_A_REQUEST:
            return True
        if not self._out.writable and kind not in SMALL_ANSWER:
            return False
        if not self.count:
            return True
        full = self._running >= REQUESTS_MAX or self.size_bytes - self.waiting_bytes + size > REQUESTS_BYTES_MAX
        return not (self._running and full) and self._memory_charge.allows(size)  # what waits is in memory as well

    @property
    def _running(self) -> int:
        return self.count - self.waiting

    def begin(self, size: int) -> None:
        self.count += 1
        self.size_bytes += size
        self._memory_charge.change(size)

    def end(self, size: int) -> None:
        self.count -= 1
        self.size_bytes -= size
        self._memory_charge.change(-size)
        self._go_on()

    def _go_on(self) -> None:
        if self._running <= REQUESTS_MAX // 2:
            self.answered()

    @contextmanager
    def place(self, size: int) -> Iterator[bool]:
        """For a request that has begun with `size` bytes, as long as it waits. False: too many of this connection do."""
        if self.waiting >= WAITING_MAX or self.waiting_bytes + size > WAITING_BYTES_MAX:
            yield False
            return
        self.waiting += 1
        self.waiting_bytes += size
        self._go_on()
        try:
            yield True
        finally:
            self.waiting -= 1
            self.waiting_bytes -= size
