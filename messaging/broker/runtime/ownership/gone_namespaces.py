"""Removes the rows of ownership of namespaces that are gone: nobody asks for their bundles again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.storage.ledger_store import Fenced
from messaging.storage.meta_store import MetaStore
from messaging.storage.ownership import OwnershipRow, OwnershipStore

log = structlog.get_logger("broker.ownership")

LOOK_S = 60.0
REMOVED_AT_ONCE = 100


class GoneNamespaces:
    """`exists`: whether there is such a namespace, also in the recycle bin, or that is not known. One that is missing at two looks
    and has no topics is gone: it may only not be known here yet. Rows of live brokers are left to these, and kept here until they
    have removed them: the namespace may come back before, and then they own what they did."""

    def __init__(self, member: FleetMember, store: OwnershipStore, topics: MetaStore, exists: Callable[[str], bool]) -> None:
        self._member = member
        self._store = store
        self._topics = topics
        self._exists = exists
        self._missing: set[str] = set()

    async def look(self) -> None:
        """Raises `StoreError`."""
        owners = self._member.owners
        missing = {namespace for namespace in owners.namespaces if not self._exists(namespace)}
        gone, self._missing = missing & self._missing, missing
        for namespace in sorted(gone):
            if await self._topics.list_topics(namespace, limit=1):
                continue  # they are being deleted, under the fences of its bundles
            rows = owners.rows_of(namespace)
            mine = [row for row in rows if row.broker_id == self._member.broker_id or not owners.is_live(row)]
            for start in range(0, len(mine), REMOVED_AT_ONCE):
                await asyncio.gather(*map(self._remove, mine[start : start + REMOVED_AT_ONCE]))
            stored = await self._store.bundles_of(namespace)
            for row in rows:
                if row not in stored:
                    owners.drop(row)
            if not owners.rows_of(namespace):
                self._missing.discard(namespace)
                log.info("ownership.namespace_gone", namespace=namespace, removed=len(mine))

    async def _remove(self, row: OwnershipRow) -> None:
        try:
            await self._store.remove_bundle(row)
        except Fenced:  # it was removed, or acquired, by another broker
            pass
