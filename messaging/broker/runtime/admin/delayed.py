"""Admin RPC: delayed messages of a topic: cancelling, rescheduling, listing."""

from __future__ import annotations

from messaging.adminrpc import delayed as schema
from messaging.broker.runtime.admin.naming import plain_topic, stored_topic_name
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.delayed_changes import change, change_key
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import InvalidValue
from messaging.storage.ledger_store import Position
from messaging.times import TIME_MS_MAX, time_text

CHANGED_MAX = 1_000  # of one call by key


class DelayedHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def change(self, request: schema.DelayedChange) -> schema.DelayedChanged:
        topic = await self._topic(request.topic, request.deliver_at_ms)
        position = Position(request.ledger_id, request.entry_id)
        done = await change(topic, position, request.batch_index, request.deliver_at_ms)
        return schema.DelayedChanged(already=done.already, former_ms=min(done.former_ms, TIME_MS_MAX))

    async def change_key(self, request: schema.DelayedKeyChange) -> schema.DelayedKeyChanged:
        topic = await self._topic(request.topic, request.deliver_at_ms)
        start = Position(request.ledger_id, request.entry_id)
        page = await change_key(topic, request.key, request.deliver_at_ms, start, min(request.limit, CHANGED_MAX))
        return schema.DelayedKeyChanged(
            changed=page.changed,
            refused_count=page.refused_count,
            refused=[schema.DelayedRefused(message_id=_text(one.position), sentence=one.sentence) for one in page.refused],
            looked_at=page.looked_at,
            next="" if page.following is None else _text(page.following),
        )

    async def _topic(self, text: str, deliver_at_ms: int | None) -> Topic:
        """Raises `NotAllowed` for a partitioned or non-persistent topic, `TopicNotFound`, `InvalidValue`."""
        if deliver_at_ms is not None and deliver_at_ms > TIME_MS_MAX:
            raise InvalidValue(f"deliver_at_ms {deliver_at_ms} is later than {time_text(TIME_MS_MAX)}")
        await stored_topic_name(self._broker, text, "changing delayed messages of")
        return await plain_topic(self._broker, text)


def _text(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"
