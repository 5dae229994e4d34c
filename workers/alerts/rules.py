"""When an alert fires and when it is over, and what the stats of a topic say for each kind of rule. Pure."""

from __future__ import annotations

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


def read(kind: str, stats: Mapping[str, Any], subscription: str, before: int | None) -> Reading:
    """The value of a rule of this `kind`. `before`: the counter of the last look. A subscription that is not there has nothing."""
    if kind in ("messages_grow", "publish_throttled"):
        counter = int(stats.get("msgInCounter" if kind == "messages_grow" else "publishRateLimitedTimes", 0))
        rise = 0 if before is None else counter - before if counter >= before else counter  # it was loaded anew
        return Reading(rise, counter)
    subscriptions = stats.get("subscriptions", {})
    chosen = [one for name, one in subscriptions.items() if not subscription or name == subscription]
    if kind == "no_consumer":
        return Reading(int(any(not one.get("consumers") for one in chosen if one.get("durable", True))))
    field = {"backlog_entries": "msgBacklog", "backlog_bytes": "backlogSize", "backlog_age_s": "oldestBacklogMessageAgeSeconds"}[
        kind
    ]
    return Reading(max((int(one.get(field, 0)) for one in chosen), default=0))
