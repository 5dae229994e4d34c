"""Carrying out `WriteMetadata`: what is stored afterwards, also where the answer was lost."""

from __future__ import annotations

import asyncio

from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.errors import Unavailable
from messaging.bookkeeper.metadata.store import MetadataConflict, MetadataStore, UnknownOutcome

_PAUSE_S = 0.2


async def write_metadata(store: MetadataStore, metadata: LedgerMetadata, timeout_s: float) -> tuple[bool, LedgerMetadata]:
    """(whether this was written, what is stored). Raises `NoSuchLedger`, and `Unavailable` after `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            try:
                return True, await store.write(metadata)
            except (MetadataConflict, UnknownOutcome, Unavailable):
                pass
            while True:
                try:
                    return False, await store.read(metadata.ledger_id)
                except Unavailable:
                    await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        problem = f"the metadata of ledger {metadata.ledger_id} could not be written or read within {timeout_s:g} s"
        raise Unavailable(problem, metadata.ledger_id) from None
