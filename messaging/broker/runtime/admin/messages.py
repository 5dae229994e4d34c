"""Admin RPC: single messages of a topic, by their id, their number or the time."""

from __future__ import annotations

from messaging.adminrpc.messages import MessageExamine, MessageFind, MessageGet
from messaging.adminrpc.methods import MESSAGES_EXAMINE, MESSAGES_FIND, MESSAGES_GET
from messaging.adminrpc.subscriptions import PeekAnswer
from messaging.adminrpc.topics import MessageIdAnswer
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import plain_topic, stored_topic_name
from messaging.broker.runtime.admin.peek import shown_entry
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import InvalidValue, NotFound, PreconditionFailed
from messaging.storage.ledger_store import Position


class MessageHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(MESSAGES_GET)
    async def get(self, request: MessageGet) -> PeekAnswer:
        topic = await self._topic(request.topic, "reading a message of")
        return await self._shown(topic, Position(request.ledger_id, request.entry_id))

    @answers(MESSAGES_EXAMINE)
    async def examine(self, request: MessageExamine) -> PeekAnswer:
        topic = await self._topic(request.topic, "examining messages of")
        if request.position < 1:
            raise InvalidValue("the number of a message must be at least 1")
        entries = topic.ledger_list.entries
        if not entries:
            raise PreconditionFailed(f"topic {topic.text} has no messages: there is nothing to examine")
        index = min(request.position, entries) - 1
        return await self._shown(topic, topic.ledger_list.at_index(entries - 1 - index if request.from_latest else index))

    @answers(MESSAGES_FIND)
    async def find(self, request: MessageFind) -> MessageIdAnswer:
        topic = await self._topic(request.topic, "looking for a message of")
        before = await topic.entries.mark_delete_at_time(request.timestamp_ms)
        found = topic.ledger_list.resolve(topic.ledger_list.next_after(before))
        return MessageIdAnswer(ledger_id=found.ledger_id, entry_id=found.entry_id, partition=topic.name.partition)

    async def _topic(self, text: str, doing: str) -> Topic:
        await stored_topic_name(self._broker, text, doing)
        return await plain_topic(self._broker, text)

    async def _shown(self, topic: Topic, position: Position) -> PeekAnswer:
        stored = await topic.entries.entry_at(position)
        if stored is None:
            raise NotFound(f"Message id not found: topic {topic.text} has no entry {position.ledger_id}:{position.entry_id}")
        return await shown_entry(self._broker, topic, position, stored)
