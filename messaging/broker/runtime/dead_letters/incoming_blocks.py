"""Blocks of moves that come from another broker in pieces: a request has a limit, and a block of dead letters may be larger."""

from __future__ import annotations

import asyncio

from messaging.broker.core.memory.memory_charge import Charge
from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.errors import NotReady

PIECE_BYTES = 4 << 20
KEPT_S = 30.0  # a block of which nothing has come for so long is forgotten


class _Block:
    def __init__(self, charge: Charge) -> None:
        self.charge = charge
        self.pieces: list[bytes] = []
        self.came = 0  # bytes
        self.forgetting: asyncio.TimerHandle | None = None


class IncomingBlocks:
    """`memory`: what is kept is charged to the tenant of the target."""

    def __init__(self, memory: MemoryAccount) -> None:
        self._memory = memory
        self._blocks: dict[str, _Block] = {}  # by attempt

    def add(self, attempt: str, tenant: str, at: int, size: int, data: bytes) -> bytes | None:
        """The block of `size` bytes, if `data`, which begins at the offset `at`, is its last piece; else None. They come in order.
        Raises `NotReady` where there is no memory for it, or they do not fit each other: then all of it is sent again."""
        block = self._blocks.pop(attempt, None)
        if block is None:
            block = _Block(Charge(self._memory, tenant))
            if not block.charge.allows(size):
                raise NotReady(f"there is not enough memory to take {size} bytes of dead letters")
            block.charge.change(size)
        elif block.forgetting is not None:
            block.forgetting.cancel()
        if block.came != at or at + len(data) > size:
            block.charge.end()
            raise NotReady("the pieces of a block of dead letters do not fit each other: it is moved again")
        block.pieces.append(data)
        block.came += len(data)
        if block.came == size:
            block.charge.end()
            return b"".join(block.pieces)
        block.forgetting = asyncio.get_running_loop().call_later(KEPT_S, self._forget, attempt)
        self._blocks[attempt] = block
        return None

    def _forget(self, attempt: str) -> None:
        self._blocks.pop(attempt).charge.end()
