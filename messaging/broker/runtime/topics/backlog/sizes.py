"""How large the backlogs of a topic are, and where they begin."""

from __future__ import annotations

from collections.abc import Mapping

from messaging.broker.core.backlog.quota import LedgerSize
from messaging.broker.core.subscription import Subscription
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.managed.ledger_list import LedgerList


def durable(table: Mapping[str, Subscription]) -> list[Subscription]:
    """The subscriptions that keep messages."""
    return [subscription for subscription in table.values() if subscription.durable]


def lowest_mark_delete(table: Mapping[str, Subscription]) -> Position | None:
    """Of the slowest durable subscription; None: there is none."""
    return min((subscription.cursor.mark_delete for subscription in table.values() if subscription.durable), default=None)


def ledger_sizes(ledger: ManagedLedger) -> list[LedgerSize]:
    """What is appended and not durable yet counts as part of the durable entries."""
    ledger_list = ledger.ledger_list
    sizes = {record.ledger_id: record.length_bytes for record in ledger.record.ledgers}
    sizes[ledger.writing_to] = ledger.writing_bytes
    return [
        LedgerSize(ledger_id, last + 1, sizes.get(ledger_id, 0))
        for ledger_id, last in zip(ledger_list.ids, ledger_list.lasts, strict=True)
    ]


def first_unacknowledged(table: Mapping[str, Subscription], ledger_list: LedgerList) -> Position | None:
    """Of the slowest durable subscription; None: nothing is unacknowledged."""
    lowest = lowest_mark_delete(table)
    first = None if lowest is None else ledger_list.resolve(ledger_list.next_after(lowest))
    return first if first is not None and ledger_list.holds(first) else None
