"""Which ledgers of a topic are not needed although an older one is: see `core/maintenance/reclaim.py`."""

from __future__ import annotations

from messaging.broker.core.maintenance.reclaim import consumed
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.persistent import PersistentTopic


def consumed_ledgers(broker: Broker, topic: PersistentTopic) -> set[int]:
    """A topic that is compacted is trimmed from its beginning only: what compacted reading passes over counts by order."""
    if topic.ledger_list.compacted is not None:
        return set()
    limit, dedup = topic.ledger_list.last, topic.deduplication.state
    if dedup is not None:  # what follows the snapshot is needed to know duplicates after a restart
        limit = min(limit, dedup.snapshot_position)
    cursors = [subscription.cursor for subscription in topic.subscriptions.table.values() if subscription.durable]
    return consumed(topic.ledger.record.ledgers, cursors, broker.compactions.kept_from(topic, limit))
