"""Subscriptions of topics: creating, moving, skipping, peeking, deleting."""

from __future__ import annotations

import base64
from typing import Any

from django.http import HttpRequest, HttpResponse

from messaging.adminrpc.backlog import BacklogAfter, BacklogAnalyze
from messaging.adminrpc.methods import (
    SUBSCRIPTIONS_ANALYZE_BACKLOG,
    SUBSCRIPTIONS_CREATE,
    SUBSCRIPTIONS_DELETE,
    SUBSCRIPTIONS_EXPIRE,
    SUBSCRIPTIONS_LIST,
    SUBSCRIPTIONS_PEEK,
    SUBSCRIPTIONS_PROPERTIES,
    SUBSCRIPTIONS_RESET,
    SUBSCRIPTIONS_SET_PROPERTIES,
    SUBSCRIPTIONS_SKIP,
    TOPICS_BACKLOG_SIZE,
)
from messaging.adminrpc.subscriptions import (
    PeekAnswer,
    SubscriptionCreate,
    SubscriptionDelete,
    SubscriptionExpire,
    SubscriptionPeek,
    SubscriptionPropertiesSet,
    SubscriptionRef,
    SubscriptionReset,
    SubscriptionSkip,
)
from messaging.adminrpc.topics import TopicRef
from messaging.errors import Conflict, InvalidValue, NotAllowed
from messaging.http_headers import header_fields
from messaging.permissions.model import Action
from messaging.protocol.names import TopicName
from tenants import broker
from tenants.access import require
from tenants.actions.cursors import move, raise_refused
from tenants.actions.topics import topic_resource
from tenants.http.views import actor, body, number, route
from tenants.masking import require_unmasked
from tenants.names import subscription_of
from tenants.pulsar.bodies import POSITION_GIVEN, PROPERTIES_GIVEN, ResetCursorData
from tenants.pulsar.topics import existing, partitions_of

_LATEST = 2**63 - 1


_NAMED = {None: ResetCursorData(_LATEST, _LATEST), "latest": ResetCursorData(_LATEST, _LATEST), "earliest": ResetCursorData(-1, -1)}


def _single(topic: TopicName, what: str) -> str:
    """The name of a non-partitioned topic. Raises `NotAllowed` for a partitioned one."""
    names = partitions_of(topic)
    if names != [str(topic)]:
        raise NotAllowed(f"{what} a partitioned topic is not possible: use one of its partitions")
    return names[0]


def _list(request: HttpRequest, **parts: str) -> list[str]:
    return broker.rpc().call(SUBSCRIPTIONS_LIST, TopicRef(topic=str(existing(parts)))).subscriptions


def _create(request: HttpRequest, subscription: str, **parts: str) -> None:
    """Creates a subscription at "latest" (the default), "earliest" or a message id. On a partitioned topic, creates it on every
    partition; 409 only if all of them have it already."""
    topic, name = existing(parts), subscription_of(subscription)
    given: ResetCursorData | str | None = body(request, POSITION_GIVEN, None)
    position = _NAMED.get(given) if given is None or isinstance(given, str) else given
    if position is None:
        raise InvalidValue(f"position {given!r} is not valid: use earliest, latest or a message id")
    asked = SubscriptionCreate(
        topic=str(topic),
        subscription=name,
        ledger_id=position.ledger_id,
        entry_id=position.entry_id,
        properties=(given.properties or {}) if isinstance(given, ResetCursorData) else {},
    )
    move(actor(request), SUBSCRIPTIONS_CREATE, asked)


def _delete(request: HttpRequest, subscription: str, **parts: str) -> None:
    name, force = subscription_of(subscription), request.GET.get("force", "").lower() == "true"
    move(actor(request), SUBSCRIPTIONS_DELETE, SubscriptionDelete(topic=str(existing(parts)), subscription=name, force=force))


def _skip_all(request: HttpRequest, subscription: str, **parts: str) -> None:
    name = subscription_of(subscription)
    move(actor(request), SUBSCRIPTIONS_SKIP, SubscriptionSkip(topic=str(existing(parts)), subscription=name))


def _skip(request: HttpRequest, subscription: str, entries: str, **parts: str) -> None:
    topic = _single(existing(parts), "skipping on")
    count = number(entries, "number of messages")
    move(
        actor(request), SUBSCRIPTIONS_SKIP, SubscriptionSkip(topic=topic, subscription=subscription_of(subscription), entries=count)
    )


def _expire(request: HttpRequest, subscription: str, seconds: str, **parts: str) -> None:
    """409 only if none of the partitions has anything that could expire."""
    name, age_s = subscription_of(subscription), number(seconds, "age", 1)
    asked = SubscriptionExpire(topic=str(existing(parts)), subscription=name, older_than_s=age_s)
    move(actor(request), SUBSCRIPTIONS_EXPIRE, asked)


def _expire_all(request: HttpRequest, seconds: str, **parts: str) -> None:
    topic, age_s = existing(parts), number(seconds, "age", 1)
    subscriptions = broker.rpc().call(SUBSCRIPTIONS_LIST, TopicRef(topic=str(topic))).subscriptions
    for name in subscriptions:
        require(actor(request), Action.CURSOR_ADMIN, topic_resource(topic, name))
    refused: list[Conflict] = []
    for name in subscriptions:
        asked = SubscriptionExpire(topic=str(topic), subscription=name, older_than_s=age_s)
        try:
            move(actor(request), SUBSCRIPTIONS_EXPIRE, asked, of_many=True)
        except Conflict as error:
            refused.append(error)
    if refused and len(refused) == len(subscriptions):
        raise refused[0]


