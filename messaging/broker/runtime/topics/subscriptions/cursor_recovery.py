"""Recovers the cursor of a stored subscription: its snapshot, then the deltas that the last run left in the cursor log."""

from __future__ import annotations

import structlog

from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.cursors.cursor_deltas import merged
from messaging.broker.core.maintenance.reclaim import forget_gone
from messaging.broker.runtime.topics.services import TopicServices
from messaging.storage.managed.ledger_list import LedgerList
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import SubscriptionRecord

log = structlog.get_logger("broker.subscriptions")


def recovered_cursor(services: TopicServices, ledger_list: LedgerList, record: SubscriptionRecord) -> Cursor:
    unsaved = services.stores.cursors.states.cursors.get(record.subscription_id)  # when the topic was unloaded
    if isinstance(unsaved, Cursor):
        forget_gone(unsaved, ledger_list)
        return unsaved
    return cursor_from(
        services.stores.storage, ledger_list, record, services.stores.cursors.recovered_deltas(record.subscription_id)
    )


def cursor_from(storage: Storage, ledger_list: LedgerList, record: SubscriptionRecord, deltas: list[bytes]) -> Cursor:
    """Where the snapshot or a delta is damaged, acknowledged messages are delivered again."""
    try:
        cursor = Cursor.restore(record.mark_delete, record.state)
    except ValueError as error:
        _count_damage(storage, record, error)
        cursor = Cursor(record.mark_delete)
    for delta in merged(deltas):
        try:
            cursor.apply(delta, ledger_list)
        except ValueError as error:
            _count_damage(storage, record, error)
    forget_gone(cursor, ledger_list)
    return cursor


def _count_damage(storage: Storage, record: SubscriptionRecord, error: ValueError) -> None:
    storage.damage["cursor"] += 1
    log.critical("cursor.damaged", topic=record.topic, subscription=record.name, error=str(error))
