"""A closed ledger that is read."""

from __future__ import annotations

from messaging.bookkeeper.core.entries import Digest, Entry
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.errors import CorruptEntry, Unavailable
from messaging.bookkeeper.metadata.store import MetadataStore
from messaging.bookkeeper.shell.bookies import Bookies
from messaging.bookkeeper.shell.reading import read_entries


class LedgerReader:
    """Reads up to `last_entry_id`: of a closed ledger its last entry, of an open one what its bookies said was confirmed."""

    def __init__(
        self, metadata: LedgerMetadata, digest: Digest, bookies: Bookies, store: MetadataStore, last_entry_id: int
    ) -> None:
        self.metadata = metadata
        self.last_entry_id = last_entry_id
        self._digest = digest
        self._bookies = bookies
        self._store = store

    @property
    def ledger_id(self) -> int:
        return self.metadata.ledger_id

    @property
    def length(self) -> int:
        """Bytes of all payloads; known of closed ledgers."""
        return self.metadata.length

    async def read(self, first: int, last: int, bytes_max: int | None = None) -> list[Entry]:
        """Entries from `first` to `last`, both included, at least one and then up to `bytes_max` bytes of payload.

        Raises `NoSuchEntry` behind the last one, `CorruptEntry` if no bookie has it undamaged, `Unavailable` (try again).
        """
        try:
            return await read_entries(self.metadata, self._digest, self._bookies, first, last, self.last_entry_id, bytes_max)
        except (CorruptEntry, Unavailable):
            stored = await self._store.read(self.ledger_id)
            if stored.segments == self.metadata.segments:
                raise
            self.metadata = stored  # repair copied entries to other bookies
            return await read_entries(self.metadata, self._digest, self._bookies, first, last, self.last_entry_id, bytes_max)
