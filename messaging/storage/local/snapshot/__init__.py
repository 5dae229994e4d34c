"""The snapshot of the index: its content, the catalogue of ledgers that it comes from, and when it is written."""
