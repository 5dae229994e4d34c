"""The internal stats of a topic, with Pulsar's names: its ledgers and cursors."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from messaging.broker.core.bitmaps import count_ranges, ranges_of
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.admin.compaction_stats import compacted_ledger_stats
from messaging.broker.runtime.topics.topic import Topic
from messaging.storage.ledger_store import Position


def position_text(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"


def shown_subscriptions(topic: Topic) -> Iterator[tuple[str, Subscription]]:
    """Subscriptions with the names under which they are shown: one that is not durable gives way to a durable one of its name."""
    for key, one in topic.subscriptions.items():
        yield one.name if key == one.name or one.name not in topic.subscriptions else f"{one.name} (non-durable)", one


def internal_stats(topic: Topic) -> dict[str, Any]:
    ledger_list, record = topic.ledger_list, topic.ledger.record
    return {
        "entriesAddedCounter": topic.entries_added,
        "numberOfEntries": ledger_list.entries,
        "totalSize": topic.ledger.stored_bytes,
        "currentLedgerEntries": ledger_list.lasts[-1] + 1 if ledger_list.lasts else 0,
        "currentLedgerSize": topic.ledger.stored_bytes - topic.ledger.sealed_bytes,
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": position_text(ledger_list.last_confirmed),
        "state": "Terminated" if record.terminated_at is not None else "LedgerOpened",
        "ledgers": [
            {
                "ledgerId": ledger.ledger_id,
                "entries": ledger_list.last_of(ledger.ledger_id) + 1,
                "size": ledger.length_bytes
                if ledger.last_entry is not None
                else topic.ledger.stored_bytes - topic.ledger.sealed_bytes,
                "offloaded": False,
                "underReplicated": False,
            }
            for ledger in record.ledgers
        ],
        "cursors": {name: _cursor(topic, one) for name, one in shown_subscriptions(topic)},
        "schemaLedgers": [],
        "compactedLedger": compacted_ledger_stats(ledger_list.compacted),
    }


def _cursor(topic: Topic, subscription: Subscription) -> dict[str, Any]:
    return {
        "markDeletePosition": position_text(subscription.cursor.mark_delete),
        "readPosition": position_text(subscription.read_position),
        "waitingReadOp": False,
        "pendingReadOps": topic.pending_reads(subscription),
        "messagesConsumedCounter": topic.publisher.messages_in - subscription.backlog_entries,  # Pulsar's: below 0 after a restart
        "cursorLedger": -1,
        "cursorLedgerLastEntry": -1,
        "individuallyDeletedMessages": _ack_ranges_text(subscription),
        "state": "Open",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": topic.ledger_list.entries
        - topic.ledger_list.count_up_to(subscription.cursor.mark_delete),
        "totalNonContiguousDeletedMessagesRange": count_ack_ranges(subscription),
        "properties": {},
    }


def _ack_ranges_text(subscription: Subscription, runs_max: int = 100) -> str:
    """Pulsar's way to write ranges of acknowledged entries: ``[(3:4..3:9]]``, open below, closed above."""
    texts = []
    for ledger_id, bitmap in sorted(subscription.cursor.individual_acks.items(), key=itemgetter(0)):
        for first, last in ranges_of(bitmap):
            texts.append(f"({ledger_id}:{first - 1}..{ledger_id}:{last}]")
            if len(texts) == runs_max:
                return "[" + ",".join(texts) + ",…]"
    return "[" + ",".join(texts) + "]"


def count_ack_ranges(subscription: Subscription) -> int:
    return sum(count_ranges(bitmap) for bitmap in subscription.cursor.individual_acks.values())
