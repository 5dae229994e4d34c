"""Admin RPC: messages of a topic: by their id, their number or the time, in pages, and new ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from messaging.adminrpc.messages import (
    MessageExamine,
    MessageFind,
    MessageGet,
    MessageGiven,
    MessagesList,
    MessagesPage,
    MessagesPublish,
    MessagesPublished,
)
from messaging.adminrpc.methods import MESSAGES_EXAMINE, MESSAGES_FIND, MESSAGES_GET, MESSAGES_LIST, MESSAGES_PUBLISH
from messaging.adminrpc.subscriptions import PeekAnswer
from messaging.adminrpc.topics import MessageIdAnswer
from messaging.broker.core.partition_routing import PartitionRouter
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import plain_topic, stored_topic_name, topic_name
from messaging.broker.runtime.admin.peek import shown_entry
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.messages import MessagePosition, OutgoingMessage
from messaging.broker.runtime.local.producer import LocalProducer
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import InvalidValue, MagnetarError, NotFound, PreconditionFailed
from messaging.permissions.model import Principal
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.ledger_store import Position

PAGE_BYTES = 1 << 19  # of base64: a page ends behind the message that passes it
_PUBLISHER = Principal("service:web", service=True)  # who asked was allowed to: the control plane knows people, the broker does not


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
        position = topic.ledger_list.resolve(topic.ledger_list.next_after(before))
        return MessageIdAnswer(ledger_id=position.ledger_id, entry_id=position.entry_id, partition=topic.name.partition)

    @answers(MESSAGES_LIST)
    async def list_page(self, request: MessagesList) -> MessagesPage:
        topic = await self._topic(request.topic, "reading messages of")
        ledgers, size = topic.ledger_list, 0
        position = ledgers.resolve(ledgers.next_after(Position(request.ledger_id, request.entry_id)))
        page: list[PeekAnswer] = []
        while ledgers.holds(position) and len(page) < request.messages_max and size < PAGE_BYTES:
            stored = await topic.entries.entry_at(position)
            if stored is not None:
                shown = await shown_entry(self._broker, topic, position, stored)
                page.append(shown)
                size += len(shown.payload) + sum(map(len, shown.headers.values()))
            position = ledgers.resolve(ledgers.next_after(position))
        return MessagesPage(messages=page, more=ledgers.holds(position))

    @answers(MESSAGES_PUBLISH)
    async def publish(self, request: MessagesPublish) -> MessagesPublished:
        async def publish(part: MessagesPublish) -> MessagesPublished:
            positions = await self._publish_to(parse_topic(part.topic), [_outgoing(given) for given in part.messages])
            return MessagesPublished(ids=[_id(position) for position in positions])

        return await publish_in_parts(self._broker, request, publish)

    async def _publish_to(self, name: TopicName, messages: Sequence[OutgoingMessage]) -> Sequence[MessagePosition]:
        topic = await self._broker.open_topic(name, writable=True)
        await topic.writable()
        stored: asyncio.Future[Sequence[MessagePosition]] = asyncio.get_running_loop().create_future()

        def received(positions: Sequence[MessagePosition] | None, error: MagnetarError | None) -> None:
            if stored.done():
                return
            if error is not None or positions is None:
                stored.set_exception(error or NotFound("there is no receipt"))
            else:
                stored.set_result(positions)

        producer = LocalProducer(self._broker, topic, self._broker.new_producer_name(), None, _PUBLISHER)
        try:
            producer.publish(messages, received)
            return await stored
        finally:
            producer.close()

    async def _topic(self, text: str, doing: str) -> Topic:
        await stored_topic_name(self._broker, text, doing)
        return await plain_topic(self._broker, text)

    async def _shown(self, topic: Topic, position: Position) -> PeekAnswer:
        stored = await topic.entries.entry_at(position)
        if stored is None:
            raise NotFound(f"Message id not found: topic {topic.text} has no entry {position.ledger_id}:{position.entry_id}")
        return await shown_entry(self._broker, topic, position, stored)


async def publish_in_parts(
    broker: Broker, request: MessagesPublish, publish: Callable[[MessagesPublish], Awaitable[Any]]
) -> MessagesPublished:
    """To a plain topic or to each partition that is chosen, one after the other: at most one producer at a time. The topic is
    created where that is the policy."""
    name = await topic_name(broker, request.topic)
    if not request.messages:
        raise InvalidValue("there is no message to publish")
    partitions = await broker.partition_count(name, auto_create=True)
    router = PartitionRouter(partitions, broker.now_ms(), in_turn=True, hashing="JavaStringHash") if partitions else None
    chosen = [name.of_partition(router.choose(given.key)) if router else name for given in request.messages]
    ids: dict[int, MessageIdAnswer] = {}
    for part in dict.fromkeys(chosen):
        indexes = [index for index, topic in enumerate(chosen) if topic == part]
        answer = await publish(MessagesPublish(topic=str(part), messages=[request.messages[index] for index in indexes]))
        ids |= dict(zip(indexes, answer.ids, strict=True))
    return MessagesPublished(ids=[ids[index] for index in range(len(chosen))])


def _outgoing(given: MessageGiven) -> OutgoingMessage:
    return OutgoingMessage(
        given.payload,
        properties=given.properties,
        key=given.key,
        event_time_ms=given.event_time_ms,
        deliver_at_ms=given.deliver_at_ms,
    )


def _id(position: MessagePosition) -> MessageIdAnswer:
    return MessageIdAnswer(
        ledger_id=position.ledger_id, entry_id=position.entry_id, partition=position.partition, batch_index=position.batch_index
    )
