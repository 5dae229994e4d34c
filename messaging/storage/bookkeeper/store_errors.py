"""What the client of BookKeeper raises, as the errors of ledger stores."""

from __future__ import annotations

from messaging.bookkeeper import errors as of_bookkeeper
from messaging.bookkeeper.errors import BookkeeperError
from messaging.storage.ledger_store import (
    EntryTooLarge,
    LedgerClosed,
    LedgerExists,
    NoSuchEntry,
    NoSuchLedger,
    StoreError,
    Unavailable,
    Unreachable,
)

WHAT = "the BookKeeper of ledger_url"
_KINDS: tuple[tuple[type[BookkeeperError], type[StoreError]], ...] = (
    (of_bookkeeper.NoSuchEntry, NoSuchEntry),
    (of_bookkeeper.LedgerExists, LedgerExists),
    (of_bookkeeper.LedgerClosed, LedgerClosed),
    (of_bookkeeper.EntryTooLarge, EntryTooLarge),
    (of_bookkeeper.NotEnoughBookies, Unreachable),
    (of_bookkeeper.Unavailable, Unreachable),
    (of_bookkeeper.CorruptEntry, Unavailable),
)


def told(error: BookkeeperError, ledger_id: int = -1) -> StoreError:
    """`ledger_id` is our number of it; the error names that of BookKeeper."""
    if isinstance(error, of_bookkeeper.NoSuchLedger):
        return NoSuchLedger(f"there is no ledger {ledger_id}", ledger_id)
    for kind, ours in _KINDS:
        if isinstance(error, kind):
            return ours(f"{WHAT}: {error}", ledger_id)
    if isinstance(error, of_bookkeeper.WrongPassword):
        return StoreError(f"{WHAT}: {error}: name the file of the right one, password_file in ledger_url", ledger_id)
    return StoreError(f"{WHAT}: {error}", ledger_id)
