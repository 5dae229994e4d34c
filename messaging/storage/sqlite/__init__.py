"""`MetaStore` in SQLite."""
