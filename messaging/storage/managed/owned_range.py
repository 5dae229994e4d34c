"""A range of topics that one process owns, and taking one over."""

from __future__ import annotations

from dataclasses import dataclass

from messaging.storage.ledger_store import WHOLE, Fence, LedgerStore
from messaging.storage.meta_store import MetaStore


@dataclass(frozen=True, slots=True)
class OwnedRange:
    """All that is stored of the range changes under one fence, and its cursors have one log. Today there is one range, `WHOLE`."""

    fence: Fence
    first_ledger_id: int  # the first one that this owner took: ledgers with a lower id are of earlier owners

    @property
    def name(self) -> str:
        return self.fence.scope


async def take_over(ledgers: LedgerStore, meta: MetaStore, name: str = WHOLE) -> OwnedRange:
    """Both stores are started. What an earlier owner still does to this range fails from here on. Raises `StoreError`."""
    fence = await meta.acquire(name, after=ledgers.epoch - 1)
    await ledgers.take_over(fence)
    return OwnedRange(fence, await meta.next_ledger_id(fence))
