"""What somebody wants to see of a topic's messages, from the parameters of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from django.utils.crypto import constant_time_compare, salted_hmac

from messaging.adminrpc.browse import TEXT_BYTES_MAX
from messaging.errors import InvalidValue
from messaging.limits.sizes import BATCH_MESSAGES_MAX, INT64_MAX, PARTITIONS_MAX
from messaging.payloads.filters import MessageFilter, message_filter
from messaging.payloads.reading import FORMATS, Format
from messaging.protocol.names import TopicName
from messaging.times import TIME_MS_MAX
from tenants.names import message_of

LIMIT, LIMIT_MAX = 20, 100
ORDERS = "oldest", "newest"
FILTERS = ("key", "property", "text", "path", "compare", "value", "from_ms", "until_ms")
PARAMETERS = ("position", "publish_time_ms", "subscription", "order", "format", "limit", "after", *FILTERS)
_TOKEN = re.compile(r"(-?\d{1,5})\.(-?\d{1,19})\.(-?\d{1,19})\.(-?\d{1,6})(?:\.([0-9a-f]{32}))?")
_NOT_SOUGHT = frozenset({"after", "limit", "format"})  # a page may go on with other ones


class Place(NamedTuple):
    """Where a page begins. -1/-1: the first message, 2^63-1 the last; `partition` -1: of a topic without."""

    partition: int = -1
    ledger_id: int = -1
    entry_id: int = -1
    batch_index: int = -1

    def token(self, topic: TopicName, given: Mapping[str, str]) -> str:
        """The `after` of a page that goes on here with what was asked for. It is signed: one that somebody made up begins a search
        of its own, which is recorded."""
        text = ".".join(map(str, self))
        return f"{text}.{_signature(text, topic, given)}"


class MessageQuery(NamedTuple):
    """`place` None: where `subscription` or `publish_time_ms` say, else at the beginning, or the end where the newest come first.
    `exact`: the message at `place` alone. `going_on`: it is not the first page, and the platform said where it begins."""

    place: Place | None
    subscription: str
    publish_time_ms: int
    newest_first: bool
    format: Format
    limit: int
    filter: MessageFilter
    given: Mapping[str, str]
    going_on: bool = False
    exact: bool = False

    @property
    def filtered(self) -> bool:
        return any(name in self.given for name in FILTERS)


def _signature(text: str, topic: TopicName, given: Mapping[str, str]) -> str:
    asked = sorted((name, value) for name, value in given.items() if name not in _NOT_SOUGHT)
    return salted_hmac("messages.browse", repr((text, str(topic), asked)), algorithm="sha256").hexdigest()[:32]


def message_query(topic: TopicName, parameters: Mapping[str, str]) -> MessageQuery:
    """Raises `InvalidValue` that names the parameter. Empty ones count as not given: forms send them."""
    given = {name: parameters[name] for name in PARAMETERS if parameters.get(name, "") != ""}
    for name, text in given.items():
        if len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX or "\x00" in text:
            raise InvalidValue(f"{name} has more than {TEXT_BYTES_MAX} bytes, or a NUL: use a shorter one")
    order, position = given.get("order", ""), given.get("position", "")
    if order not in ("", *ORDERS):
        raise InvalidValue(f"order {order[:20]!r} is neither oldest nor newest: say which messages come first")
    newest_first = order == "newest" or (not order and position == "latest")
    if sum(name in given for name in ("position", "publish_time_ms", "subscription")) > 1:
        raise InvalidValue("position, publish_time_ms and subscription each say where to begin: give one of them")
    after = given.get("after", "")
    return MessageQuery(
        place=message_place(after) if after else _place(topic, position),
        subscription=given.get("subscription", ""),
        publish_time_ms=_number(given, "publish_time_ms", 0, TIME_MS_MAX),
        newest_first=newest_first,
        format=_format(given.get("format", "auto")),
        limit=_number(given, "limit", LIMIT, LIMIT_MAX, least=1),
        filter=_filter(given),
        given=given,
        going_on=bool(after) and _is_signed(after, topic, given),
    )


def _filter(given: Mapping[str, str]) -> MessageFilter:
    name, separator, value = given.get("property", "").partition("=")
    if separator and not name:
        raise InvalidValue("property is NAME, or NAME=VALUE: it has no name")
    compare = given.get("compare", "eq")
    if ("value" in given or "compare" in given) and "path" not in given:
        raise InvalidValue("value is compared with what a path leads to: give path, such as $.order.id")
    if "path" in given and "value" not in given and compare == "eq" and "compare" not in given:
        compare = "exists"
    return message_filter(
        key=given.get("key"),
        property_name=name,
        property_value=value if separator else None,
        text=given.get("text", ""),
        path=given.get("path", ""),
        comparison=compare,
        value=given.get("value", ""),
        from_ms=_number(given, "from_ms", 0, TIME_MS_MAX),
        until_ms=_number(given, "until_ms", 0, TIME_MS_MAX),
    )


def _is_signed(after: str, topic: TopicName, given: Mapping[str, str]) -> bool:
    text, _, signature = after.rpartition(".")
    return constant_time_compare(signature, _signature(text, topic, given))


def _place(topic: TopicName, position: str) -> Place | None:
    if position == "latest":
        return Place(topic.partition, INT64_MAX, INT64_MAX)
    if position in ("", "earliest"):
        return Place(topic.partition) if position else None
    message = message_of(topic, position)
    return Place(message.topic.partition, message.ledger_id, message.entry_id, message.batch_index)


def message_place(text: str) -> Place:
    """Of a token. Raises `InvalidValue`."""
    match = _TOKEN.fullmatch(text)
    place = Place(*map(int, match.groups()[:4])) if match else None
    if (
        place is None
        or not -1 <= place.partition < PARTITIONS_MAX
        or not all(-1 <= number <= INT64_MAX for number in (place.ledger_id, place.entry_id))
        or not -1 <= place.batch_index < BATCH_MESSAGES_MAX
    ):
        raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
    return place


def _format(text: str) -> Format:
    for form in FORMATS:
        if form == text:
            return form
    raise InvalidValue(f"format {text[:20]!r} is unknown: use one of {', '.join(FORMATS)}")


def _number(given: Mapping[str, str], name: str, default: int, most: int, *, least: int = 0) -> int:
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
        raise InvalidValue(f"{name} {text[:20]!r} is not a number from {least} to {most}")
    return int(text)
