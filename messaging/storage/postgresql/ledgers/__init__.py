"""`LedgerStore` in a PostgreSQL database."""
