"""Stats of the compaction of a topic, with Pulsar's names."""

from __future__ import annotations

from typing import Any

from messaging.broker.core.compaction.status import CompactionResult
from messaging.storage.meta_store import CompactedLedger


def compaction_stats(result: CompactionResult) -> dict[str, int]:
    return {
        "lastCompactionRemovedEventCount": result.removed_messages,
        "lastCompactionSucceedTimestamp": result.succeeded_ms,
        "lastCompactionFailedTimestamp": result.failed_ms,
        "lastCompactionDurationTimeInMills": result.duration_ms,
    }


def compacted_ledger_stats(compacted: CompactedLedger | None) -> dict[str, Any]:
    """-1: the topic was never compacted."""
    ledger_id, entries, size = -1, -1, -1
    if compacted is not None:
        ledger_id, entries, size = compacted.ledger_id, compacted.entries, compacted.length_bytes
    return {"ledgerId": ledger_id, "entries": entries, "size": size, "offloaded": False, "underReplicated": False}
