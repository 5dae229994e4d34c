"""The live table on the first paint, before the page's own connection is there. The same grouping as static/admin_ui/js/live-
state.js.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from messaging.adminrpc.schema import NamespaceLive

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


@dataclass
class Group:
    """One topic, or the partitions of one summed up. `sums` has the fields of `TopicLive` that add up."""

    topic: str
    partitions: int
    loaded: bool
    subscriptions: int
    sums: dict[str, float]

    @property
    def name(self) -> str:
        return self.topic.rpartition("/")[2]


def grouped(live: NamespaceLive) -> list[Group]:
    groups: dict[str, Group] = {}
    for row in live.topics:
        match = _PARTITION.fullmatch(row.topic)
        base = match[1] if match else row.topic
        group = groups.setdefault(base, Group(base, 0, False, 0, dict.fromkeys(SUMS, 0)))
        for key in SUMS:
            group.sums[key] += getattr(row, key)
        group.partitions += 1 if match else 0
        group.loaded = group.loaded or row.loaded
        group.subscriptions = max(group.subscriptions, row.subscriptions)
    return sorted(groups.values(), key=lambda group: group.topic)


def totals(groups: list[Group]) -> dict[str, Any]:
    return {key: sum(group.sums[key] for group in groups) for key in SUMS}
