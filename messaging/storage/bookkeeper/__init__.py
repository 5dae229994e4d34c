"""`LedgerStore` on bookies of Apache BookKeeper."""
