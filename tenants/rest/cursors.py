"""Subscriptions and their cursors, as our API has them: creating, moving, peeking, deleting."""

from __future__ import annotations

from msgspec import UNSET
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.backlog import BacklogAnalyze
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
    TOPICS_PARTITIONED_STATS,
    TOPICS_STATS,
)
from messaging.adminrpc.subscriptions import (
    SubscriptionCreate,
    SubscriptionDelete,
    SubscriptionExpire,
    SubscriptionPeek,
    SubscriptionPropertiesSet,
    SubscriptionRef,
    SubscriptionReset,
    SubscriptionSkip,
)
from messaging.adminrpc.topics import StatsAsked, TopicRef
from messaging.errors import InvalidValue, NotFound, SubscriptionNotFound
from messaging.permissions.model import Action
from messaging.protocol.names import TopicName
from tenants import broker
from tenants.access import require
from tenants.actions.cursors import move, raise_refused
from tenants.actions.topics import topic_resource
from tenants.masking import require_unmasked
from tenants.names import MessageId, message_of, subscription_of
from tenants.rest import message_shapes as shapes
from tenants.rest.base import View, names_of_page
from tenants.rest.namespaces import found_topic
from tenants.rest.outcome import Outcome, outcome_of_move
from tenants.rest.schema import FORCE, PAGE, describe, page_of

_LATEST = 2**63 - 1
_NAMED = {"latest": (_LATEST, _LATEST), "earliest": (-1, -1)}
PEEKED_MAX = 100  # a call of the broker each


def _stats_of(topic: TopicName, partitions: int, names: list[str]) -> dict[str, dict[str, object]]:
    """Of these subscriptions."""
    method = TOPICS_PARTITIONED_STATS if partitions else TOPICS_STATS
    return broker.rpc().call(method, StatsAsked(topic=str(topic), only_subscriptions=names)).stats.get("subscriptions") or {}


def _shown(name: str, stats: dict[str, dict[str, object]]) -> shapes.SubscriptionShape:
    row: dict[str, object] = stats.get(name) or {}

    def count(field: str) -> int:
        value = row.get(field)
        return value if isinstance(value, int) else 0

    consumers, properties, rate = row.get("consumers"), row.get("subscriptionProperties"), row.get("msgRateOut")
    return shapes.SubscriptionShape(
        name=name,
        type="" if row.get("type") in (None, "None") else str(row["type"]),
        durable=bool(row.get("durable", True)),
        backlog_entries=count("msgBacklog"),
        unacked_messages=count("unackedMessages"),
        delayed_messages=count("msgDelayed"),
        consumers=len(consumers) if isinstance(consumers, list) else 0,
        rate_out=float(rate) if isinstance(rate, int | float) else 0.0,
        properties=dict(properties) if isinstance(properties, dict) else {},
    )


def _id_on(topic: TopicName, partitions: int, text: str) -> MessageId:
    """A message by its id; on a partitioned topic the id says on which partition. Raises `InvalidValue`."""
    message = message_of(topic, text)
    if partitions and message.topic == topic:
        raise InvalidValue(f"{topic} is partitioned: give ledger:entry:partition, or a time")
    return message


class Subscriptions(View):
    @describe("Subscriptions of a topic", page_of(shapes.SubscriptionShape), parameters=PAGE)
    def get(self, request: Request, **parts: str) -> Response:
        topic, partitions = found_topic(parts)
        names = broker.rpc().call(SUBSCRIPTIONS_LIST, TopicRef(topic=str(topic))).subscriptions
        shown, following = names_of_page(request, names)
        stats = _stats_of(topic, partitions, shown) if shown else {}
        return Response({"items": [_shown(name, stats) for name in shown], "next": following})

    @describe("Create a subscription", Outcome, shapes.NewSubscription, 201)
    def post(self, request: Request, **parts: str) -> Response:
        given = self.read(shapes.NewSubscription)
        topic, partitions = found_topic(parts)
        name = subscription_of(given.name)
        require(self.actor(), Action.CURSOR_ADMIN, topic_resource(topic, name))
        if given.position in _NAMED:
            ledger_id, entry_id = _NAMED[given.position]
        else:
            message = _id_on(topic, partitions, given.position)
            topic, ledger_id, entry_id = message.topic, message.ledger_id, message.entry_id
        asked = SubscriptionCreate(
            topic=str(topic), subscription=name, ledger_id=ledger_id, entry_id=entry_id, properties=given.properties
        )
        answer = move(self.actor(), SUBSCRIPTIONS_CREATE, asked)
        return Response(outcome_of_move("subscription.create", f"{topic}/{name}", answer, dry_run=False), status=201)


