"""What one topic delivered of late, or did with its entries instead: see `delivery_records.py`."""

from __future__ import annotations

from messaging.broker.core.diagnosis.trace import DeliveryEvent, DeliveryRecord
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.dispatch.delivery_records import Records
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.ledger_store import Position


class DeliveryLog:
    """`records`: None while nothing is recorded. The dispatcher appends its deliveries itself."""

    __slots__ = ("_topic", "records")

    def __init__(self, topic: TopicContext) -> None:
        self._topic = topic
        self.records: Records | None = None
        self._open()

    def _open(self) -> None:
        services = self._topic.services
        services.memory.delivery_records.open(self, services.clock_ms())

    def listed(self) -> list[DeliveryRecord]:
        """The oldest first. From this call on something is recorded, if there is room for it."""
        records = [DeliveryRecord(*record) for record in self.records or ()]
        self._open()
        return records

    def record(self, event: DeliveryEvent, subscription: Subscription, position: Position) -> None:
        """Something happened to one entry other than being sent."""
        if self.records is not None:
            at_ms, (ledger_id, entry_id) = self._topic.services.clock_ms(), position
            self.records.append((at_ms, event, subscription.name, "", ledger_id, entry_id, entry_id, True))

    def record_expired(self, subscription: Subscription, after: Position, expired: int) -> None:
        """The `expired` entries after `after`, its former mark-delete position, were acknowledged for nobody."""
        if self.records is not None:
            ranges = self._topic.ledger_list.ranges(after, subscription.cursor.mark_delete)
            whole = expired == sum(last + 1 - first for _, first, last in ranges)
            at_ms, name = self._topic.services.clock_ms(), subscription.name
            self.records.extend((at_ms, DeliveryEvent.EXPIRED, name, "", *entries, whole) for entries in ranges)

    def close(self) -> None:
        self._topic.services.memory.delivery_records.close(self)
