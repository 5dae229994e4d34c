"""When an alert fires and when it is over, and what the stats of a topic say for each kind of rule. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple


class Standing(NamedTuple):
    """Where a rule stands. `above_since`: since when the value has been at the threshold or above."""

    firing: bool
    above_since: datetime | None


def judge(standing: Standing, value: int, now: datetime, *, threshold: int, clear: int, hold_s: int) -> Standing:
    """Between `clear` and `threshold` it stays as it is, so that a value that swings there says nothing again and again."""
    if standing.firing:
        return standing if value >= min(clear, threshold) else Standing(False, None)
    if value < threshold:
        return Standing(False, None)
    since = standing.above_since or now
    return Standing(now - since >= timedelta(seconds=hold_s), since)


class Reading(NamedTuple):
    """`counter`: where the value is the rise of a counter, what it is now."""

    value: int
    counter: int | None = None


COUNTERS = {"messages_grow": "msgInCounter", "publish_throttled": "publishRateLimitedTimes"}
FIELDS = {"backlog_entries": "msgBacklog", "backlog_bytes": "backlogSize", "backlog_age_s": "oldestBacklogMessageAgeSeconds"}
HEALTHS = {"no_consumer": ("idle", "abandoned"), "blocked": ("blocked",)}  # `deliveryHealth` of a durable subscription
Stats = Mapping[str, Any]


def read(kind: str, stats: Stats, subscription: str, before: int | None) -> Reading:
    """The value of a rule of this `kind`. `before`: the counter of the last look. A subscription that is not there has nothing."""
    if kind in COUNTERS:
        counter = int(stats.get(COUNTERS[kind], 0))
        rise = 0 if before is None else counter - before if counter >= before else counter  # it was loaded anew
        return Reading(rise, counter)
    chosen = _chosen(stats, subscription).values()
    if kind in HEALTHS:
        return Reading(
            int(any(figures.get("deliveryHealth") in HEALTHS[kind] for figures in chosen if figures.get("durable", True)))
        )
    return Reading(max((_figure(figures, kind) for figures in chosen), default=0))


def read_partitions(kind: str, stats: Mapping[str, Stats], subscription: str, before: Mapping[str, int]) -> dict[str, Reading]:
    """The same for each partition; `before`: their counters. One that was not seen before has risen by nothing."""
    return {index: read(kind, partition_stats, subscription, before.get(index)) for index, partition_stats in stats.items()}


def sum_of(kind: str, stats: Mapping[str, Stats], subscription: str, readings: Mapping[str, Reading]) -> int:
    """The value of a partitioned topic: backlogs of a subscription add up over the partitions, of ages the greatest counts, and of
    anything else the sum."""
    if kind == "backlog_age_s":
        return max((reading.value for reading in readings.values()), default=0)
    if kind not in FIELDS:
        return sum(reading.value for reading in readings.values())
    backlogs: Counter[str] = Counter()
    for partition_stats in stats.values():
        backlogs.update({name: _figure(figures, kind) for name, figures in _chosen(partition_stats, subscription).items()})
    return max(backlogs.values(), default=0)


def _chosen(stats: Stats, subscription: str) -> dict[str, Stats]:
    return {name: figures for name, figures in stats.get("subscriptions", {}).items() if not subscription or name == subscription}


def _figure(subscription: Stats, kind: str) -> int:
    return int(subscription.get(FIELDS[kind], 0))
