"""Turns of tasks of one event loop, fair between tenants. Nobody waits for a peer, or sleeps, within a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from messaging.errors import NotReady
from messaging.fairness.slots import FairSlots


class FairTurns:
    """`slots` says how many there are at a time; see `FairSlots` for what a tenant has of them."""

    def __init__(self, slots_max: int, per_tenant_max: int | None = None, waiting_max: int | None = None) -> None:
        self.slots: FairSlots[asyncio.Future[None]] = FairSlots(slots_max, per_tenant_max, waiting_max)

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Raises `NotReady` where too much of this tenant waits already."""
        await self.begin(tenant)
        try:
            yield
        finally:
            self.end(tenant)

    async def begin(self, tenant: str, *, always: bool = False) -> None:
        """Returns when it is this tenant's turn, which `end` gives back. Raises `NotReady` unless it may `always` wait."""
        begins: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.slots.ask(tenant, begins, always=always):
            raise NotReady(f"{self.slots.waiting.total()} others wait already: try again in a moment")
        self._go_on()
        try:
            await begins
        except asyncio.CancelledError:
            if begins.done() and not begins.cancelled():
                self.end(tenant)
            else:
                self.slots.withdraw(tenant, begins)
            raise

    def end(self, tenant: str) -> None:
        self.slots.end(tenant)
        self._go_on()

    def _go_on(self) -> None:
        while (following := self.slots.begin()) is not None:
            tenant, begins = following
            if begins.done():  # cancelled, and its task has not noticed yet
                self.slots.end(tenant)
            else:
                begins.set_result(None)
