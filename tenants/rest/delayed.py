"""Delayed messages of a topic: cancelling and rescheduling them."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from msgspec import UNSET
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc import delayed
from messaging.adminrpc.methods import DELAYED_COUNTS
from messaging.adminrpc.topics import TopicRef
from messaging.clock import wall_ms
from messaging.errors import InvalidValue
from messaging.times import TIME_MS_MAX
from tenants import broker
from tenants.actions.delayed import change_delayed, change_delayed_key
from tenants.delayed import KEY_CHARACTERS_MAX, DelayedPage, list_delayed
from tenants.masking import masks_of
from tenants.names import message_of, topic_of
from tenants.rest import shapes
from tenants.rest.base import View, limit_of
from tenants.rest.schema import PAGE, describe

KEY = OpenApiParameter("key", str, required=True, description="The key of the messages, as text; a binary one in base64.")


TIMES = [
    OpenApiParameter("from_ms", int, description="Due from this time on: milliseconds since 1970."),
    OpenApiParameter("until_ms", int, description="Due before this time."),
    OpenApiParameter("key", str, description="Only messages with this key, in the order in which they were stored."),
]


class DelayedMessages(View):
    @describe("Delayed messages in the order of their times", DelayedPage, parameters=[*TIMES, *PAGE])
    def get(self, request: Request, **parts: str) -> Response:
        asked = request.query_params
        times = {name: _milliseconds(name, asked[name]) for name in ("from_ms", "until_ms") if name in asked}
        topic = topic_of(parts)
        masks = masks_of(self.actor(), topic)
        listed = list_delayed(topic, asked.get("key", ""), asked.get("after", ""), limit_of(request), masks, **times)
        return Response(listed)

    @describe("Cancel the delayed messages of a key, some with each request", shapes.DelayedKeyChanged, parameters=[KEY, *PAGE])
    def delete(self, request: Request, **parts: str) -> Response:
        asked = request.query_params
        return self._change(parts, asked.get("key", ""), None, asked.get("after", ""), limit_of(request))

    @describe("Reschedule the delayed messages of a key, some with each request", shapes.DelayedKeyChanged, shapes.DelayedTimeOfKey)
    def patch(self, request: Request, **parts: str) -> Response:
        given = self.read(shapes.DelayedTimeOfKey)
        return self._change(parts, given.key, _time(given), given.after, given.limit)

    def _change(self, parts: dict[str, str], key: str, deliver_at_ms: int | None, after: str, limit: int) -> Response:
        topic = topic_of(parts)
        if not 0 < len(key) <= KEY_CHARACTERS_MAX or "\x00" in key:
            raise InvalidValue(
                f"key has 1 to {KEY_CHARACTERS_MAX} characters, none of them NUL; other messages are changed by their id"
            )
        start = message_of(topic, after) if after else None
        position = (-1, -1) if start is None else (start.ledger_id, start.entry_id)
        answer = change_delayed_key(self.actor(), topic, key, deliver_at_ms, position, limit)
        return Response(shapes.shown(shapes.DelayedKeyChanged, answer, next=answer.next or None))


class DelayedCounts(View):
    @describe("How many delayed messages are due when", delayed.DelayedCounts)
    def get(self, request: Request, **parts: str) -> Response:
        return Response(broker.rpc().call(DELAYED_COUNTS, TopicRef(topic=str(topic_of(parts)))))


class DelayedMessageOne(View):
    @describe("Cancel a delayed message: no subscription is sent it", delayed.DelayedChanged)
    def delete(self, request: Request, message_id: str, **parts: str) -> Response:
        message = message_of(topic_of(parts), message_id)
        return Response(change_delayed(self.actor(), message, None))

    @describe("Reschedule a delayed message: it keeps its id", delayed.DelayedChanged, shapes.DelayedTime)
    def patch(self, request: Request, message_id: str, **parts: str) -> Response:
        deliver_at_ms = _time(self.read(shapes.DelayedTime))
        message = message_of(topic_of(parts), message_id)
        return Response(change_delayed(self.actor(), message, deliver_at_ms))


def _milliseconds(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise InvalidValue(f"{name} {text[:40]!r} is no time: give milliseconds since 1970")
    return int(text)


def _time(given: shapes.DelayedTime) -> int:
    """The new delivery time. Raises `InvalidValue`."""
    if given.deliver_at_ms is not UNSET and given.delay_ms is UNSET:
        deliver_at_ms = given.deliver_at_ms
    elif given.delay_ms is not UNSET and given.deliver_at_ms is UNSET:
        deliver_at_ms = wall_ms() + given.delay_ms
    else:
        raise InvalidValue("give either deliver_at_ms, a time, or delay_ms, counted from now")
    if deliver_at_ms > TIME_MS_MAX:
        raise InvalidValue("the delivery time is after the year 9999: give milliseconds since 1970")
    return deliver_at_ms
