"""How large the backlogs of a topic are, and where they begin."""

from __future__ import annotations

from messaging.broker.core.backlog_quota import LedgerSize, bytes_after
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.ledger_store import Position


def durable(topic: TopicContext) -> list[Subscription]:
    """The subscriptions that keep messages."""
    return [one for one in topic.subscriptions.table.values() if one.durable]


def ledger_sizes(topic: TopicContext) -> list[LedgerSize]:
    """What is appended and not durable yet counts as part of the durable entries."""
    ledger, ledger_list = topic.ledger, topic.ledger_list
    sizes = {one.ledger_id: one.length_bytes for one in ledger.record.ledgers}
    sizes[ledger.writing_to] = ledger.stored_bytes - ledger.sealed_bytes
    return [
        LedgerSize(ledger_id, last + 1, sizes.get(ledger_id, 0))
        for ledger_id, last in zip(ledger_list.ids, ledger_list.lasts, strict=True)
    ]


def backlog_bytes(topic: TopicContext, subscription: Subscription) -> int:
    return bytes_after(ledger_sizes(topic), subscription.cursor.mark_delete)


def first_unacknowledged(topic: TopicContext) -> Position | None:
    """Of the slowest durable subscription; None: nothing is unacknowledged."""
    ledger_list = topic.ledger_list
    marks = [one.cursor.mark_delete for one in durable(topic)]
    first = ledger_list.resolve(ledger_list.next_after(min(marks))) if marks else None
    return first if first is not None and ledger_list.holds(first) else None
