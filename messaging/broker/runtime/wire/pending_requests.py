"""The unanswered requests of one connection that run as tasks: limits their number and keeps their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from messaging.broker.core.memory.memory_charge import MemoryCharge
from messaging.broker.runtime.wire.outbound import OutboundBuffer
from messaging.protocol import pulsar_pb2 as pb

REQUESTS_MAX = 500  # pending per connection; reading pauses until half of them are answered
REQUESTS_BYTES_MAX = 2 << 20  # of them
# Handled even while requests are pending or responses pile up: they add nothing to memory and may be what ends the wait.
NOT_A_REQUEST = frozenset({pb.Command.SEND, pb.Command.FLOW, pb.Command.PONG, pb.Command.CONNECT})
SMALL_ANSWER = frozenset({pb.Command.ACK})  # handled while responses pile up: a slow consumer must be able to acknowledge


class PendingRequests:
    """`answered` is called when half of the slots are free again."""

    __slots__ = ("_memory_charge", "_out", "answered", "count", "order", "size_bytes")

    def __init__(self, out: OutboundBuffer, memory_charge: MemoryCharge) -> None:
        self._out = out
        self._memory_charge = memory_charge
        self.answered: Callable[[], None] = lambda: None
        self.count = 0
        self.size_bytes = 0
        self.order: dict[Any, asyncio.Task[None]] = {}  # the last command per producer or consumer

    def admits(self, kind: int, size: int) -> bool:
        """False for a request of `size` bytes that must wait until others are answered or the peer reads its responses."""
        if kind in NOT_A_REQUEST:
            return True
        if not self._out.writable and kind not in SMALL_ANSWER:
            return False
        if not self.count:
            return True
        full = self.count >= REQUESTS_MAX or self.size_bytes + size > REQUESTS_BYTES_MAX
        return not full and self._memory_charge.allows(size)

    def begin(self, size: int) -> None:
        self.count += 1
        self.size_bytes += size
        self._memory_charge.change(size)

    def end(self, size: int) -> None:
        self.count -= 1
        self.size_bytes -= size
        self._memory_charge.change(-size)
        if self.count <= REQUESTS_MAX // 2:
            self.answered()
