"""Unanswered requests of one connection that run as tasks: how many there may be, and their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from messaging.broker.core.memory_charge import MemoryCharge
from messaging.broker.runtime.wire.outbound import OutboundBuffer
from messaging.protocol import pulsar_pb2 as pb

REQUESTS_MAX = 500  # pending on one connection; it is read no further until half of them are answered
REQUESTS_BYTES_MAX = 2 << 20  # of them
# What is handled while requests are pending or answers pile up: it takes nothing that would be kept, and may be what ends the wait.
NOT_A_REQUEST = frozenset({pb.Command.SEND, pb.Command.FLOW, pb.Command.PONG, pb.Command.CONNECT})
SMALL_ANSWER = frozenset({pb.Command.ACK})  # handled while answers pile up: acknowledging is what a consumer that reads slowly does


class PendingRequests:
    """`answered` is called when half of the room is free again."""

    __slots__ = ("_memory_charge", "_out", "answered", "count", "order", "size_bytes")

    def __init__(self, out: OutboundBuffer, memory_charge: MemoryCharge) -> None:
        self._out = out
        self._memory_charge = memory_charge
        self.answered: Callable[[], None] = lambda: None
        self.count = 0
        self.size_bytes = 0
        self.order: dict[Any, asyncio.Task[None]] = {}  # the last command for one producer or consumer

    def admits(self, kind: int, size: int) -> bool:
        """Not a request of `size` bytes that has to wait until others are answered, or until the peer reads its answers."""
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
