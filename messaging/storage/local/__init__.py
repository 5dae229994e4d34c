"""The local store: one append-only segmented log for all ledgers of a directory. Start reading at `store.py`."""

from messaging.storage.local.config import Durability, LocalConfig
from messaging.storage.local.store import LocalLedgerStore

__all__ = ["Durability", "LocalConfig", "LocalLedgerStore"]