def _reset_to_time(request: HttpRequest, subscription: str, timestamp: str, **parts: str) -> None:
    name, at_ms = subscription_of(subscription), number(timestamp, "timestamp")
    asked = SubscriptionReset(topic=str(existing(parts)), subscription=name, timestamp_ms=at_ms)
    move(actor(request), SUBSCRIPTIONS_RESET, asked)


def _reset(request: HttpRequest, subscription: str, **parts: str) -> None:
    topic = _single(existing(parts), "resetting to a message on")
    to = body(request, ResetCursorData, None)
    if to is None:
        raise InvalidValue("the request body has no message id: send ledgerId and entryId")
    name = subscription_of(subscription)
    move(
        actor(request),
        SUBSCRIPTIONS_RESET,
        SubscriptionReset(topic=topic, subscription=name, ledger_id=to.ledger_id, entry_id=to.entry_id, excluded=to.excluded),
    )


def _expire_to(request: HttpRequest, subscription: str, **parts: str) -> None:
    topic = _single(existing(parts), "expiring up to a message on")
    to = body(request, ResetCursorData, None)
    if to is None:
        raise InvalidValue("the request body has no message id: send ledgerId and entryId")
    name = subscription_of(subscription)
    asked = SubscriptionExpire(topic=topic, subscription=name, ledger_id=to.ledger_id, entry_id=to.entry_id, excluded=to.excluded)
    move(actor(request), SUBSCRIPTIONS_EXPIRE, asked)


def _analyze_backlog(request: HttpRequest, subscription: str, **parts: str) -> dict[str, Any]:
    """From the position in the body on, or of the whole backlog."""
    topic, start = _single(existing(parts), "analyzing a backlog of"), body(request, ResetCursorData, None)
    asked = BacklogAnalyze(topic=topic, subscription=subscription_of(subscription))
    if start is not None:
        asked.ledger_id, asked.entry_id = start.ledger_id, start.entry_id + int(start.excluded)
    backlog = broker.rpc().call(SUBSCRIPTIONS_ANALYZE_BACKLOG, asked)
    answer = {"entries": backlog.entries, "messages": backlog.messages, "aborted": backlog.aborted}
    for what, count in (("Accepted", 1), ("Rejected", 0), ("Rescheduled", 0)):  # there are no filters
        answer |= {f"filter{what}Entries": count * backlog.entries, f"filter{what}Messages": count * backlog.messages}
    return answer | ({"firstMessageId": backlog.first, "lastMessageId": backlog.last} if backlog.entries else {})


def _backlog_size(request: HttpRequest, **parts: str) -> int:
    """Of what follows a message."""
    topic, after = existing(parts), body(request, ResetCursorData, None)
    if after is None:
        raise InvalidValue("the request body has no message id: send ledgerId and entryId")
    asked = BacklogAfter(topic=str(topic), ledger_id=after.ledger_id, entry_id=after.entry_id)
    return broker.rpc().call(TOPICS_BACKLOG_SIZE, asked).size_bytes


def _peek(request: HttpRequest, subscription: str, position: str, **parts: str) -> HttpResponse:
    name = existing(parts)
    require_unmasked(actor(request), name)
    topic = _single(name, "peeking at")
    nth = number(position, "position", 1)
    message = broker.rpc().call(
        SUBSCRIPTIONS_PEEK, SubscriptionPeek(topic=topic, subscription=subscription_of(subscription), position=nth)
    )
    return message_response(message)


def message_response(message: PeekAnswer) -> HttpResponse:
    """A stored message, with its metadata as headers."""
    response = HttpResponse(base64.b64decode(message.payload), content_type="application/octet-stream")
    for name, value in header_fields(message.headers).items():
        response.headers[name] = value
    response.headers["X-Pulsar-Message-ID"] = f"{message.ledger_id}:{message.entry_id}"
    return response


def _get_properties(request: HttpRequest, subscription: str, **parts: str) -> dict[str, str]:
    asked = SubscriptionRef(topic=str(existing(parts)), subscription=subscription_of(subscription))
    return broker.rpc().call(SUBSCRIPTIONS_PROPERTIES, asked).properties


def _set_properties(request: HttpRequest, subscription: str, **parts: str) -> None:
    """Replaces all of them, on every partition."""
    topic, name = str(existing(parts)), subscription_of(subscription)
    properties = body(request, PROPERTIES_GIVEN, {})
    asked = SubscriptionPropertiesSet(topic=topic, subscription=name, properties=properties)
    raise_refused(broker.rpc().call(SUBSCRIPTIONS_SET_PROPERTIES, asked))


list_view = route(GET=_list)
subscription_view = route(PUT=_create, DELETE=_delete)
skip_all_view = route(POST=_skip_all)
skip_view = route(POST=_skip)
expire_view = route(POST=_expire)
expire_to_view = route(POST=_expire_to)
expire_all_view = route(POST=_expire_all)
reset_view = route(POST=_reset)
reset_to_time_view = route(POST=_reset_to_time)
peek_view = route(GET=_peek)
analyze_backlog_view = route(POST=_analyze_backlog)
backlog_size_view = route(PUT=_backlog_size)
properties_view = route(GET=_get_properties, PUT=_set_properties)
