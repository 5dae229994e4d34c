"""Hourly usage for the console: sums per level, which hours are computed, and why others are not. Reads the models of `workers`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.conf import settings as django_settings
from django.db.models import Sum
from django.utils import timezone

from messaging.settings import Settings
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing.usage import whole_partitions
from workers.models import UsageHour, UsagePartition, UsageRun

LEVELS = (("tenant", "By tenant"), ("namespace", "By namespace"), ("topic", "By topic"))
ROWS_MAX = 500
_METERS = ("messages_in", "bytes_in", "messages_out", "bytes_out", "stored_byte_seconds", "api_calls")


@dataclass(frozen=True)
class HourMark:
    """`state`: "there" (computed), "missing" (recorded but not aggregated), "none" (nothing was recorded) or "open" (not over
    yet, or computed before it was)."""

    state: str
    label: str


@dataclass(frozen=True)
class Problem:
    look: str
    title: str
    text: str


def rows_of(day: date, level: str, tenants: Collection[str]) -> list[dict[str, Any]]:
    """One row for each name at the level and each hour, for `tenants` only. At most `ROWS_MAX`."""
    start = day_start(day)
    with platform_scope():
        uids = Tenant.objects.filter(name__in=tenants).values("uid")
        rows = UsageHour.objects.filter(hour__gte=start, hour__lt=start + timedelta(days=1), tenant_uid__in=uids)
        rows = rows.exclude(**{level: ""})  # what is of no topic, or of no namespace, is only the tenant's
        summed = rows.values("hour", level).annotate(**{meter: Sum(meter) for meter in _METERS}).order_by("-hour", level)
        return [{**row, "name": row[level], "stored_bytes": row["stored_byte_seconds"] // 3600} for row in summed[:ROWS_MAX]]


def day_start(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=timezone.get_default_timezone())


def hour_marks(day: date, now: datetime) -> list[HourMark]:
    start = day_start(day)
    of_day = {"hour__gte": start, "hour__lt": start + timedelta(days=1)}
    there = set(whole_partitions().filter(**of_day).values_list("hour", flat=True))
    begun = set(UsagePartition.objects.filter(**of_day).values_list("hour", flat=True)) - there
    marks = []
    for index in range(24):
        hour = start + timedelta(hours=index)
        name = f"{hour:%H}:00"
        if hour in there:
            marks.append(HourMark("there", f"{name} computed"))
        elif hour + timedelta(hours=1) > now:
            marks.append(HourMark("open", f"{name} not over yet" + (", computed in part" if hour in begun else "")))
        elif hour in begun:
            marks.append(HourMark("open", f"{name} computed in part, before it was over"))
        elif _written(hour):
            marks.append(HourMark("missing", f"{name} missing"))
        else:
            marks.append(HourMark("none", f"{name} no usage recorded"))
    return marks


def _written(hour: datetime) -> bool:
    """Whether brokers recorded usage in this hour (`messaging.usage_schema`), as far as this process can see their files."""
    settings: Settings = django_settings.MAGNETAR
    folder = settings.data_path / "usage" / "raw" / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"
    return any(folder.glob("*.json"))


def newest_run(*outcomes: str) -> UsageRun | None:
    return UsageRun.objects.filter(outcome__in=outcomes).order_by("-requested_at").first()


def problem_of(run: UsageRun | None, *, detailed: bool) -> Problem | None:
    """The problem of the last run, or None if it succeeded. `detailed`: include its error, which may mention any tenant."""
    outcomes = UsageRun.Outcome
    if run is None:
        return None
    if run.outcome == outcomes.NEEDS_SPARK:
        return Problem(
            "warn",
            "Usage is recorded but not aggregated, because Spark is not installed",
            run.message
            or "Install it with: pip install magnetar[spark]. Nothing is lost: the next run computes every missing hour.",
        )
    if run.outcome == outcomes.FAILED:
        return Problem(
            "bad",
            f"The last run failed: {run.run_id}",
            (run.message if detailed else "") or "See the worker's log. The usage below is from the previous run.",
        )
    if run.outcome in (outcomes.RUNNING, outcomes.REQUESTED):
        return Problem(
            "good",
            "A run is in progress",
            f"Requested {run.requested_at:%H:%M} UTC. {_progress(run)}This page shows the result as soon as it is available.",
        )
    if run.holes or run.quarantined or run.rejected_files:
        return Problem(
            "warn",
            "The last run found gaps in the usage records",
            f"{run.holes} gaps in sequence numbers, {run.quarantined} quarantined records, {run.rejected_files} rejected files: "
            "the usage may be too low.",
        )
    return None


def _progress(run: UsageRun) -> str:
    """How far the job says it is (`spark_jobs.config.Progress`); empty if it has not said anything yet."""
    progress = run.detail.get("progress")
    if not progress:
        return ""
    left = "" if progress["left_s"] is None else f", about {progress['left_s']:.0f} s left for it"
    return f"Step: {progress['step']}, {progress['done']} of {progress['tasks']} tasks, {progress['rows']:,} rows{left}. "
