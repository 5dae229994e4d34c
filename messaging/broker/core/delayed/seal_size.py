"""How many delayed entries of a topic are kept in memory before they are sealed. Pure."""

from __future__ import annotations

from messaging.broker.core.delayed.newest import CHUNK_ENTRIES, SEAL_ENTRIES

SEALED_PART = 768  # entries that are sealed together, and as many in memory meanwhile, take a 24th of the account


def seal_entries(memory_bytes: int) -> int:
    """Where the account that they are charged to has so much memory."""
    return max(CHUNK_ENTRIES, min(SEAL_ENTRIES, memory_bytes // SEALED_PART))
