"""Managed ledgers, retention, cursors and orphans of an owned range, above any `LedgerStore` and `MetaStore`."""
