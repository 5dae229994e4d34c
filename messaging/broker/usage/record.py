"""Input and output of the recorder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from messaging.usage_schema import COLUMNS, TOPIC

HOUR_MS = 3_600_000


class DetailTotals(NamedTuple):
    """Running totals of a part of a topic, or of one key of a tenant. `scope`: of `messaging.usage_schema.SCOPES`, whose counters
    and gauges these are, in order."""

    scope: str
    subscription: str
    key: str
    counters: tuple[int, ...]
    gauges: tuple[int, ...] = ()


class TopicTotals(NamedTuple):
    """Running totals of one loaded topic. Counters start at 0 when it is loaded; gauges are current values. All are >= 0. Without
    `topic`: of a namespace or, with neither, of a tenant, whose numbers are all in `details`."""

    tenant: str
    namespace: str  # tenant/namespace
    topic: str  # full name
    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    stored_bytes: int
    backlog_entries: int
    tenant_uid: str = ""
    details: tuple[DetailTotals, ...] = ()

    @property
    def counters(self) -> tuple[int, int, int, int]:
        """In the order of `COUNTERS`."""
        return self[3:7]

    @property
    def gauges(self) -> tuple[int, int]:
        """In the order of `GAUGES`."""
        return self[7:9]

    def parts(self) -> Iterator[DetailTotals]:
        """Those of the topic itself, then the details."""
        yield DetailTotals(TOPIC, "", "", self[3:7], self[7:9])
        yield from self.details


class UsageRecord(NamedTuple):
    """One meter of one series over one interval: the columns of `messaging.usage_schema`, in order."""

    source: str
    boot_epoch: int
    series: str
    seq: int
    tenant: str
    namespace: str
    topic: str
    meter: str
    value: int
    cumulative: int
    interval_start_ms: int
    interval_end_ms: int
    emitted_at_ms: int
    schema_version: int
    tenant_uid: str = ""
    subscription: str = ""
    key: str = ""


assert UsageRecord._fields == tuple(column for column, _ in COLUMNS)


def hour_start_ms(at_ms: int) -> int:
    return at_ms - at_ms % HOUR_MS
