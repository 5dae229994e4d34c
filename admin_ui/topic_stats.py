"""Pulsar's TopicStats in the form that the topic page shows. Missing texts are empty and missing numbers None; the page then
shows "unknown" or a dash.

`delivered` counts since the broker's start for a subscription, and since it connected for a consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from admin_ui.addresses import short_name
from admin_ui.pages import sentence
from admin_ui.translation.figures import exact
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.broker.core.subscription_type import TYPE_NAMES
from messaging.problems.kinds import MARKS, ORDER, Kind

Json = Mapping[str, Any]


@dataclass(frozen=True)
class State:
    """A badge beside a subscription. `kind` selects its style; `meaning` explains when it is shown."""

    text: str
    kind: str
    meaning: str


NO_CONSUMER = State(gettext_lazy("NO CONSUMER"), "", gettext_lazy("No consumer is connected to this subscription."))

TOLD_BY_ITSELF = frozenset({Kind.PRODUCERS_HELD, Kind.UNREAD})  # of the topic page
NOTHING_TO_EXPLAIN = frozenset({"delivering", "nothing_to_deliver"})


@dataclass(frozen=True)
class ProducerRow:
    name: str
    rate_in: float | None
    size_bytes: float | None
    address: str
    client: str
    since: datetime | None
    schema_version: int | None  # of its schema; None: it has none, or that is unknown


@dataclass(frozen=True)
class ConsumerRow:
    name: str
    subscription: str
    rate_out: float | None
    delivered: int | None
    unacked: int | None
    permits: int | None
    blocked: bool
    address: str
    client: str
    since: datetime | None
    schema_version: int | None  # the same, or its schema is no version of the topic's


@dataclass(frozen=True)
class SubscriptionRow:
    name: str
    kind: str
    states: list[State]
    backlog: int | None
    oldest_s: int | None  # age of the oldest unacknowledged entry; None: unknown, or there is none
    unacked: int | None
    rate_out: float | None
    ack_rate: float | None
    delivered: int | None
    expired: int | None
    dropped: int | None  # None: it keeps messages until they are acknowledged
    dead_letters: str  # "off", or how many messages were moved and what is in the way
    consumers: list[ConsumerRow]  # those that were asked for
    connected: int  # consumers, whether they were asked for or not
    explanation: str  # what holds delivery back, and what to do; "" if nothing does, or it is unknown

    @property
    def told(self) -> str:
        """`explanation`, or else what the marks of its problems mean."""
        return self.explanation or " ".join(str(state.meaning) for state in self.states if state.kind)

    @property
    def held_by(self) -> str:
        """The same, or that nobody is connected, so that no list denies what another one marks."""
        return self.told or " ".join(str(state.meaning) for state in self.states)


@dataclass(frozen=True)
class PartitionRow:
    local: str
    rate_in: float | None
    rate_out: float | None
    storage_bytes: int | None
    backlog: int | None
    subscriptions: list[SubscriptionRow] = field(default_factory=list)


@dataclass(frozen=True)
class TopicView:
    producers: list[ProducerRow] = field(default_factory=list)
    subscriptions: list[SubscriptionRow] = field(default_factory=list)
    partitions: list[PartitionRow] = field(default_factory=list)
    publishing_held: list[str] = field(default_factory=list)  # why producers are refused, of each partition where they are
    marks: list[State] = field(default_factory=list)  # of problems of the topic itself, beside those that have texts of their own
    unread: bool = False  # something was published, by whomever, and nothing keeps it

    @property
    def consumers(self) -> list[ConsumerRow]:
        return [consumer for subscription in self.subscriptions for consumer in subscription.consumers]


def topic_view(stats: Json, backlogs: Mapping[str, int] | None = None) -> TopicView:
    """From the result of ``topics.stats`` or ``topics.partitioned_stats``. `backlogs`: of partitions by their full names, where
    the stats are not of all subscriptions."""
    return TopicView(
        [_producer(one) for one in stats.get("publishers") or ()],
        _subscriptions(stats),
        [
            _partition(name, one, (backlogs or {}).get(name))
            for name, one in sorted((stats.get("partitions") or {}).items(), key=_partition_order)
        ],
        [one["publishingHeld"] for one in (stats, *(stats.get("partitions") or {}).values()) if one.get("publishingHeld")],
        [mark_state(kind) for kind in _marked(stats) if kind not in TOLD_BY_ITSELF],
        Kind.UNREAD in _marked(stats),
    )


def _producer(one: Json) -> ProducerRow:
    return ProducerRow(
        one.get("producerName", ""),
        one.get("msgRateIn"),
        one.get("averageMsgSize") or None,
        one.get("address", ""),
        one.get("clientVersion", ""),
        _moment(one.get("connectedSince")),
        one.get("schemaVersion"),
    )


def _subscriptions(stats: Json) -> list[SubscriptionRow]:
    return [_subscription(name, one) for name, one in sorted((stats.get("subscriptions") or {}).items())]


def _subscription(name: str, one: Json) -> SubscriptionRow:
    consumers = [_consumer(name, consumer) for consumer in one.get("consumers") or ()]
    oldest_s = one.get("oldestBacklogMessageAgeSeconds", -1)
    return SubscriptionRow(
        name,
        one["type"] if one.get("type") in TYPE_NAMES.values() else "",  # Pulsar has a word for it where nobody has subscribed yet
        _states(one),
        one.get("msgBacklog"),
        oldest_s if oldest_s >= 0 else None,
        one.get("unackedMessages"),
        one.get("msgRateOut"),
        one.get("messageAckRate"),
        one.get("msgOutCounter"),
        one.get("totalMsgExpired"),
        one.get("msgDropCounter"),
        _dead_letters(one.get("deadLetters")),
        consumers,
        len(consumers),
        _explanation(one),
    )


def _dead_letters(one: Json | None) -> str:
    if one is None:
        return gettext("off")
    moved, waiting = one.get("movedMessages", 0), one.get("waitingEntries", 0)
    text = gettext("{moved} moved, {waiting} waiting") if waiting else gettext("{moved} moved")
    return text.format(moved=exact(moved), waiting=exact(waiting))


def _explanation(one: Json) -> str:
    found = one.get("explanation") or {}
    if not found or found.get("reason") in NOTHING_TO_EXPLAIN:
        return ""
    return f"{said(found.get('sentence', ''))} {sentence(said(found.get('remedy', '')))}".strip()


def _states(one: Json) -> list[State]:
    """The marks of its problems, which lists of problems have, too; and that nobody is connected, where that is none."""
    kinds = _marked(one)
    states = [mark_state(kind) for kind in kinds]
    alone = one.get("deliveryHealth") in ("idle", "abandoned") and Kind.NO_CONSUMER not in kinds
    return [*states, *([NO_CONSUMER] if alone else [])]


def _marked(one: Json) -> list[str]:
    """The kinds of its problems, in order, without those of a later release."""
    return sorted((kind for kind in one.get("problems") or () if kind in MARKS), key=ORDER.__getitem__)


def mark_state(kind: str) -> State:
    """Of one of `Kind`."""
    mark = MARKS[Kind(kind)]
    return State(said(mark.text), "bad" if mark.serious else "warn", said(mark.meaning))


def _consumer(subscription: str, one: Json) -> ConsumerRow:
    return ConsumerRow(
        one.get("consumerName", ""),
        subscription,
        one.get("msgRateOut"),
        one.get("msgOutCounter"),
        one.get("unackedMessages"),
        one.get("availablePermits"),
        bool(one.get("blockedConsumerOnUnackedMsgs")),
        one.get("address", ""),
        one.get("clientVersion", ""),
        _moment(one.get("connectedSince")),
        one.get("schemaVersion"),
    )


def _partition(name: str, one: Json, backlog: int | None) -> PartitionRow:
    backlogs: Iterable[int] = (subscription.get("msgBacklog", 0) for subscription in (one.get("subscriptions") or {}).values())
    return PartitionRow(
        short_name(name),
        one.get("msgRateIn"),
        one.get("msgRateOut"),
        one.get("storageSize"),
        max(backlogs, default=0) if backlog is None else backlog,
        _subscriptions(one),
    )


def _moment(text: object) -> datetime | None:
    """Pulsar writes ISO 8601 with an offset or Z; anything else counts as unknown."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found and found.tzinfo else None


def _partition_order(item: tuple[str, Json]) -> int:
    return int(item[0].rpartition("-partition-")[2] or 0)
