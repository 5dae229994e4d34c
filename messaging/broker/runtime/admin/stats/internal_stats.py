"""The internal stats of a topic, with Pulsar's names: its ledgers and cursors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from messaging.broker.core.bitmaps import count_ranges, ranges_of
from messaging.broker.core.subscription import Subscription, subscription_key
from messaging.broker.runtime.admin.stats.compaction_stats import compacted_ledger_stats
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.meta_store import LedgerRecord
from messaging.times import time_text

CURSOR_COST = 100  # in units of `core/turns/command_costs.py`
NOT_DURABLE = " (non-durable)"  # after the name of one beside a durable one of the same name


def position_text(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"


def shown_subscriptions(topic: Topic) -> Iterator[tuple[str, Subscription]]:
    """Subscriptions with the names under which they are shown: one that is not durable gives way to a durable one of its name."""
    for key, subscription in topic.subscriptions.table.items():
        name = subscription.name
        yield name if key == name or name not in topic.subscriptions.table else f"{name}{NOT_DURABLE}", subscription


def named_subscriptions(topic: Topic, names: Sequence[str]) -> Iterator[tuple[str, Subscription]]:
    """Those of them that there are, by the names under which they are shown; of two with one name that is the durable one's."""
    for name in dict.fromkeys(names):
        subscription = topic.subscriptions.find(name)
        if subscription is None and name.endswith(NOT_DURABLE):
            subscription = topic.subscriptions.table.get(subscription_key(name.removesuffix(NOT_DURABLE), durable=False))
        if subscription is not None:
            yield name, subscription


async def internal_stats(topic: Topic, slices: TurnSlices) -> dict[str, Any]:
    """The last ledger is listed without figures, as Pulsar does until another follows it: they are the current ledger's."""
    ledger_list, record = topic.ledger_list, topic.ledger.record
    current = record.ledgers[-1] if record.ledgers else None
    writing_bytes = topic.ledger.writing_bytes
    cursors = {}
    for name, subscription in list(shown_subscriptions(topic)):
        await slices.spend(CURSOR_COST)
        cursors[name] = _cursor(topic, subscription)
    return {
        "entriesAddedCounter": topic.entries_added,
        "numberOfEntries": ledger_list.entries,
        "totalSize": topic.ledger.stored_bytes,
        "currentLedgerEntries": 0 if current is None else ledger_list.last_of(current.ledger_id) + 1,
        "currentLedgerSize": writing_bytes if current is None or current.last_entry is None else current.length_bytes,
        "lastLedgerCreatedTimestamp": time_text(topic.ledger.record.created_ms if current is None else current.created_ms),
        "waitingCursorsCount": sum(cursor["waitingReadOp"] for cursor in cursors.values()),
        "pendingAddEntriesCount": topic.ledger.in_flight,
        "lastConfirmedEntry": position_text(ledger_list.last_confirmed),
        "state": "Terminated" if record.terminated_at is not None else "LedgerOpened",
        "ledgers": [_ledger(ledger) for ledger in record.ledgers[:-1]]
        + ([] if current is None else [_ledger(current, listed=False)]),
        "cursors": cursors,
        "schemaLedgers": [],
        "compactedLedger": compacted_ledger_stats(ledger_list.compacted),
    }


def _ledger(ledger: LedgerRecord, *, listed: bool = True) -> dict[str, Any]:
    return {
        "ledgerId": ledger.ledger_id,
        "entries": (-1 if ledger.last_entry is None else ledger.last_entry) + 1 if listed else 0,
        "size": ledger.length_bytes if listed else 0,
        "offloaded": False,
        "underReplicated": False,
    }


def _cursor(topic: Topic, subscription: Subscription) -> dict[str, Any]:
    ledger_list, cursor, read = topic.ledger_list, subscription.cursor, subscription.read_position
    stored = topic.services.stores.cursors.last if subscription.durable else EARLIEST  # the ledger of all cursors
    waits = bool(subscription.consumers) and subscription.can_dispatch() and subscription.next_due() is None
    stored_blocks = None if topic.started_dispatcher is None else topic.started_dispatcher.stored
    pending = 0 if stored_blocks is None else stored_blocks.pending_reads(subscription)
    to_read = ledger_list.count_up_to(Position(read.ledger_id, read.entry_id - 1)) + 1  # and the next one: Pulsar counts it too
    return {
        "markDeletePosition": position_text(mark_delete_of(subscription)),
        "readPosition": position_text(_first_of(topic) if read < _first_of(topic) else read),
        "waitingReadOp": waits,
        "pendingReadOps": pending,
        "messagesConsumedCounter": topic.entries_added - subscription.backlog_entries,  # Pulsar's: below 0 after a restart
        "cursorLedger": stored.ledger_id,
        "cursorLedgerLastEntry": stored.entry_id,
        "individuallyDeletedMessages": _ack_ranges_text(subscription),
        "lastLedgerSwitchTimestamp": time_text(
            topic.services.stores.cursors.opened_ms if subscription.durable else topic.ledger.record.created_ms
        ),
        "state": "Open" if subscription.durable else "NoLedger",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": to_read - ledger_list.count_up_to(cursor.mark_delete),
        "totalNonContiguousDeletedMessagesRange": count_ack_ranges(subscription),
        "subscriptionHavePendingRead": waits or pending > 0,
        "subscriptionHavePendingReplayRead": pending > 0 and subscription.state.redeliveries.waiting_entries > 0,
        "properties": {},
    }


def _first_of(topic: Topic) -> Position:
    """Where who has read nothing begins: its own position may be before all ledgers."""
    return Position(topic.ledger_list.first_id, 0)


def mark_delete_of(subscription: Subscription) -> Position:
    """Before the first entry where nothing is acknowledged, as Pulsar tells it."""
    mark, ledger_list = subscription.cursor.mark_delete, subscription.ledger_list
    return Position(ledger_list.first_id, -1) if mark == EARLIEST else mark


def ack_ranges(subscription: Subscription, count: int) -> list[tuple[int, int, int]]:
    """The first `count` ranges of entries acknowledged out of order: (ledger id, first, last entry)."""
    acks = sorted(subscription.cursor.individual_acks.items(), key=itemgetter(0))
    ranges = ((ledger_id, first, last) for ledger_id, bitmap in acks for first, last in ranges_of(bitmap))
    return list(islice(ranges, count))


def _ack_ranges_text(subscription: Subscription, runs_max: int = 100) -> str:
    """Pulsar's way to write ranges of acknowledged entries: ``[(3:4..3:9]]``, open below, closed above."""
    ranges = ack_ranges(subscription, runs_max)
    more = ",…" if len(ranges) == runs_max else ""
    return "[" + ",".join(f"({ledger_id}:{first - 1}..{ledger_id}:{last}]" for ledger_id, first, last in ranges) + f"{more}]"


def count_ack_ranges(subscription: Subscription) -> int:
    return sum(count_ranges(bitmap) for bitmap in subscription.cursor.individual_acks.values())
