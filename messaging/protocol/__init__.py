"""Pulsar's binary protocol without I/O: bytes in, events out."""
