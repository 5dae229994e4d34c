"""History of 30 days of many topics, written as the platform stores it: a program of the platform calls `fill`."""

from __future__ import annotations

import time

from django.db import connection, transaction

from messaging.history.points import DAY_MS, HOUR_MS, MINUTE_MS, Point, pack_all, values_of
from messaging.settings import Settings
from tenants.history.keys import series_key
from tenants.history.known import COVERED
from tenants.models import HistoryChunk, HistoryCursor, HistoryKnown, HistorySeries

DAYS = 30
TOPICS_MAX = 10_000  # of the 50,000 that history is kept of: they have 300 MB
_SERIES_AT_ONCE = 1_000


def fill(tenant_uid: str, namespace: str, count: int) -> int:
    """Of the tenant, its namespace and `count` topics, up to `TOPICS_MAX`: how many topics. Each hour of 30 days, and
    of the tenant, the namespace and a hundred topics each minute of the last day."""
    settings = Settings()
    count = min(count, TOPICS_MAX)
    now_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS
    HistoryCursor.objects.get_or_create(broker_id=settings.broker_id, defaults={"batch": 0})
    known = {"broker_id": settings.broker_id, "kind": COVERED, "tenant_uid": "", "from_ms": now_ms - DAYS * DAY_MS}
    HistoryKnown.unscoped.get_or_create(**known, defaults={"until_ms": now_ms})
    subjects = [("", ""), (namespace, ""), *((namespace, f"persistent://{namespace}/t{number}") for number in range(count))]
    held = HistorySeries.unscoped.filter(tenant_uid=tenant_uid).count()
    first_ms = now_ms // DAY_MS * DAY_MS - DAYS * DAY_MS
    days = [
        (start_ms, _packed(start_ms, HOUR_MS, min(24, (now_ms - start_ms) // HOUR_MS)))
        for start_ms in range(first_ms, now_ms, DAY_MS)
    ]
    hours = [(start_ms, _packed(start_ms, MINUTE_MS, 60)) for start_ms in range(now_ms - DAY_MS, now_ms, HOUR_MS)]
    for begin in range(held, len(subjects), _SERIES_AT_ONCE):
        with transaction.atomic():
            rows = HistorySeries.unscoped.bulk_create(
                HistorySeries(
                    key=series_key(tenant_uid, namespace, topic, "", settings.broker_id),
                    tenant_uid=tenant_uid,
                    namespace=namespace,
                    topic=topic,
                    broker_id=settings.broker_id,
                    last_ms=now_ms,
                )
                for namespace, topic in subjects[begin : begin + _SERIES_AT_ONCE]
            )
            _put_chunks([row.pk for row in rows], HistoryChunk.HOURS, days)
            if not begin:
                _put_chunks([row.pk for row in rows[:102]], HistoryChunk.MINUTES, hours)
    return count


def _packed(start_ms: int, width_ms: int, count: int) -> bytes:
    values = values_of(
        messages_in=1_000, bytes_in=100_000, messages_out=2_000, bytes_out=200_000, backlog_max=10, stored_bytes=9_999
    )
    ends = (start_ms + (number + 1) * width_ms for number in range(count))
    return pack_all((Point(end_ms - width_ms, end_ms, values) for end_ms in ends), start_ms)


def _put_chunks(series: list[int], tier: int, chunks: list[tuple[int, bytes]]) -> None:
    """300,000 of them: as rows of the model they take minutes."""
    table = HistoryChunk._meta.db_table
    insert = f"insert into {table} (series_id, tier, start_ms, points, summed) values (%s, %s, %s, %s, %s)"
    with connection.cursor() as cursor:
        cursor.executemany(insert, [(key, tier, start_ms, data, True) for key in series for start_ms, data in chunks])
