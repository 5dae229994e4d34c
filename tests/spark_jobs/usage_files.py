"""Small usage files for tests, and the reference that the job is held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from messaging.broker.usage.record import UsageRecord
from messaging.broker.usage.writer import split_by_hour, write
from messaging.usage_schema import COUNTERS, GAUGE_CARRY_MS_MAX, GAUGES, SCHEMA_VERSION, series_name

HOUR_MS = 3_600_000
NOON_MS = 1_795_262_400_000  # 2026-11-21 12:00 UTC
MINUTE_MS = 60_000

NEW = "persistent://acme/orders/new"
OLD = "persistent://acme/orders/old"
OTHER = "non-persistent://globex/sensors/heat"

Hours = dict[tuple[int, str], tuple[int, ...]]


def record(
    meter: str,
    value: int,
    start_ms: int,
    *,
    seq: int = 0,
    topic: str = "persistent://acme/orders/new",
    width_ms: int = MINUTE_MS,
    source: str = "broker-1",
    boot_epoch: int = 1,
    cumulative: int | None = None,
    tenant_uid: str = "",
) -> UsageRecord:
    namespace = "/".join(topic.split("://")[1].split("/")[:2])
    return UsageRecord(
        source,
        boot_epoch,
        series_name(meter, tenant_uid, topic),
        seq,
        namespace.split("/")[0],
        namespace,
        topic,
        meter,
        value,
        value if cumulative is None else cumulative,
        start_ms,
        start_ms + width_ms,
        start_ms + width_ms,
        SCHEMA_VERSION,
        tenant_uid,
    )


def write_all(records: Iterable[UsageRecord], raw: Path) -> list[Path]:
    """One file for each source, boot and hour."""
    groups: dict[tuple[str, int], list[UsageRecord]] = defaultdict(list)
    for record in records:
        groups[record.source, record.boot_epoch].append(record)
    return [write(hour, raw) for group in groups.values() for hour in split_by_hour(group)]


def reference(records: Sequence[UsageRecord]) -> Hours:
    """(hour, topic) -> counters and integrals, the slow and plain way: millisecond sums over each hour's own records and those
    near its edges."""
    hours = {r.interval_start_ms // HOUR_MS * HOUR_MS for r in records}
    result: Hours = {}
    for hour in hours:
        near = {
            r
            for r in records
            if r.interval_start_ms < hour + HOUR_MS + GAUGE_CARRY_MS_MAX and r.interval_end_ms > hour - GAUGE_CARRY_MS_MAX
        }
        versions: dict[tuple[str, int, str, int], int] = defaultdict(int)
        for r in near:
            versions[r[:4]] += 1
        near = {r for r in near if versions[r[:4]] == 1}
        for topic in {r.topic for r in near}:
            of_topic = [r for r in near if r.topic == topic]
            counters = [
                sum(r.value for r in of_topic if r.meter == meter and hour <= r.interval_start_ms < hour + HOUR_MS)
                for meter in COUNTERS
            ]
            gauges = [_integral([r for r in of_topic if r.meter == meter], hour) // 1000 for meter in GAUGES]
            if any(counters) or any(gauges):
                result[hour, topic] = (*counters, *gauges)
    return result


def _integral(steps: list[UsageRecord], hour: int) -> int:
    steps.sort(key=lambda r: (r.interval_start_ms, r.interval_end_ms, r.source, r.boot_epoch, r.seq))
    total = 0
    for index, step in enumerate(steps):
        until = step.interval_end_ms
        if index + 1 < len(steps):
            following = steps[index + 1].interval_start_ms
            if following - until <= GAUGE_CARRY_MS_MAX:
                until = following
        total += step.value * max(0, min(until, hour + HOUR_MS) - max(step.interval_start_ms, hour))
    return total


def golden() -> list[UsageRecord]:
    """Twenty minutes to and after noon, three topics, two tenants."""
    before = NOON_MS - MINUTE_MS
    return [
        record("messages_in", 10, before, seq=0, cumulative=10),
        record("messages_in", 5, NOON_MS, seq=1, cumulative=15),
        record("bytes_in", 1000, before),
        record("bytes_in", 2**62, NOON_MS, seq=1, cumulative=2**62 + 1000),
        record("messages_out", 7, NOON_MS, topic=OLD),
        # 500 B for the last minute of the hour, carried over a silence of three minutes across it, then 200 B for a minute.
        record("stored_bytes", 500, before, seq=0),
        record("stored_bytes", 200, NOON_MS + 3 * MINUTE_MS, seq=1),
        # A silence of six minutes: nothing is carried.
        record("backlog_entries", 9, NOON_MS, seq=0, width_ms=30_000),
        record("backlog_entries", 3, NOON_MS + 6 * MINUTE_MS + 30_000, seq=1, width_ms=10_000),
        record("bytes_out", 1, NOON_MS, topic=OTHER),
        # 999 milliseconds of one byte are no whole second.
        record("stored_bytes", 1, NOON_MS, topic=OTHER, width_ms=999),
    ]
