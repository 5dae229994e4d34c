"""Ledgers of a topic were deleted: its subscriptions forget them."""

from __future__ import annotations

from collections.abc import Sequence

from messaging.broker.core.dropped_ledgers import forget
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.meta_store import LedgerRecord


def forget_ledgers(topic: TopicContext, gone: Sequence[LedgerRecord]) -> None:
    """They are not in the ledger list any more."""
    for subscription in topic.subscriptions.table.values():
        if forget(subscription, gone):
            topic.services.memory.cursor_memory.changed(topic.name.tenant, subscription)
