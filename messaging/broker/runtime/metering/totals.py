"""Running totals for usage records: of a topic with its clients and subscriptions, and of tenants' connections by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from messaging.broker.core.clients import client_usage
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.usage.record import DetailTotals, TopicTotals
from messaging.errors import TopicNotFound
from messaging.storage.meta_store import TopicRecord, namespace_of
from messaging.usage_schema import CLIENT, SUBSCRIPTION, TENANT

ClientKey = tuple[str, str]  # tenant, key


def max_backlog(topic: Topic) -> int:
    """The backlog of the subscription that has most, in entries."""
    return max((subscription.backlog_entries for subscription in topic.subscriptions.table.values()), default=0)


def totals_of(topic: Topic) -> TopicTotals:
    """Of a loaded topic; of one that was closed, the last ones, and of one that was deleted, that nothing is stored any more."""
    deleted = isinstance(topic.closed, TopicNotFound)
    name = topic.name
    return TopicTotals(
        name.tenant,
        str(name.namespace),
        topic.text,
        *topic.totals,
        0 if deleted else topic.ledger.stored_bytes,
        0 if deleted else max_backlog(topic),
        topic.tenant_uid,
        (*_clients(topic), *_subscriptions(topic)),
    )


def totals_at_rest(record: TopicRecord, open_bytes: int, tenant_uid: str) -> TopicTotals:
    """Of a topic that was not loaded since the start. What its backlog is only loading it tells."""
    namespace = namespace_of(record.name)
    stored = sum(ledger.length_bytes for ledger in record.ledgers) + open_bytes
    return TopicTotals(namespace.partition("/")[0], namespace, record.name, 0, 0, 0, 0, stored, 0, tenant_uid)


def _clients(topic: Topic) -> Iterator[DetailTotals]:
    totals: dict[tuple[str, str], list[int]] = {}  # by subscription and key
    for key, values in client_usage.produced(topic.producers.table.departed, topic.producers).items():
        totals["", key] = [*values, 0, 0, 0]
    for subscription in topic.subscriptions.table.values():
        if subscription.departed or subscription.consumers:
            _add(
                totals,
                subscription.name if subscription.durable else "",
                client_usage.consumed(subscription.departed, subscription.consumers),
            )
    for name, departed in topic.subscriptions.departed or ():
        _add(totals, name, departed)
    return (DetailTotals(CLIENT, name, key, tuple(values)) for (name, key), values in totals.items())


def _add(totals: dict[tuple[str, str], list[int]], name: str, more: client_usage.Totals) -> None:
    for key, values in more.items():
        sums = totals.setdefault((name, key), [0, 0, 0, 0, 0])
        for index, value in enumerate(values, start=2):
            sums[index] += value


def _subscriptions(topic: Topic) -> Iterator[DetailTotals]:
    for subscription in topic.subscriptions.table.values():
        if subscription.durable:
            yield DetailTotals(
                SUBSCRIPTION, subscription.name, "", (), (subscription.backlog_entries, subscription.delayed_entries)
            )


class TenantTotals:
    """Of tenants: connections of each of their keys. `connections` gives those of now."""

    def __init__(self, connections: Callable[[], Mapping[ClientKey, int]], tenant_uid: Callable[[str], str | None]) -> None:
        """`tenant_uid`: None for what is no tenant."""
        self._connections = connections
        self._tenant_uid = tenant_uid
        self._connected: set[ClientKey] = set()  # when it was last asked: who left since is said to have none

    def __iter__(self) -> Iterator[TopicTotals]:
        connections = self._connections()
        before, self._connected = self._connected, set(connections)
        details: dict[str, list[DetailTotals]] = {}
        for tenant, key in before | self._connected:
            detail = DetailTotals(TENANT, "", key, (), (connections.get((tenant, key), 0),))
            details.setdefault(tenant, []).append(detail)
        for tenant, ones in details.items():
            tenant_uid = self._tenant_uid(tenant)
            if tenant_uid is not None:
                yield TopicTotals(tenant, "", "", 0, 0, 0, 0, 0, 0, tenant_uid, tuple(ones))
