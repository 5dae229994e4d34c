"""`MetaStore` in one SQLite file."""
