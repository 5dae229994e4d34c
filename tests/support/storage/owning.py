"""Owning what a ledger store holds, where no metadata store gives out fences."""

from __future__ import annotations

from messaging.storage.ledger_store import WHOLE, Fence, LedgerStore
from messaging.storage.managed.owned_range import OwnedRange, take_over
from messaging.storage.meta_store import MetaStore

FENCE = Fence(WHOLE, 1)  # what a new metadata store gives out first


async def started(store: LedgerStore) -> Fence:
    """Starts the store; the fence of its owner, which has the whole range."""
    await store.start()
    fence = fence_of(store)
    await store.take_over(fence)
    return fence


def fence_of(store: LedgerStore) -> Fence:
    """The fence that `started` made."""
    return Fence(WHOLE, store.epoch)


async def owned(store: LedgerStore, meta: MetaStore) -> OwnedRange:
    """Starts `store`, beside a metadata store that is started, and takes the whole range over."""
    await store.start()
    return await take_over(store, meta)
