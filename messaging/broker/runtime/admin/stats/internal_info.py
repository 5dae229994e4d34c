"""What is stored of a topic and its cursors, with the names of Pulsar's ManagedLedgerInfo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.admin.stats.internal_stats import ack_ranges, mark_delete_of
from messaging.broker.runtime.topics.topic import Topic
from messaging.storage.ledger_store import Position
from messaging.storage.meta_store import LedgerRecord, SubscriptionRecord
from messaging.times import time_text

RANGES_SHOWN = 1000  # of a cursor


def internal_info(topic: Topic, stored: Sequence[SubscriptionRecord]) -> dict[str, Any]:
    """`stored`: the records of its subscriptions. Times of changes are those of the topic's ledgers; a cursor's are not kept."""
    record = topic.ledger.record
    changed_ms = max((max(ledger.created_ms, ledger.sealed_ms) for ledger in record.ledgers), default=record.created_ms)
    info: dict[str, Any] = {
        "version": record.version,
        "creationDate": time_text(record.created_ms),
        "modificationDate": time_text(max(changed_ms, record.created_ms)),
        "ledgers": [_ledger(ledger) for ledger in record.ledgers],
        "cursors": {
            cursor.name: _cursor(cursor, subscription, topic.services.stores.cursors.last.ledger_id)
            for cursor in stored
            if (subscription := topic.subscriptions.table.get(cursor.name)) is not None and subscription.durable
        },
    }
    if record.terminated_at is not None:
        info["terminatedPosition"] = _position(record.terminated_at)
    return info


def _ledger(ledger: LedgerRecord) -> dict[str, Any]:
    """What an open one holds is not stored yet."""
    ended = {} if ledger.last_entry is None else {"entries": ledger.last_entry + 1, "size": ledger.length_bytes}
    return {"ledgerId": ledger.ledger_id, **ended, "timestamp": ledger.sealed_ms or ledger.created_ms, "isOffloaded": False}


def _cursor(record: SubscriptionRecord, subscription: Subscription, ledger_id: int) -> dict[str, Any]:
    info: dict[str, Any] = {
        "creationDate": time_text(record.created_ms),
        "cursorsLedgerId": ledger_id,
        "markDelete": _position(mark_delete_of(subscription)),
    }
    ranges = [
        {"lowerEndpoint": _position(Position(ledger_id, first - 1)), "upperEndpoint": _position(Position(ledger_id, last))}
        for ledger_id, first, last in ack_ranges(subscription, RANGES_SHOWN)
    ]
    return {**info, "individualDeletedMessages": ranges} if ranges else info


def _position(position: Position) -> dict[str, int]:
    return {"ledgerId": position.ledger_id, "entryId": position.entry_id}
