"""Reading history: of one series, over a span, as cells that are as wide as the reader asks.

Minutes where they are kept and asked for; else hours, and minutes of the hours that are not made yet. Blocks on the database; the
caller has checked the permission, and is in the scope of the tenant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from django.db import models
from django.db.models import Max

from messaging.history.cells import GONE_MS, Cell, Source, cells_of, hours_at_one, merged
from messaging.history.points import DAY_MS, HOUR_MS, MINUTE_MS, Point, unpack
from messaging.history.spans import Span, between, without
from tenants.history.keys import series_key
from tenants.history.known import COVERED, covered_of
from tenants.models import HistoryChunk, HistoryCursor, HistoryKnown, HistorySeries, Tenant

MINUTES_KEPT_MS = 49 * HOUR_MS  # a day, and the day before it to compare it with
HOURS_KEPT_MS = 38 * DAY_MS  # 30 days, and a week before them
STEPS_MS = (MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS)
CELLS_MAX = 750
PARTITIONS_TRIED = 64  # the first: whether something was heard of one of them says that a topic is partitioned


class Subject(NamedTuple):
    """What is asked about; "" where it is all of them. `topic`: a full name, of a partitioned topic its own."""

    tenant_uid: str
    namespace: str = ""
    topic: str = ""
    subscription: str = ""


def subject_of(tenant: str, namespace: str = "", topic: str = "", subscription: str = "") -> Subject:
    """`namespace`: tenant/namespace. Raises `Tenant.DoesNotExist`."""
    return Subject(Tenant.objects.get(name=tenant).uid, namespace, topic, subscription)


def step_of(from_ms: int, until_ms: int, now_ms: int) -> int:
    """The finest step with which there are no more than `CELLS_MAX` cells, and that is kept of all of the span."""
    finest = MINUTE_MS if from_ms >= now_ms - MINUTES_KEPT_MS + HOUR_MS else HOUR_MS
    return next((step for step in STEPS_MS if step >= finest and (until_ms - from_ms) / step <= CELLS_MAX), STEPS_MS[-1])


def read(subject: Subject, from_ms: int, until_ms: int, step_ms: int) -> list[Cell]:
    """The cells of [from_ms, until_ms), both multiples of `step_ms`. What brokers have not told is unknown."""
    brokers = list(HistoryCursor.objects.order_by("broker_id").values_list("broker_id", flat=True))
    if not brokers:
        return cells_of((), (), from_ms, until_ms, step_ms)
    keys = {series_key(*subject, broker_id): broker_id for broker_id in brokers}
    series = dict(HistorySeries.objects.filter(key__in=list(keys)).values_list("id", "key"))
    points = _points(list(series), from_ms, until_ms, minutes=step_ms < HOUR_MS)
    of_broker = {keys[key]: points.get(series_id, []) for series_id, key in series.items()}
    sources = []
    for broker_id in brokers:
        covered = covered_of(broker_id, subject.tenant_uid, from_ms - HOURS_KEPT_MS, until_ms)
        own = of_broker.get(broker_id, [])
        if step_ms >= HOUR_MS:  # where in an hour the unknown part of it was is not kept
            hours = ((point.until_ms - 1) // HOUR_MS * HOUR_MS for point in own)
            covered = without(covered, [(hour, point.until_ms) for hour, point in zip(hours, own, strict=True)])
        sources.append(Source(own, covered))
    if subject.topic and not _is_partitioned(subject, brokers) and any(source.points for source in sources):
        if step_ms >= HOUR_MS:
            sources = hours_at_one(sources)
        return cells_of(sources, _all_cover(sources), from_ms, until_ms, step_ms)
    return _of_many(brokers, sources, from_ms, until_ms, step_ms)


def _is_partitioned(subject: Subject, brokers: Sequence[str]) -> bool:
    """Whether each broker may have a part of it at the same time. A topic is at one of them at a time: what it held where it was is
    not added to what it holds where it is."""
    if len(brokers) == 1:
        return False
    partitions = (f"{subject.topic}-partition-{index}" for index in range(PARTITIONS_TRIED))
    keys = [series_key(subject.tenant_uid, subject.namespace, one, "", broker_id) for one in partitions for broker_id in brokers]
    return HistorySeries.objects.filter(key__in=keys).exists()


def _all_cover(sources: Sequence[Source]) -> list[Span]:
    """The times that every broker knows."""
    covered = list(sources[0].covered)
    for other in sources[1:]:
        covered = without(covered, between(other.covered))
    return covered


def _of_many(brokers: Sequence[str], sources: Sequence[Source], from_ms: int, until_ms: int, step_ms: int) -> list[Cell]:
    """The parts of all brokers together. One that was not there yet, or has been gone for long, has none."""
    nowhere = cells_of((), (), from_ms, until_ms, step_ms)
    if not any(source.points for source in sources):
        return merged([cells_of([source], source.covered, from_ms, until_ms, step_ms) for source in sources], nowhere)
    parts: list[list[Cell | None]] = []
    for broker_id, source in zip(brokers, sources, strict=True):
        bounds = HistoryKnown.objects.filter(broker_id=broker_id, kind=COVERED).order_by("from_ms")
        first = bounds.values_list("from_ms", flat=True).first()
        last = bounds.aggregate(last=Max("until_ms"))["last"]
        if first is None or last is None:
            continue
        cells = cells_of([source], source.covered, from_ms, until_ms, step_ms)
        if not source.points:  # it has no part in it, and says so as long as it says anything
            cells = [cell._replace(held_ms=cell.known_ms) for cell in cells]
        alone = len(brokers) == 1
        there = [alone or (cell.until_ms > first and cell.from_ms < last + GONE_MS) for cell in cells]
        parts.append([cell if is_there else None for cell, is_there in zip(cells, there, strict=True)])
    return merged(parts, nowhere)


def _points(series_ids: Sequence[int], from_ms: int, until_ms: int, *, minutes: bool) -> dict[int, list[Point]]:
    """By series, in order, from the last point before the span on."""
    chunks = HistoryChunk.objects.filter(series_id__in=series_ids, start_ms__lt=until_ms + HOUR_MS)
    if minutes:
        wanted = list(chunks.filter(tier=HistoryChunk.MINUTES, start_ms__gte=from_ms - HOUR_MS))
        before = _last_before(chunks.filter(tier=HistoryChunk.MINUTES, start_ms__lt=from_ms - HOUR_MS))
        older = _last_before(chunks.filter(tier=HistoryChunk.HOURS, start_ms__lt=from_ms))
        wanted += before
        has_before = {chunk.series_id for chunk in before}
        wanted += [chunk for chunk in older if chunk.series_id not in has_before]
    else:
        wanted = list(chunks.filter(tier=HistoryChunk.HOURS, start_ms__gte=from_ms - DAY_MS))
        wanted += list(chunks.filter(tier=HistoryChunk.MINUTES, summed=False))
        wanted += _last_before(chunks.filter(tier=HistoryChunk.HOURS, start_ms__lt=from_ms - DAY_MS))
    points: dict[int, list[Point]] = defaultdict(list)
    for chunk in wanted:
        unpacked: Iterable[Point] = unpack(bytes(chunk.points), chunk.start_ms)
        if minutes and chunk.tier == HistoryChunk.HOURS:
            unpacked = (point for point in unpacked if point.until_ms <= from_ms)
        points[chunk.series_id] += unpacked
    return {series_id: sorted(found, key=lambda point: (point.until_ms, point.from_ms)) for series_id, found in points.items()}


def _last_before(chunks: models.QuerySet[HistoryChunk]) -> list[HistoryChunk]:
    """The last of each series."""
    last = {row["series_id"]: row["last"] for row in chunks.values("series_id").annotate(last=Max("start_ms")).order_by()}
    found = chunks.filter(series_id__in=list(last), start_ms__in=set(last.values()))
    return [chunk for chunk in found if last[chunk.series_id] == chunk.start_ms]
