"""TopicStats of a partitioned topic from those of its partitions, in Pulsar's shape. Pure.

Numbers add up; what is a point in time, an age or a state has a rule here. The producers and consumers that a partitioned client
opens, one a partition, are one producer and one consumer: under one name, or, where the broker named its producers, without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from messaging.broker.core.diagnosis.delivery_health import worse

Stats = dict[str, Any]
Members = dict[tuple[str, str], Stats]  # publishers or consumers, by name and address


def _earlier(this: Any, other: Any) -> Any:
    """0 and below: not known, or never."""
    known = [value for value in (this, other) if value > 0]
    return min(known) if known else max(this, other)


def _earlier_text(this: str, other: str) -> str:
    return min(this, other) if this and other else this or other


# How two values become one, where they do not add up. Words are ISO 8601 times in UTC, so that the lesser is the earlier.
RULES: Mapping[str, Callable[[Any, Any], Any]] = {
    "topicCreationTimeStamp": _earlier,
    "lastPublishTimeStamp": max,
    "lastExpireTimestamp": max,
    "lastMarkDeleteAdvancedTimestamp": max,
    "lastAckedTime": max,
    "lastConsumedTime": max,
    "backlogQuotaLimitSize": max,
    "backlogQuotaLimitTime": max,
    "lastOffloadFailureTimeStamp": max,
    "lastOffloadLedgerId": max,
    "lastOffloadSuccessTimeStamp": max,
    "lastConsumedTimestamp": max,
    "lastConsumedFlowTimestamp": max,
    "lastAckedTimestamp": max,
    "earliestMsgPublishTimeInBacklogs": _earlier,
    "earliestMsgPublishTimeInBacklog": _earlier,
    "oldestBacklogMessageAgeSeconds": max,
    "connectedSince": _earlier_text,
    "producerId": min,
    "schemaVersion": max,
    "avgMessagesPerEntry": max,
    "lastCompactionSucceedTimestamp": max,
    "lastCompactionFailedTimestamp": max,
    "deliveryHealth": worse,
    "problems": lambda this, other: list(dict.fromkeys([*this, *other])),
    "explanation": lambda this, other: this if this == other else {},  # each partition has its own
}
DERIVED = ("averageMsgSize", "oldestBacklogMessageSubscriptionName")
OF_EACH_PARTITION = ("topicEpoch", "publishingHeld")  # each has its own exclusive producers and quota
NESTED = ("publishers", "subscriptions", "consumers", "replication", "compaction")


class PartitionedStats:
    """`add` each partition's in their order; what is added is not changed."""

    def __init__(self) -> None:
        self._total: Stats = {}
        self._compaction: Stats = {}
        self._publishers: Members = {}
        self._publisher_parts: dict[tuple[str, str], list[int]] = {}  # the partitions on which one was seen
        self._parts = 0
        self._subscriptions: dict[str, Stats] = {}
        self._consumers: dict[str, Members] = {}  # of each subscription

    def add(self, part: Stats) -> None:
        oldest = part.get("oldestBacklogMessageAgeSeconds", -1)
        if oldest > self._total.get("oldestBacklogMessageAgeSeconds", -1):
            self._total["oldestBacklogMessageSubscriptionName"] = part.get("oldestBacklogMessageSubscriptionName", "")
        _add(self._total, part)
        _add(self._compaction, part["compaction"])
        _merge(self._publishers, part["publishers"], "producerName")
        self._parts += 1
        for publisher in part["publishers"]:
            self._publisher_parts.setdefault((publisher["producerName"], publisher["address"]), []).append(self._parts)
        for name, subscription in part["subscriptions"].items():
            _add(self._subscriptions.setdefault(name, {}), subscription)
            _merge(self._consumers.setdefault(name, {}), subscription["consumers"], "consumerName")

    def total(self, partitions: Mapping[str, Any]) -> Stats:
        """`partitions`: what is shown of each, by name."""
        total = {**self._total, "averageMsgSize": _mean(self._total, "bytesInCounter", "msgInCounter")}
        total["publishers"] = self._clients_publishers()
        for publisher in total["publishers"]:
            publisher["averageMsgSize"] = _mean(publisher, "msgThroughputIn", "msgRateIn") or publisher["averageMsgSize"]
        total["compaction"] = self._compaction
        total["subscriptions"] = {
            name: {**subscription, "consumers": list(self._consumers[name].values())}
            for name, subscription in sorted(self._subscriptions.items())
        }
        metadata = {"partitions": len(partitions), "deleted": False}
        return {"metadata": metadata, **total, "replication": {}, "partitions": dict(partitions)}

    def _clients_publishers(self) -> list[Stats]:
        """Those whose name is on one partition only are counted off by client: the first of each partition are one, and so on."""
        merged: dict[tuple[str | int, str], Stats] = {}
        counted: Counter[tuple[int, str]] = Counter()
        for (name, address), publisher in self._publishers.items():
            parts = self._publisher_parts[name, address]
            if len(parts) > 1:
                merged[name, address] = publisher
                continue
            key = counted[parts[0], address], address
            counted[parts[0], address] += 1
            if key not in merged:
                merged[key] = {**publisher}
                continue
            merged[key].pop("producerName", None)
            _add(merged[key], {name: value for name, value in publisher.items() if name != "producerName"})
        return list(merged.values())


def _merge(totals: Members, members: Iterable[Stats], name: str) -> None:
    """One for each name and client. `averageMsgSize` of a publisher is that of the first."""
    for member in members:
        key = member[name], member["address"]
        if key not in totals:
            totals[key] = {"averageMsgSize": member["averageMsgSize"]} if "averageMsgSize" in member else {}
        _add(totals[key], member)


def _add(total: Stats, part: Stats) -> None:
    for key, value in part.items():
        if key in DERIVED or key in NESTED or key in OF_EACH_PARTITION:
            continue
        if key not in total:
            total[key] = value
        elif key in RULES:
            total[key] = RULES[key](total[key], value)
        elif isinstance(value, bool):
            total[key] = total[key] or value
        elif isinstance(value, int | float):
            total[key] += value
        elif not total[key]:  # a text or a table: the first that says anything
            total[key] = value


def _mean(stats: Stats, of: str, by: str) -> float:
    return stats[of] / stats[by] if stats.get(by) else 0.0
