"""`MetaStore` in tables of a database, whichever: its calls in SQL that SQLite and PostgreSQL both read, many to a commit."""
