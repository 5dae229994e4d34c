"""Turns of work and answers that take much memory: a few at a time, by tenant, each when its memory account has the bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.errors import NotReady
from messaging.fairness.turns import FairTurns

LOOKS = 100  # for memory
LOOK_S = 0.1


def _always() -> bool:
    return True


class MemoryTurns:
    """`at_once`: as many have a turn at a time, one of each tenant."""

    def __init__(self, at_once: int) -> None:
        self._turns = FairTurns(at_once, per_tenant_max=1)

    @asynccontextmanager
    async def turn(
        self, account: MemoryAccount, tenant: str, size_bytes: int, ready: Callable[[], bool] = _always
    ) -> AsyncIterator[None]:
        """So much is charged to `tenant` inside this context. Whoever waits until it is `ready`, or for memory, keeps no turn.
        Raises `NotReady` if that takes long, and what `ready` raises."""
        for _ in range(LOOKS):
            async with self._turns.turn(tenant):
                if ready() and account.allows(tenant, size_bytes):
                    account.take(tenant, size_bytes)
                    try:
                        yield
                    finally:
                        account.give(tenant, size_bytes)
                    return
            await asyncio.sleep(LOOK_S)
        raise NotReady("this tenant's requests hold too much memory: read the responses and try again")
