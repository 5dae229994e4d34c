"""The live table on the first paint, before the page's own connection is there. The same grouping as static/admin_ui/js/live-
state.js.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from admin_ui.addresses import short_name
from admin_ui.topic_stats import State, mark_state
from messaging.adminrpc.topics import LiveTotals, NamespaceLive
from messaging.problems.kinds import MARKS, worst

_PARTITION = re.compile(r"(.+)-partition-(\d{1,6})")
SUMS = (
    "rate_in",
    "rate_out",
    "throughput_in",
    "throughput_out",
    "messages_in",
    "messages_out",
    "storage_bytes",
    "backlog_entries",
    "producers",
    "consumers",
)
_AT_REST = frozenset({"storage_bytes", "backlog_entries"})  # a topic has these also while it is not loaded, and nobody looked


@dataclass
class Group:
    """One topic, or the partitions of one summed up. `sums` has the fields of `TopicLive` that add up; None: not known of all."""

    topic: str
    partitions: int
    loaded: bool
    subscriptions: int | None
    sums: dict[str, float | None]
    kinds: list[str]  # of the most urgent problem of each partition

    @property
    def mark(self) -> State | None:
        kind = worst(self.kinds)
        return mark_state(kind) if kind in MARKS else None

    @property
    def name(self) -> str:
        return short_name(self.topic)

    def figure(self, key: str) -> float | None:
        return self.subscriptions if key == "subscriptions" else self.sums[key]


def grouped(live: NamespaceLive) -> list[Group]:
    groups: dict[str, Group] = {}
    for row in live.topics:
        match = _PARTITION.fullmatch(row.topic)
        base = match[1] if match else row.topic
        group = groups.setdefault(base, Group(base, 0, False, 0, dict.fromkeys(SUMS, 0), []))
        for key in SUMS:
            group.sums[key] = _plus(group.sums[key], getattr(row, key))
        group.partitions += 1 if match else 0
        group.kinds += [row.problem] if row.problem else []
        group.loaded = group.loaded or row.loaded
        known = group.subscriptions is not None and row.subscriptions is not None
        group.subscriptions = max(group.subscriptions or 0, row.subscriptions or 0) if known else None
    return sorted(groups.values(), key=lambda group: group.topic)


@dataclass(frozen=True)
class Total:
    """`known` adds up the topics of which it is known; None if it is known of none. `least`: there are others."""

    known: float | None
    least: bool = False


def totals(groups: list[Group]) -> dict[str, Total]:
    return {key: _total([group.sums[key] for group in groups]) for key in SUMS}


def known_totals(sums: LiveTotals) -> dict[str, Total]:
    """The same of a namespace whose topics are not all here."""
    unknown = Total(None) if sums.at_rest and not sums.stored else None
    totals = {key: Total(getattr(sums, key, None), least=sums.at_rest > 0 and key in _AT_REST) for key in SUMS}
    return totals if unknown is None else totals | dict.fromkeys(_AT_REST, unknown)


def _total(values: list[float | None]) -> Total:
    known = [value for value in values if value is not None]
    return Total(sum(known) if known or not values else None, 0 < len(known) < len(values))


def _plus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
