"""Admin RPC: the bookies of the ledger store, and their racks."""

from __future__ import annotations

from collections.abc import Callable

from messaging.adminrpc.base import Request
from messaging.adminrpc.bookies import BookieRack, BookieRackBefore, BookieRackSet, BookieRef, BookieSeen, BookiesSeen
from messaging.adminrpc.methods import BOOKIES_DELETE_RACK, BOOKIES_LIST, BOOKIES_SET_RACK
from messaging.bookkeeper.core.racks import RackTable
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.errors import MagnetarError, NotFound, NotReady, PreconditionFailed
from messaging.storage.bookie_store import BookieStore
from messaging.storage.ledger_store import StoreError


class BookieHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(BOOKIES_LIST)
    async def list_bookies(self, request: Request) -> BookiesSeen:
        store = self._store()
        try:
            table, bookies = await store.racks.table(), store.bookies()
        except StoreError as error:
            raise _said(error) from None
        return BookiesSeen(
            bookies=[
                BookieSeen(bookie=each.bookie, rack=each.rack, read_only=each.read_only, problem=each.problem or "")
                for each in bookies
            ],
            racks={group: {bookie: _shown(table, bookie) for bookie in there} for group, there in table.groups.items()},
        )

    @answers(BOOKIES_SET_RACK)
    async def set_rack(self, request: BookieRackSet) -> BookieRackBefore:
        """New ledgers are placed by it, and bookies that replace others; what is stored stays where it is."""
        given = (("rack", request.rack), ("hostname", request.hostname))
        info = {name: value for name, value in given if value}
        return await self._change(request.bookie, lambda table: table.with_bookie(request.group, request.bookie, info))

    @answers(BOOKIES_DELETE_RACK)
    async def delete_rack(self, request: BookieRef) -> BookieRackBefore:
        def without(table: RackTable) -> RackTable:
            if table.info(request.bookie) is None:
                raise NotFound(f"Bookie rack placement configuration not found: {request.bookie[:80]}")
            return table.without(request.bookie)

        return await self._change(request.bookie, without)

    async def _change(self, bookie: str, change: Callable[[RackTable], RackTable]) -> BookieRackBefore:
        try:
            before = await self._store().racks.change(change)
        except StoreError as error:
            raise _said(error) from None
        if before.info(bookie) is None:
            return BookieRackBefore()
        group = next(group for group, there in before.groups.items() if bookie in there)
        return BookieRackBefore(group=group, before=_shown(before, bookie))

    def _store(self) -> BookieStore:
        """Raises `PreconditionFailed` where messages are elsewhere."""
        store = self._broker.storage.ledgers
        if not isinstance(store, BookieStore):
            raise PreconditionFailed("messages are on no bookies here: ledger_url names no BookKeeper")
        return store


def _said(error: StoreError) -> MagnetarError:
    return NotReady(str(error)) if error.retryable else PreconditionFailed(str(error))


def _shown(table: RackTable, bookie: str) -> BookieRack:
    info = table.info(bookie) or {}
    return BookieRack(rack=str(info.get("rack") or ""), hostname=str(info.get("hostname") or ""))
