"""Ledgers of a topic were deleted: its subscriptions forget them."""

from __future__ import annotations

from collections.abc import Sequence

from pyroaring import BitMap

from messaging.broker.core.reclaim import forget_gone
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.meta_store import LedgerRecord


def forget_ledgers(topic: TopicContext, gone: Sequence[LedgerRecord]) -> None:
    """They are not in the ledger list any more. Durable subscriptions have acknowledged everything in them; others lose it."""
    for subscription in topic.subscriptions.values():
        if forget_gone(subscription.cursor, topic.ledger_list):
            topic.services.memory.cursor_memory.changed(topic.name.tenant, subscription)
        state = subscription.state
        for ledger in gone:
            ledger_id, last = ledger.ledger_id, ledger.last_entry
            if last is None or last < 0:
                continue
            if not subscription.durable:
                subscription.strategy.acknowledged(None, ledger_id, BitMap(range(last + 1)))
            if state.delays is not None and state.delayed is not None:
                state.delayed.advance(ledger_id, 0, last + 1)
                state.delays.forget_ledger(ledger_id)
