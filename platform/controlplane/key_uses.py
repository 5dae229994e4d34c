"""Which keys called this web process: written down by the minute, beside what brokers tell the workers."""

from __future__ import annotations

import asyncio

from django.db import connections

from messaging import logs
from messaging.key_uses import KeyUses
from tenants.key_uses import record_key_uses

_log = logs.get_logger("web")
EVERY_S = 30.0


class KeyUseWriter:
    """One owner, on an event loop."""

    def __init__(self, uses: KeyUses, every_s: float = EVERY_S) -> None:
        self._uses = uses
        self._every_s = every_s
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self._run(), name="write key uses")

    async def end(self) -> None:
        """After the last request."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self.write()

    async def write(self) -> None:
        """What cannot be written waits for the next time."""
        try:
            await asyncio.to_thread(self._write)
        except Exception as error:  # the database is away, or busy for too long
            _log.warning("key uses could not be written", error=str(error))

    def _write(self) -> None:
        try:
            taken = self._uses.take()
            while taken.uses:
                record_key_uses(taken.uses)
                waiting = taken.waiting
                taken = self._uses.take(taken.number)
                if not waiting:
                    break
        finally:
            connections.close_all()  # of this thread

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self.write()
