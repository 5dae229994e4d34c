"""What the loaded topics of a broker hold together, for the history of namespaces, tenants and partitioned topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from messaging.broker.runtime.topics.topic import Topic
from messaging.history.points import COLUMNS, OLDEST_UNKNOWN, STATES
from messaging.protocol.system_topics import is_system_topic

NO_FLOW = (0,) * (len(COLUMNS) - len(STATES))
# Of several topics: (tenant uid, namespace, topic, subscription), the last three "" where it is of all of them. The topic is a
# partitioned one.
SumKey = tuple[str, str, str, str]
Sums = dict[SumKey, tuple[int, ...]]


class Holdings:
    """What topics hold together, by namespace, tenant and partitioned topic: `STATES` of each, in order. It goes through all loaded
    topics each minute, so it takes no more than it must."""

    def __init__(self, ages_of: Callable[[Topic], dict[str, int]]) -> None:
        self._ages_of = ages_of
        self._namespaces: dict[tuple[str, str, str], list[int]] = {}
        self._partitioned: dict[SumKey, list[int]] = {}

    def add(self, topic: Topic) -> None:
        name = topic.name
        if name.local.startswith("__") and is_system_topic(name):
            return
        backlog = consumers = oldest_ms = 0
        partition_of = ""
        if "-partition-" in name.local and name.partition >= 0:
            partition_of = str(name.base)
        ages: dict[str, int] | None = None
        for key, subscription in topic.subscriptions.table.items():
            if not subscription.durable:
                continue
            connected, oldest_here = len(subscription.consumers), 0
            waiting = subscription.backlog_entries
            if waiting:
                if ages is None:
                    ages = self._ages_of(topic)
                oldest_here = max(ages.get(key, 0), OLDEST_UNKNOWN)
                oldest_ms = _older(oldest_ms, oldest_here)
                backlog += waiting
            consumers += connected
            if partition_of:
                _hold(
                    self._partitioned,
                    (topic.tenant_uid, str(name.namespace), partition_of, key),
                    waiting,
                    oldest_here,
                    0,
                    0,
                    connected,
                )
        stored, producers = topic.ledger.stored_bytes, len(topic.producers)
        place = (topic.tenant_uid, name.tenant, name.namespace_local)
        _hold(self._namespaces, place, backlog, oldest_ms, stored, producers, consumers)
        if partition_of:
            whole = (topic.tenant_uid, str(name.namespace), partition_of, "")
            _hold(self._partitioned, whole, backlog, oldest_ms, stored, producers, consumers)

    def sums(self) -> Sums:
        sums: Sums = {key: (*NO_FLOW, *held) for key, held in self._partitioned.items()}
        tenants: dict[SumKey, list[int]] = {}
        for (uid, tenant, local), held in self._namespaces.items():
            sums[uid, f"{tenant}/{local}", "", ""] = (*NO_FLOW, *held)
            _hold(tenants, (uid, "", "", ""), *held)
        return sums | {key: (*NO_FLOW, *held) for key, held in tenants.items()}


def _hold(
    sums: dict[Any, list[int]], key: tuple[str, ...], backlog: int, oldest_ms: int, stored: int, producers: int, consumers: int
) -> None:
    held = sums.get(key)
    if held is None:
        sums[key] = [backlog, oldest_ms, stored, producers, consumers]
        return
    held[0] += backlog
    held[1] = _older(held[1], oldest_ms)
    held[2] += stored
    held[3] += producers
    held[4] += consumers


def _older(one_ms: int, other_ms: int) -> int:
    """Of two oldest messages; 0: there is none. Of several of which some are not known it is the oldest that is."""
    if one_ms > OLDEST_UNKNOWN and other_ms > OLDEST_UNKNOWN:
        return min(one_ms, other_ms)
    return max(one_ms, other_ms)
