"""A range of topics that one process owns, and taking ownership of it."""

from __future__ import annotations

from dataclasses import dataclass

from messaging.storage.ledger_store import WHOLE, Fence, LedgerStore
from messaging.storage.meta_store import MetaStore


@dataclass(frozen=True, slots=True)
class OwnedRange:
    """All stored state of the range changes under one fence, and its cursors share one log. There is one range now, `WHOLE`."""

    fence: Fence
    first_ledger_id: int  # the first id that this owner allocated; lower ids belong to earlier owners

    @property
    def name(self) -> str:
        return self.fence.scope


async def take_over(ledgers: LedgerStore, meta: MetaStore, name: str = WHOLE, *, after_ledger_id: int = 0) -> OwnedRange:
    """Takes ownership; both stores must be started. Changes by an earlier owner fail from now on. New ledgers get higher ids than
    `after_ledger_id`. Raises `StoreError`."""
    fence = await meta.acquire(name, after=ledgers.epoch - 1)
    await ledgers.take_over(fence)
    return OwnedRange(fence, await meta.next_ledger_id(fence, after=after_ledger_id))
