"""The managed ledger of a topic whose messages are stored nowhere: it has no ledgers, and its record lives as long as the topic."""

from __future__ import annotations

from collections.abc import Callable

from messaging.storage.ledger_store import LedgerClosed
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.meta_store import TopicRecord


class NoLedger(ManagedLedger):
    """Appending to it raises `LedgerClosed`."""

    __slots__ = ()

    async def writable(self) -> None:
        """Returns at once: there is nothing to open. Raises `LedgerClosed` once it is closed."""
        if self.closed:
            raise LedgerClosed(f"topic {self.record.name} was closed")

    async def update(self, change: Callable[[TopicRecord], TopicRecord]) -> None:
        if self.closed:
            raise LedgerClosed(f"topic {self.record.name} was closed")
        self.record = change(self.record)
