"""A semaphore that is fair between tenants: each has one turn at a time, and those that wait are served in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from messaging.fair_queue import FairQueue


class FairTurns:
    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._running: set[str] = set()
        self._waiting: FairQueue[tuple[str, asyncio.Future[None]]] = FairQueue()

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        begins: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.push(tenant, (tenant, begins))
        self._go_on()
        try:
            await begins
        except asyncio.CancelledError:
            self._waiting.discard(tenant, (tenant, begins))
            if begins.done() and not begins.cancelled():
                self._end(tenant)
            raise
        try:
            yield
        finally:
            self._end(tenant)

    def _end(self, tenant: str) -> None:
        self._free += 1
        self._running.discard(tenant)
        self._go_on()

    def _go_on(self) -> None:
        while self._free:
            following = self._waiting.pop(lambda tenant, _: tenant not in self._running)
            if following is None:
                return
            tenant, begins = following
            if not begins.done():
                self._free -= 1
                self._running.add(tenant)
                begins.set_result(None)
