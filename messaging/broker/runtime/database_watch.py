"""Whether the databases and bookies that a broker stores in answer, also while no client asks for anything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from messaging.storage.ledger_store import StoreError

log = structlog.get_logger("broker.databases")

LOOP = "database_watch"
LOOK_S = 5.0
ANSWER_S = 5.0


class DatabaseWatch:
    """`asks`: by what it is ("the PostgreSQL of metadata_url"), a call that returns once it has answered. `failing` says which does
    not; "": all did when they were asked last."""

    def __init__(self, asks: Mapping[str, Callable[[], Awaitable[object]]]) -> None:
        self.failing = ""
        self._asks = asks
        self._asked: dict[str, asyncio.Future[object]] = {}  # one at a time: whoever does not answer is not asked again

    async def look(self) -> None:
        self.failing = "; ".join([why for what in self._asks if (why := await self._look_at(what))])

    async def _look_at(self, what: str) -> str:
        asked = self._asked.get(what)
        if asked is None:
            asked = self._asked[what] = asyncio.ensure_future(self._asks[what]())
        done, _ = await asyncio.wait([asked], timeout=ANSWER_S)
        if not done:
            return f"{what} has not answered for {ANSWER_S:.0f} s"
        del self._asked[what]
        error = asked.exception()
        if error is not None and not isinstance(error, StoreError):
            raise error
        if error is not None:
            log.warning("database.failing", what=what, error=str(error))
        # Whoever asks whether we are ready may be anybody: where the server is stays in the log.
        return f"{what} does not answer as it should" if error is not None else ""
