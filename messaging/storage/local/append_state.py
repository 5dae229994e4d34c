"""How far the appends of one ledger's writer have come, as counted by the writer and the commit queue."""

from __future__ import annotations

from messaging.storage.ledger_store import Fenced, LedgerClosed, StoreError


class AppendState:
    """`refusal`: the reason why appends are no longer accepted; `broken`: an append failed."""

    __slots__ = ("broken", "last_confirmed", "ledger_id", "length_bytes", "next_entry", "pending_bytes", "refusal")

    def __init__(self, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self.last_confirmed = -1
        self.next_entry = 0
        self.length_bytes = 0
        self.pending_bytes = 0
        self.refusal: StoreError | None = None
        self.broken = False

    def refuse(self, reason: StoreError, size: int) -> None:
        """An append of `size` bytes failed."""
        self.pending_bytes -= size
        self.broken = True
        self.end(LedgerClosed(f"ledger {self.ledger_id} accepts no more appends: {reason}", self.ledger_id))

    def end(self, reason: StoreError) -> None:
        if self.refusal is None or (isinstance(reason, Fenced) and not self.broken):
            self.refusal = reason
