"""TopicStats of a partitioned topic from those of its partitions, in Pulsar's shape. Pure.

Numbers add up; what is a point in time, an age or a state has a rule here. The producers and consumers that a partitioned client
opens, one a partition under one name, are one producer and one consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Stats = dict[str, Any]


def _earlier(one: Any, other: Any) -> Any:
    """0 and below: not known, or never."""
    known = [value for value in (one, other) if value > 0]
    return min(known) if known else max(one, other)


def _earlier_text(one: str, other: str) -> str:
    return min(one, other) if one and other else one or other


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
    "avgMessagesPerEntry": max,
    "lastCompactionSucceedTimestamp": max,
    "lastCompactionFailedTimestamp": max,
    "explanation": lambda one, other: one if one == other else {},  # each partition has its own
}
DERIVED = ("averageMsgSize", "oldestBacklogMessageSubscriptionName")
OF_EACH_PARTITION = ("topicEpoch",)  # each counts its own exclusive producers
NESTED = ("publishers", "subscriptions", "consumers", "replication", "compaction")


def partitioned_stats(partitions: int, parts: Mapping[str, Stats]) -> Stats:
    total: Stats = {}
    for part in parts.values():
        oldest = part.get("oldestBacklogMessageAgeSeconds", -1)
        if oldest > total.get("oldestBacklogMessageAgeSeconds", -1):
            total["oldestBacklogMessageSubscriptionName"] = part.get("oldestBacklogMessageSubscriptionName", "")
        _add(total, part)
    subscriptions: dict[str, list[Stats]] = {}
    for part in parts.values():
        for name, one in part["subscriptions"].items():
            subscriptions.setdefault(name, []).append(one)
    total["averageMsgSize"] = _mean(total, "bytesInCounter", "msgInCounter")
    total["publishers"] = _merged((one for part in parts.values() for one in part["publishers"]), "producerName")
    for one in total["publishers"]:
        one["averageMsgSize"] = _mean(one, "msgThroughputIn", "msgRateIn") or one["averageMsgSize"]
    total["compaction"] = {}
    for part in parts.values():
        _add(total["compaction"], part["compaction"])
    total["subscriptions"] = {name: _subscription(found) for name, found in sorted(subscriptions.items())}
    return {"metadata": {"partitions": partitions, "deleted": False}, **total, "replication": {}, "partitions": dict(parts)}


def _subscription(parts: list[Stats]) -> Stats:
    total: Stats = {}
    for part in parts:
        _add(total, part)
    total["consumers"] = _merged((one for part in parts for one in part["consumers"]), "consumerName")
    return total


def _merged(members: Iterable[Stats], name: str) -> list[Stats]:
    """One for each name and client. `averageMsgSize` is that of the first."""
    found: dict[tuple[str, str], Stats] = {}
    for one in members:
        total = found.setdefault((one[name], one["address"]), {"averageMsgSize": one.get("averageMsgSize", 0.0)})
        _add(total, one)
    for total in found.values():
        if "consumerName" in total:
            del total["averageMsgSize"]
    return list(found.values())


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
