"""Pulsar's TopicStats as what the topic page shows. What the broker did not say stays empty; the page then writes "unknown".

`delivered` counts from the broker's start for a subscription, from its connecting for a consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class ProducerRow:
    name: str
    size_bytes: float
    address: str
    client: str
    since: datetime | None


@dataclass(frozen=True)
class ConsumerRow:
    name: str
    subscription: str
    delivered: int
    unacked: int
    permits: int
    address: str
    client: str
    since: datetime | None


@dataclass(frozen=True)
class SubscriptionRow:
    name: str
    kind: str
    backlog: int
    unacked: int
    delivered: int
    expired: int
    consumers: list[ConsumerRow]


@dataclass(frozen=True)
class PartitionRow:
    local: str
    rate_in: float
    rate_out: float
    storage_bytes: int
    backlog: int


@dataclass(frozen=True)
class TopicView:
    producers: list[ProducerRow] = field(default_factory=list)
    subscriptions: list[SubscriptionRow] = field(default_factory=list)
    partitions: list[PartitionRow] = field(default_factory=list)

    @property
    def consumers(self) -> list[ConsumerRow]:
        return [consumer for subscription in self.subscriptions for consumer in subscription.consumers]


def topic_view(stats: Json) -> TopicView:
    """Of ``topics.stats`` or ``topics.partitioned_stats``."""
    return TopicView(
        [_producer(one) for one in stats.get("publishers") or ()],
        [_subscription(name, one) for name, one in sorted((stats.get("subscriptions") or {}).items())],
        [_partition(name, one) for name, one in sorted((stats.get("partitions") or {}).items(), key=_partition_order)],
    )


def _producer(one: Json) -> ProducerRow:
    return ProducerRow(
        one.get("producerName", ""),
        one.get("averageMsgSize", 0.0),
        one.get("address", ""),
        one.get("clientVersion", ""),
        _moment(one.get("connectedSince")),
    )


def _subscription(name: str, one: Json) -> SubscriptionRow:
    return SubscriptionRow(
        name,
        one.get("type") or "",
        one.get("msgBacklog", 0),
        one.get("unackedMessages", 0),
        one.get("msgOutCounter", 0),
        one.get("totalMsgExpired", 0),
        [_consumer(name, consumer) for consumer in one.get("consumers") or ()],
    )


def _consumer(subscription: str, one: Json) -> ConsumerRow:
    return ConsumerRow(
        one.get("consumerName", ""),
        subscription,
        one.get("msgOutCounter", 0),
        one.get("unackedMessages", 0),
        one.get("availablePermits", 0),
        one.get("address", ""),
        one.get("clientVersion", ""),
        _moment(one.get("connectedSince")),
    )


def _partition(name: str, one: Json) -> PartitionRow:
    backlogs: Iterable[int] = (subscription.get("msgBacklog", 0) for subscription in (one.get("subscriptions") or {}).values())
    return PartitionRow(
        name.rpartition("/")[2],
        one.get("msgRateIn", 0.0),
        one.get("msgRateOut", 0.0),
        one.get("storageSize", 0),
        max(backlogs, default=0),
    )


def _moment(text: object) -> datetime | None:
    """Pulsar writes ISO 8601 with an offset or Z; what is neither is not known."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found and found.tzinfo else None


def _partition_order(item: tuple[str, Json]) -> int:
    return int(item[0].rpartition("-partition-")[2] or 0)
