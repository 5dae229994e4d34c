"""History as a broker would have told it: a day of a topic with a subscription, with a hole in it."""

from __future__ import annotations

from collections.abc import Sequence

from messaging.adminrpc.history import HistoryPoint, HistorySpan, HistoryTaken
from messaging.history.points import MINUTE_MS, values_of
from tenants.history import writing
from tenants.scoping import platform_scope

BROKER = "broker-1"


def tell(points: Sequence[HistoryPoint], covered: Sequence[tuple[int, int]], batch: int, broker_id: str = BROKER) -> None:
    spans = [HistorySpan("covered", "", start, end) for start, end in covered]
    with platform_scope():
        assert writing.store(HistoryTaken(broker_id=broker_id, batch=batch, points=list(points), spans=spans, waiting=0))


def minutes(
    tenant_uid: str,
    namespace: str,
    topic: str,
    subscription: str,
    from_ms: int,
    count: int,
    *,
    rate: int = 10,
    waiting: bool = True,
) -> list[HistoryPoint]:
    """Each with `rate` messages a second of 100 bytes in and out, and a backlog that grows by an entry a minute."""
    points = []
    for index in range(count):
        start, end = from_ms + index * MINUTE_MS, from_ms + (index + 1) * MINUTE_MS
        backlog = index if waiting else 0
        values = values_of(
            messages_in=0 if subscription else rate * 60,
            bytes_in=0 if subscription else rate * 6_000,
            messages_out=rate * 60,
            bytes_out=rate * 6_000,
            timed_publishes=0 if subscription else 60,
            publish_us=0 if subscription else 60 * 2_500,
            publish_us_max=0 if subscription else 9_000 + index,
            in_peak=0 if subscription or not topic else 2 * rate,
            out_peak=2 * rate if topic and not subscription else 0,
            backlog_entry_ms=backlog * MINUTE_MS,
            backlog_max=backlog,
            age_max_ms=backlog * 1_000,
            backlog_entries=backlog,
            oldest_ms=end - backlog * 1_000 if backlog else 0,
            stored_bytes=index << 20,
            producers=1,
            consumers=2,
        )
        points.append(HistoryPoint(tenant_uid, namespace, topic, subscription, start, end, list(values)))
    return points
