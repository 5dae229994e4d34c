"""Admin RPC: single messages of a topic, by their id, their number or the time."""

from __future__ import annotations

from messaging.adminrpc import schema
from messaging.broker.runtime.admin.naming import plain_topic, stored_topic_name
from messaging.broker.runtime.admin.peek import shown_entry
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.backlog.entry_lookup import entry_at, mark_delete_at_time
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import InvalidValue, NotFound, PreconditionFailed
from messaging.storage.ledger_store import Position


class MessageHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def get(self, request: schema.MessageGet) -> schema.PeekAnswer:
        topic = await self._topic(request.topic, "reading a message of")
        return await self._shown(topic, Position(request.ledger_id, request.entry_id))

    async def examine(self, request: schema.MessageExamine) -> schema.PeekAnswer:
        topic = await self._topic(request.topic, "examining messages of")
        if request.position < 1:
            raise InvalidValue("the number of a message must be at least 1")
        entries = topic.ledger_list.entries
        if not entries:
            raise PreconditionFailed(f"topic {topic.text} has no messages: there is nothing to examine")
        index = min(request.position, entries) - 1
        return await self._shown(topic, topic.ledger_list.at_index(entries - 1 - index if request.from_latest else index))

    async def find(self, request: schema.MessageFind) -> schema.MessageIdAnswer:
        topic = await self._topic(request.topic, "looking for a message of")
        before = await mark_delete_at_time(topic, request.timestamp_ms)
        found = topic.ledger_list.resolve(topic.ledger_list.next_after(before))
        return schema.MessageIdAnswer(ledger_id=found.ledger_id, entry_id=found.entry_id, partition=topic.name.partition)

    async def _topic(self, text: str, doing: str) -> Topic:
        await stored_topic_name(self._broker, text, doing)
        return await plain_topic(self._broker, text)

    async def _shown(self, topic: Topic, position: Position) -> schema.PeekAnswer:
        stored = await entry_at(topic, position)
        if stored is None:
            raise NotFound(f"Message id not found: topic {topic.text} has no entry {position.ledger_id}:{position.entry_id}")
        return await shown_entry(self._broker, topic, position, stored)
