"""Messages of a topic, as our API has them: reading pages and single ones, and publishing."""

from __future__ import annotations

import base64
import binascii

from msgspec import UNSET
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.messages import MessageFind, MessageGet, MessageGiven, MessagesList, MessagesPublish
from messaging.adminrpc.methods import MESSAGES_FIND, MESSAGES_GET, MESSAGES_LIST, MESSAGES_PUBLISH, TOPICS_LAST_MESSAGE_ID
from messaging.adminrpc.topics import TopicRef
from messaging.errors import InvalidValue
from messaging.protocol.names import TopicName
from messaging.times import TIME_MS_MAX
from tenants import broker
from tenants.actions.change import limit_rate
from tenants.masking import require_unmasked
from tenants.names import message_of, topic_of
from tenants.rest import message_shapes as shapes
from tenants.rest.base import View, existing_namespace
from tenants.rest.schema import PAGE, PUBLISH_TIME, describe, page_of

PAGE_MESSAGES_MAX = 100


def _topic(parts: dict[str, str]) -> TopicName:
    """Whether it exists is for the broker to decide."""
    topic = topic_of(parts)
    existing_namespace(topic.tenant, topic.namespace_local)
    return topic


class Messages(View):
    @describe(
        "Stored messages of a topic, oldest first; of a plain topic or a partition", page_of(shapes.MessageShape), parameters=PAGE
    )
    def get(self, request: Request, **parts: str) -> Response:
        limit, after = self.query_number("limit", 10, 1, PAGE_MESSAGES_MAX), request.query_params.get("after", "")
        topic = _topic(parts)
        require_unmasked(self.actor(), topic)
        start = message_of(topic, after) if after else None
        ledger_id, entry_id = (-1, -1) if start is None else (start.ledger_id, start.entry_id)
        asked = MessagesList(topic=str(topic), ledger_id=ledger_id, entry_id=entry_id, messages_max=limit)
        found = broker.rpc().call(MESSAGES_LIST, asked)
        items = [shapes.show_message(message) for message in found.messages]
        return Response({"items": items, "next": items[-1].message_id if found.more and items else None})

    @describe("Publish messages", shapes.PublishedShape, shapes.NewMessages, 201)
    def post(self, request: Request, **parts: str) -> Response:
        given = self.read(shapes.NewMessages)
        topic = _topic(parts)
        if not given.messages:
            raise InvalidValue("messages is empty: give at least one")
        asked = MessagesPublish(topic=str(topic), messages=[_given(index, each) for index, each in enumerate(given.messages)])
        limit_rate(self.actor())
        ids = broker.rpc().call(MESSAGES_PUBLISH, asked).ids
        self.actor().trail.after = {"messages": len(ids)}
        return Response(shapes.PublishedShape(message_ids=[shapes.show_id(each) for each in ids]), status=201)


class MessageOne(View):
    @describe("A stored message, by its id", shapes.MessageShape)
    def get(self, request: Request, message_id: str, **parts: str) -> Response:
        message = message_of(_topic(parts), message_id)
        require_unmasked(self.actor(), message.topic)
        asked = MessageGet(topic=str(message.topic), ledger_id=message.ledger_id, entry_id=message.entry_id)
        return Response(shapes.show_message(broker.rpc().call(MESSAGES_GET, asked)))


class LastMessage(View):
    @describe("The id of the last message; of a plain topic or a partition", shapes.PositionShape)
    def get(self, request: Request, **parts: str) -> Response:
        last = broker.rpc().call(TOPICS_LAST_MESSAGE_ID, TopicRef(topic=str(_topic(parts))))
        return Response(shapes.PositionShape(message_id=shapes.show_id(last)))


class MessageSearch(View):
    @describe("The id of the first message published at or after a time", shapes.PositionShape, parameters=[PUBLISH_TIME])
    def get(self, request: Request, **parts: str) -> Response:
        if "publish_time_ms" not in request.query_params:
            raise InvalidValue("publish_time_ms is missing: give milliseconds since 1970")
        at_ms = self.query_number("publish_time_ms", 0, 0, TIME_MS_MAX)
        found = broker.rpc().call(MESSAGES_FIND, MessageFind(topic=str(_topic(parts)), timestamp_ms=at_ms))
        return Response(shapes.PositionShape(message_id=shapes.show_id(found)))


def _given(index: int, message: shapes.NewMessage) -> MessageGiven:
    """Raises `InvalidValue` with the number of the message."""
    if (message.text is UNSET) == (message.payload_base64 is UNSET):
        raise InvalidValue(f"messages[{index}]: give one of text and payload_base64")
    if message.deliver_at_ms > TIME_MS_MAX or message.event_time_ms > TIME_MS_MAX:
        raise InvalidValue(f"messages[{index}]: a time is after the year 9999: give milliseconds since 1970")
    if message.text is not UNSET:
        payload = _bytes(index, "text", message.text)
    else:
        try:
            payload = base64.b64decode(str(message.payload_base64), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidValue(f"messages[{index}].payload_base64 is no base64") from None
    if message.key is not UNSET:
        _bytes(index, "key", message.key)
    for text in (*message.properties, *message.properties.values()):
        _bytes(index, "properties", text)
    return MessageGiven(
        payload=payload,
        key=None if message.key is UNSET else message.key,
        properties=message.properties,
        event_time_ms=message.event_time_ms,
        deliver_at_ms=message.deliver_at_ms,
    )


def _bytes(index: int, field: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write
        raise InvalidValue(f"messages[{index}].{field} is no text: give payload_base64 for binary data") from None