class SubscriptionOne(View):
    @describe("A subscription", shapes.SubscriptionShape)
    def get(self, request: Request, subscription: str, **parts: str) -> Response:
        topic, partitions = found_topic(parts)
        name = subscription_of(subscription)
        if name not in broker.rpc().call(SUBSCRIPTIONS_LIST, TopicRef(topic=str(topic))).subscriptions:
            raise SubscriptionNotFound(f"subscription {name!r} of {topic} does not exist")
        return Response(_shown(name, _stats_of(topic, partitions, [name])))

    @describe("Delete a subscription", None, status=204, parameters=[FORCE], dry_run=True)
    def delete(self, request: Request, subscription: str, **parts: str) -> Response:
        dry_run, force = self.dry_run(), self.query_flag("force")
        topic, _ = found_topic(parts)
        name = subscription_of(subscription)
        asked = SubscriptionDelete(topic=str(topic), subscription=name, force=force, dry_run=dry_run)
        answer = move(self.actor(), SUBSCRIPTIONS_DELETE, asked)
        if not dry_run:
            return Response(status=204)
        return Response(outcome_of_move("subscription.delete", f"{topic}/{name}", answer, dry_run=True))


class SubscriptionClear(View):
    @describe("Acknowledge everything in the backlog", Outcome, dry_run=True)
    def post(self, request: Request, subscription: str, **parts: str) -> Response:
        dry_run = self.dry_run()
        topic, _ = found_topic(parts)
        name = subscription_of(subscription)
        asked = SubscriptionSkip(topic=str(topic), subscription=name, dry_run=dry_run)
        answer = move(self.actor(), SUBSCRIPTIONS_SKIP, asked)
        return Response(outcome_of_move("subscription.clear_backlog", f"{topic}/{name}", answer, dry_run=dry_run))


class SubscriptionSkipEntries(View):
    @describe("Acknowledge the next entries of the backlog; not of a partitioned topic", Outcome, shapes.Skip, dry_run=True)
    def post(self, request: Request, subscription: str, **parts: str) -> Response:
        dry_run, given = self.dry_run(), self.read(shapes.Skip)
        topic, partitions = found_topic(parts)
        _check_single(topic, partitions, "skipping on")
        name = subscription_of(subscription)
        asked = SubscriptionSkip(topic=str(topic), subscription=name, entries=given.entries, dry_run=dry_run)
        answer = move(self.actor(), SUBSCRIPTIONS_SKIP, asked)
        return Response(outcome_of_move("subscription.skip", f"{topic}/{name}", answer, dry_run=dry_run))


class SubscriptionPosition(View):
    @describe("Move a subscription to a message or a time", Outcome, shapes.Reset, dry_run=True)
    def post(self, request: Request, subscription: str, **parts: str) -> Response:
        dry_run, given = self.dry_run(), self.read(shapes.Reset)
        if sum(value is not UNSET for value in (given.position, given.publish_time_ms, given.message_id)) != 1:
            raise InvalidValue("say where to by one of position, publish_time_ms and message_id")
        topic, partitions = found_topic(parts)
        name = subscription_of(subscription)
        asked = SubscriptionReset(topic=str(topic), subscription=name, excluded=given.excluded, dry_run=dry_run)
        if given.publish_until_ms is not UNSET:
            if given.publish_time_ms is UNSET:
                raise InvalidValue("publish_until_ms goes with publish_time_ms: say from when on messages come again")
            asked.until_ms = given.publish_until_ms
        if given.publish_time_ms is not UNSET:
            asked.timestamp_ms = given.publish_time_ms
        elif given.message_id is not UNSET:
            message = _id_on(topic, partitions, given.message_id)
            asked.topic, asked.ledger_id, asked.entry_id = str(message.topic), message.ledger_id, message.entry_id
        else:
            asked.ledger_id, asked.entry_id = _NAMED[str(given.position)]
        answer = move(self.actor(), SUBSCRIPTIONS_RESET, asked)
        return Response(outcome_of_move("subscription.reset", f"{asked.topic}/{name}", answer, dry_run=dry_run))


