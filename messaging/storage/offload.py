"""The seam to a second home of sealed ledgers: an object store, a directory on a cheaper disk.

A ledger that was offloaded says so in its topic's record; one whose local copy was then dropped is read from there. When, and of
which topics, is nobody's decision yet: `ManagedLedger.offload` does it for one ledger.
"""

from __future__ import annotations

from typing import Protocol

from messaging.storage.ledger_store import LedgerInfo, LedgerReader


class LedgerOffloader(Protocol):
    """Ledger ids are unique over the store, so they name what is kept here too. No method blocks the event loop; nothing but
    `StoreError` escapes."""

    async def offload(self, info: LedgerInfo, reader: LedgerReader) -> None:
        """Keeps a copy of a sealed ledger, durable when this returns. Idempotent: a copy cut off by a crash is made anew."""

    async def open(self, ledger_id: int) -> LedgerReader:
        """Reads what was offloaded, block by block as it was appended. Raises `NoSuchLedger`, `Corrupt`, `Unavailable`."""

    async def delete(self, ledger_id: int) -> None:
        """Idempotent."""
