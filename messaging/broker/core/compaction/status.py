"""When a topic is to be compacted, and what became of its last compaction. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from messaging.storage.ledger_store import Position

# After a compaction that failed, or as long as it took, if that is longer: one that always fails does not take all of a worker's
# time. One that is requested begins at once.
RETRY_MS = 300_000


@dataclass(slots=True)
class CompactionResult:
    """Of the last compactions of a topic. Times are in milliseconds since 1970, 0: never."""

    status: str = "NOT_RUN"  # then SUCCESS or ERROR
    last_error: str = ""
    removed_messages: int = 0
    duration_ms: int = 0
    succeeded_ms: int = 0
    failed_ms: int = 0
    failed_after_ms: int = 0  # so long it took until it failed


NOT_RUN = CompactionResult()


def bytes_after(ledgers: Iterable[tuple[int, int, int]], position: Position) -> int:
    """The stored bytes behind `position`, an estimate within a ledger. `ledgers`: (ledger id, last entry, bytes)."""
    size_bytes = 0
    for ledger_id, last_entry, size in ledgers:
        if ledger_id > position.ledger_id:
            size_bytes += size
        elif ledger_id == position.ledger_id and last_entry > position.entry_id:
            size_bytes += size * (last_entry - position.entry_id) // (last_entry + 1)
    return size_bytes


def is_due(threshold_bytes: int, uncompacted_bytes: int, result: CompactionResult, now_ms: int) -> bool:
    """`threshold_bytes` 0: never by itself."""
    if not threshold_bytes or uncompacted_bytes <= threshold_bytes:
        return False
    return result.status != "ERROR" or now_ms - result.failed_ms >= max(RETRY_MS, result.failed_after_ms)
