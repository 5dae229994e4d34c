"""Freeing the disk space of deleted ledgers."""