class SubscriptionExpiry(View):
    @describe("Acknowledge messages that are older, or up to one", Outcome, shapes.Expire, dry_run=True)
    def post(self, request: Request, subscription: str, **parts: str) -> Response:
        dry_run, given = self.dry_run(), self.read(shapes.Expire)
        if (given.older_than_s is UNSET) == (given.message_id is UNSET):
            raise InvalidValue("say which messages by one of older_than_s and message_id")
        topic, partitions = found_topic(parts)
        name = subscription_of(subscription)
        asked = SubscriptionExpire(topic=str(topic), subscription=name, excluded=given.excluded, dry_run=dry_run)
        if given.message_id is not UNSET:
            message = _id_on(topic, partitions, given.message_id)
            asked.topic, asked.ledger_id, asked.entry_id = str(message.topic), message.ledger_id, message.entry_id
        elif given.older_than_s is not UNSET:
            asked.older_than_s = given.older_than_s
        answer = move(self.actor(), SUBSCRIPTIONS_EXPIRE, asked)
        return Response(outcome_of_move("subscription.expire", f"{asked.topic}/{name}", answer, dry_run=dry_run))


class SubscriptionBacklog(View):
    @describe("What a subscription has not acknowledged, counted; not of a partitioned topic", shapes.BacklogShape)
    def get(self, request: Request, subscription: str, **parts: str) -> Response:
        topic, partitions = found_topic(parts)
        _check_single(topic, partitions, "analyzing a backlog of")
        asked = BacklogAnalyze(topic=str(topic), subscription=subscription_of(subscription))
        backlog = broker.rpc().call(SUBSCRIPTIONS_ANALYZE_BACKLOG, asked)
        return Response(
            shapes.BacklogShape(
                entries=backlog.entries,
                messages=backlog.messages,
                first=backlog.first,
                last=backlog.last,
                complete=not backlog.aborted,
            )
        )


class SubscriptionProperties(View):
    @describe("Properties of a subscription", shapes.NewProperties)
    def get(self, request: Request, subscription: str, **parts: str) -> Response:
        topic, _ = found_topic(parts)
        asked = SubscriptionRef(topic=str(topic), subscription=subscription_of(subscription))
        return Response(shapes.NewProperties(properties=broker.rpc().call(SUBSCRIPTIONS_PROPERTIES, asked).properties))

    @describe("Replace the properties of a subscription", shapes.NewProperties, shapes.NewProperties)
    def put(self, request: Request, subscription: str, **parts: str) -> Response:
        given = self.read(shapes.NewProperties)
        topic, _ = found_topic(parts)
        name = subscription_of(subscription)
        asked = SubscriptionPropertiesSet(topic=str(topic), subscription=name, properties=given.properties)
        raise_refused(broker.rpc().call(SUBSCRIPTIONS_SET_PROPERTIES, asked))
        self.actor().trail.after = {"properties": given.properties}
        return Response(given)


class SubscriptionMessages(View):
    @describe(
        "The first messages that a subscription has not acknowledged, without delivering them; not of a partitioned topic",
        page_of(shapes.MessageShape),
        parameters=PAGE,
    )
    def get(self, request: Request, subscription: str, **parts: str) -> Response:
        """Pages count on: what is acknowledged between two pages moves the others up."""
        limit = self.query_number("limit", 10, 1, PEEKED_MAX)
        start = self.query_number("after", 0, 0, 2**62)
        topic, partitions = found_topic(parts)
        _check_single(topic, partitions, "peeking at")
        require_unmasked(self.actor(), topic)
        name = subscription_of(subscription)
        if name not in broker.rpc().call(SUBSCRIPTIONS_LIST, TopicRef(topic=str(topic))).subscriptions:
            raise SubscriptionNotFound(f"subscription {name!r} of {topic} does not exist")
        messages: list[shapes.MessageShape] = []
        size = 0
        for position in range(start + 1, start + limit + 1):
            try:
                asked = SubscriptionPeek(topic=str(topic), subscription=name, position=position)
                message = broker.rpc().call(SUBSCRIPTIONS_PEEK, asked)
            except NotFound:
                return Response({"items": messages, "next": None})
            messages.append(shapes.show_message(message))
            size += len(message.payload)
            if size >= PEEKED_BYTES_MAX:
                break
        return Response({"items": messages, "next": str(start + len(messages))})


PEEKED_BYTES_MAX = 1 << 20  # of payloads in base64: a page ends behind the message that passes it


def _check_single(topic: TopicName, partitions: int, what: str) -> None:
    if partitions:
        raise InvalidValue(f"{what} a partitioned topic is not possible: use one of its partitions, {topic}-partition-0 and so on")
