"""`MetaStore` in a PostgreSQL database."""
