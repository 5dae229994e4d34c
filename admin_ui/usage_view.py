"""Hourly usage for the console: sums per level, which hours are computed, and why others are not. Reads the models of `workers`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

from django.conf import settings as django_settings
from django.db.models import QuerySet, Sum
from django.http import QueryDict
from django.utils import timezone

from admin_ui.row_list import PageLinks, page_links
from admin_ui.translation.figures import exact
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.settings import Settings
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing.usage import whole_partitions
from workers.models import UsageHour, UsagePartition, UsageRun

LEVELS = (("tenant", gettext_lazy("By tenant")), ("namespace", gettext_lazy("By namespace")), ("topic", gettext_lazy("By topic")))
ROWS_A_PAGE = 500
PAGES_MAX = 10_000
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


def rows_of(day: date, level: str, tenants: QuerySet[Tenant], page: int = 1) -> tuple[list[dict[str, Any]], bool]:
    """A page of rows, one for each name at the level and each hour, for `tenants` only; whether there is a next one. All rows of an
    hour sum to what its tenants used: what is of no topic, or of no namespace, is one."""
    start = day_start(day)
    with platform_scope():
        rows = UsageHour.objects.filter(hour__gte=start, hour__lt=start + timedelta(days=1), tenant_uid__in=tenants.values("uid"))
        rows = rows.exclude(**{level: ""}, **dict.fromkeys(_METERS, 0))  # it has other meters, which the page does not show
        summed = rows.values("hour", level).annotate(**{meter: Sum(meter) for meter in _METERS}).order_by("-hour", level)
        found = list(summed[(page - 1) * ROWS_A_PAGE : page * ROWS_A_PAGE + 1])
    nobody = {"namespace": gettext("of no namespace"), "topic": gettext("of no topic")}
    shown = [
        {**row, "name": row[level] or nobody[level], "stored_bytes": row["stored_byte_seconds"] // 3600}
        for row in found[:ROWS_A_PAGE]
    ]
    return shown, len(found) > ROWS_A_PAGE


def links(query: QueryDict, number: int, further: bool) -> PageLinks:
    """Of the pages of `rows_of`, which nobody has counted."""
    return replace(page_links(query, "page", number, number + further), pages=None)


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
            marks.append(
                HourMark(
                    "open",
                    gettext("{name} not over yet").format(name=name) + (gettext(", computed in part") if hour in begun else ""),
                )
            )
        elif hour in begun:
            marks.append(HourMark("open", gettext("{name} computed in part, before it was over").format(name=name)))
        elif _written(hour):
            marks.append(HourMark("missing", f"{name} missing"))
        else:
            marks.append(HourMark("none", gettext("{name} no usage recorded").format(name=name)))
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
            gettext("Usage is recorded but not aggregated, because Spark cannot be started"),
            run.message
            or gettext("Install it with: pip install magnetar[spark]. Nothing is lost: the next run computes every missing hour."),
        )
    if run.outcome == outcomes.FAILED:
        return Problem(
            "bad",
            gettext("The last run failed: {run_id}").format(run_id=run.run_id),
            (run.message if detailed else "") or gettext("See the worker's log. The usage below is from the previous run."),
        )
    if run.outcome == outcomes.REQUESTED:
        return Problem(
            "good",
            gettext("A run was asked for"),
            gettext(
                "Requested {requested_at} UTC; no worker has begun it yet. This page shows the result as soon as it is available."
            ).format(requested_at=f"{run.requested_at:%H:%M}"),
        )
    if run.outcome == outcomes.RUNNING:
        return Problem(
            "good",
            gettext("A run is in progress"),
            gettext("Requested {requested_at} UTC. {run}This page shows the result as soon as it is available.").format(
                requested_at=f"{run.requested_at:%H:%M}", run=_progress(run)
            ),
        )
    if run.holes or run.quarantined or run.rejected_files:
        return Problem(
            "warn",
            gettext("The last run found gaps in the usage records"),
            gettext(
                "Gaps in sequence numbers: {holes}; quarantined records: {quarantined}; rejected files: {rejected_files}. "
                "The usage may be too low."
            ).format(holes=exact(run.holes), quarantined=exact(run.quarantined), rejected_files=exact(run.rejected_files)),
        )
    return None


def _progress(run: UsageRun) -> str:
    """How far the job says it is (`spark_jobs.config.Progress`); empty if it has not said anything yet."""
    progress = run.detail.get("progress")
    if not progress:
        return ""
    left = (
        "" if progress["left_s"] is None else gettext(", about {left_s} s left for it").format(left_s=f"{progress['left_s']:.0f}")
    )
    return gettext("Step: {step}; tasks done: {done} of {tasks}; rows: {rows}{left}. ").format(
        step=progress["step"], done=progress["done"], tasks=progress["tasks"], rows=exact(progress["rows"]), left=left
    )
