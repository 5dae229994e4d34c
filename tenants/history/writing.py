"""Storing what brokers took, once; making hours of minutes; and forgetting, by age and by room.

Everything here blocks on the database, and runs in the scope of the platform.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from django.db import transaction
from django.db.models import Count, Max, Q

from messaging.adminrpc.history import HistoryPoint, HistorySpan, HistoryTaken
from messaging.history.cells import Source, cells_of, hour_of
from messaging.history.points import COLUMNS, DAY_MS, HOUR_MS, MINUTE_MS, Point, pack, unpack
from tenants.history.keys import series_key
from tenants.history.known import BEHIND, COVERED, covered_of
from tenants.history.reading import HOURS_KEPT_MS, MINUTES_KEPT_MS
from tenants.models import HistoryChunk, HistoryCursor, HistoryKnown, HistorySeries, Tenant

ROWS_AT_ONCE, A_DELETE = 400, 1_000
SURPLUS = 10  # series are cut to what is allowed once there is a tenth more


def store(taken: HistoryTaken) -> bool:
    """Stores a batch with the number of it, in one transaction. False: it is stored already."""
    with transaction.atomic():
        cursor, made = HistoryCursor.objects.select_for_update().get_or_create(
            broker_id=taken.broker_id, defaults={"batch": taken.batch}
        )
        if not made and cursor.batch == taken.batch:
            return False
        _store_points(taken.broker_id, taken.points)
        _store_spans(taken.broker_id, taken.spans)
        cursor.batch = taken.batch
        cursor.save()
    return True


def _store_points(broker_id: str, points: Sequence[HistoryPoint]) -> None:
    known = set(Tenant.objects.filter(uid__in={point.tenant_uid for point in points}).values_list("uid", flat=True))
    of_series: dict[str, list[HistoryPoint]] = defaultdict(list)
    for point in points:
        if point.tenant_uid in known:  # or it was deleted meanwhile
            key = series_key(point.tenant_uid, point.namespace, point.topic, point.subscription, broker_id)
            of_series[key].append(point)
    keys = list(of_series)
    for start in range(0, len(keys), ROWS_AT_ONCE):
        some = {key: of_series[key] for key in keys[start : start + ROWS_AT_ONCE]}
        ids = _series_ids(broker_id, some)
        _append(ids, some)


def _series_ids(broker_id: str, some: dict[str, list[HistoryPoint]]) -> dict[str, int]:
    rows = [
        HistorySeries(
            key=key,
            tenant_uid=points[0].tenant_uid,
            namespace=points[0].namespace,
            topic=points[0].topic,
            subscription=points[0].subscription,
            broker_id=broker_id,
            last_ms=max(point.until_ms for point in points),
        )
        for key, points in some.items()
    ]
    HistorySeries.objects.bulk_create(rows, update_conflicts=True, update_fields=["last_ms"], unique_fields=["key"])
    return dict(HistorySeries.objects.filter(key__in=list(some)).values_list("key", "id"))


def _append(ids: dict[str, int], some: dict[str, list[HistoryPoint]]) -> None:
    added: dict[tuple[int, int], bytes] = defaultdict(bytes)
    for key, points in some.items():
        for point in points:
            start_ms = chunk_start(point.until_ms, HOUR_MS)
            added[ids[key], start_ms] += pack(Point(point.from_ms, point.until_ms, _values(point.values)), start_ms)
    _put(HistoryChunk.MINUTES, added)


def _values(values: Sequence[int]) -> tuple[int, ...]:
    """Of a broker of another release there may be more or fewer."""
    known = tuple(max(0, value) for value in values[: len(COLUMNS)])
    return known + (0,) * (len(COLUMNS) - len(known))


def chunk_start(until_ms: int, width_ms: int) -> int:
    """Of the chunk of a point that ends then."""
    return (until_ms - 1) // width_ms * width_ms


def _put(tier: int, added: dict[tuple[int, int], bytes]) -> None:
    """Adds to chunks, which are made where they are missing."""
    by_start: dict[int, dict[int, bytes]] = defaultdict(dict)
    for (series_id, start_ms), data in added.items():
        by_start[start_ms][series_id] = data
    for start_ms, of_series in by_start.items():
        before = {
            series_id: bytes(points)
            for series_id, points in HistoryChunk.objects.filter(
                series_id__in=list(of_series), tier=tier, start_ms=start_ms
            ).values_list("series_id", "points")
        }
        rows = [
            HistoryChunk(series_id=series_id, tier=tier, start_ms=start_ms, points=before.get(series_id, b"") + data)
            for series_id, data in of_series.items()
        ]
        HistoryChunk.objects.bulk_create(
            rows, update_conflicts=True, update_fields=["points"], unique_fields=["series", "tier", "start_ms"]
        )


def _store_spans(broker_id: str, spans: Iterable[HistorySpan]) -> None:
    spans = list(spans)
    if not any(span.kind == COVERED for span in spans):
        return
    HistoryKnown.objects.filter(broker_id=broker_id, kind=BEHIND).delete()
    for span in spans:
        continued = 0
        if span.kind == COVERED:  # the span that it goes on from, if it does
            continued = HistoryKnown.objects.filter(broker_id=broker_id, kind=COVERED, until_ms=span.from_ms).update(
                until_ms=span.until_ms
            )
        if not continued:
            HistoryKnown.objects.create(
                broker_id=broker_id,
                kind=span.kind,
                tenant_uid=span.tenant_uid,
                from_ms=span.from_ms,
                until_ms=span.until_ms,
            )


# --- making hours, and forgetting


def make_hours(now_ms: int, renew: Callable[[], None]) -> int:
    """Makes a point of each hour that is over, of every series that has minutes of it. How many. An hour is made once, when all of
    its minutes have come, or a day later of those that have."""
    made = 0
    for broker_id in HistoryCursor.objects.values_list("broker_id", flat=True):
        while done := _make_some_hours(broker_id, now_ms, renew):
            made += done
    return made


def _hour(points: list[Point], covered: list[tuple[int, int]], start_ms: int) -> Point | None:
    return hour_of(cells_of([Source(points, covered)], covered, start_ms, start_ms + HOUR_MS, MINUTE_MS))


def _make_some_hours(broker_id: str, now_ms: int, renew: Callable[[], None]) -> int:
    renew()
    known = HistoryKnown.objects.filter(broker_id=broker_id)
    until_ms = known.filter(kind=COVERED).aggregate(until=Max("until_ms"))["until"] or 0
    come = Q(start_ms__lte=until_ms - HOUR_MS)
    for uid, from_ms in known.filter(kind=BEHIND).values_list("tenant_uid", "from_ms"):
        come &= ~Q(series__tenant_uid=uid) | Q(start_ms__lte=from_ms - HOUR_MS)
    with transaction.atomic():
        due = list(
            HistoryChunk.objects.filter(
                come | Q(start_ms__lte=now_ms - DAY_MS), tier=HistoryChunk.MINUTES, summed=False, series__broker_id=broker_id
            ).select_related("series")[:ROWS_AT_ONCE]
        )
        covers: dict[tuple[str, int], list[tuple[int, int]]] = {}
        added: dict[tuple[int, int], bytes] = defaultdict(bytes)
        for chunk in due:
            of_hour = (chunk.series.tenant_uid, chunk.start_ms)
            if of_hour not in covers:
                covers[of_hour] = covered_of(broker_id, *of_hour, chunk.start_ms + HOUR_MS)
            points = list(unpack(bytes(chunk.points), chunk.start_ms))
            point = _hour(points, covers[of_hour], chunk.start_ms)
            if point is not None:
                day_ms = chunk_start(point.until_ms, DAY_MS)
                added[chunk.series_id, day_ms] += pack(point, day_ms)
        _put(HistoryChunk.HOURS, added)
        HistoryChunk.objects.filter(id__in=[chunk.pk for chunk in due]).update(summed=True)
    return len(due)


def forget(now_ms: int, series_max: int, renew: Callable[[], None]) -> int:
    """Deletes what is too old, and where there are more than `series_max` series those of the tenants that have most, the ones
    first that nothing was heard of for longest. How many rows of series."""
    for tier, kept_ms in ((HistoryChunk.MINUTES, MINUTES_KEPT_MS), (HistoryChunk.HOURS, HOURS_KEPT_MS)):
        renew()
        old = HistoryChunk.objects.filter(tier=tier, start_ms__lt=now_ms - kept_ms).values_list("id", flat=True)
        while ids := list(old[:A_DELETE]):
            renew()
            HistoryChunk.objects.filter(id__in=ids).delete()
    HistoryKnown.objects.filter(until_ms__lt=now_ms - HOURS_KEPT_MS).exclude(kind=BEHIND).delete()
    forgotten = _delete(HistorySeries.objects.filter(last_ms__lt=now_ms - HOURS_KEPT_MS).values_list("id", flat=True), renew)
    if HistorySeries.objects.count() <= series_max + series_max // SURPLUS:
        return forgotten
    for uid, surplus in _surplus(series_max).items():
        oldest = HistorySeries.objects.filter(tenant_uid=uid).exclude(topic="").order_by("last_ms").values_list("id", flat=True)
        forgotten += _delete(oldest[:surplus], renew)
    return forgotten


def _delete(ids: Iterable[int], renew: Callable[[], None]) -> int:
    rows = list(ids)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        renew()
        HistorySeries.objects.filter(id__in=rows[start : start + ROWS_AT_ONCE]).delete()
    return len(rows)


def _surplus(series_max: int) -> dict[str, int]:
    """How many series each tenant gives up: all are cut to the same height, so that who has few keeps all."""
    counts = {
        row["tenant_uid"]: row["series"]
        for row in HistorySeries.objects.exclude(topic="").values("tenant_uid").annotate(series=Count("id")).order_by()
    }
    return surplus_of(counts, series_max)


def surplus_of(counts: dict[str, int], total_max: int) -> dict[str, int]:
    """Of what each has, what is above the height at which all together are `total_max`."""
    room, height, left = total_max, 0, len(counts)
    for count in sorted(counts.values()):
        if count * left > room:
            height = room // left
            break
        room -= count
        left -= 1
    else:
        return {}
    return {uid: count - height for uid, count in counts.items() if count > height}
