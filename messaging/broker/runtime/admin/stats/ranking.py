"""Which loaded topics have most of a figure. Pure, but for reading topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from messaging.broker.runtime.metering.totals import max_backlog
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.topics.topic_rates import QUIET

FIGURES: Mapping[str, Callable[[Topic], float]] = {
    "rate_in": lambda topic: (topic.rates or QUIET).messages_in.a_second,
    "rate_out": lambda topic: (topic.rates or QUIET).messages_out.a_second,
    "throughput_in": lambda topic: (topic.rates or QUIET).bytes_in.a_second,
    "throughput_out": lambda topic: (topic.rates or QUIET).bytes_out.a_second,
    "storage_bytes": lambda topic: topic.ledger.stored_bytes,
    "backlog_entries": max_backlog,
    "producers": lambda topic: len(topic.producers),
    "subscriptions": lambda topic: len(topic.subscriptions.table),
    "consumers": lambda topic: sum(len(each.consumers) for each in topic.subscriptions.table.values()),
}
_NOT_ADDED = frozenset({"subscriptions"})  # every partition has the same ones: the largest number counts


def combined(figure: str, former: float, value: float) -> float:
    """Of two partitions of a topic."""
    return max(former, value) if figure in _NOT_ADDED else former + value


def in_order(values: Mapping[str, float], descending: bool) -> list[str]:
    """The topics, those with the same value by name."""
    return sorted(values, key=lambda topic: (-values[topic] if descending else values[topic], topic))
