"""What figures are based on: the usage runs, their files, and what these left out; of all tenants, or of those that a user may
see. Reads the models of `workers`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Page, Paginator
from django.db.models import Count, F, Q, QuerySet, Sum
from django.urls import reverse

from tenants.scoping import platform_scope
from workers.billing.costs import Uids
from workers.billing.models import Invoice
from workers.findings.models import UsageFinding
from workers.models import UsageRun

ROWS_A_PAGE = 50
RUNS_SHOWN = 200
Kind = UsageFinding.Kind


@dataclass(frozen=True)
class Basis:
    """`runs` computed the hours that the figures are of, from `files` files. `records` were not counted; `holes` are of single
    series, `outages` of whole brokers."""

    runs: int
    files: int
    records: int
    holes: int
    outages: int


@dataclass(frozen=True)
class Asked:
    """The hours from `start` to `end` in their versions of now, or in those of the runs `run_ids`. `uids`: of the tenants whose
    findings may be seen; None: of all."""

    start: datetime
    end: datetime
    uids: Uids | None
    run_ids: Collection[str] | None = None

    def runs(self) -> QuerySet[UsageRun]:
        if self.run_ids is not None:
            return UsageRun.objects.filter(run_id__in=self.run_ids)
        hours = Q(partitions__hour__gte=self.start, partitions__hour__lt=self.end)
        return UsageRun.objects.filter(run_id__in=UsageRun.objects.filter(hours).values("run_id"))

    def findings(self) -> QuerySet[UsageFinding]:
        """Of these hours. Call it within the scope of the platform."""
        found = seen_by(self.uids).filter(run__in=self.runs())
        inside = Q(hour__gte=self.start, hour__lt=self.end)
        if self.run_ids is None:
            inside &= Q(run__partitions__hour=F("hour"))  # another run's version of the hour is in force
        return found.filter(Q(kind=Kind.OUTAGE, from_at__lt=self.end, until_at__gt=self.start) | inside & ~Q(kind=Kind.OUTAGE))


def seen_by(uids: Uids | None) -> QuerySet[UsageFinding]:
    """Outages are everybody's. Call it within the scope of the platform."""
    every = UsageFinding.objects.all()
    return every if uids is None else every.filter(Q(kind=Kind.OUTAGE) | Q(tenant_uid__in=uids) & ~Q(tenant_uid=""))


def days(first: date, last: date) -> tuple[datetime, datetime]:
    """UTC, half-open."""
    start = datetime(first.year, first.month, first.day, tzinfo=UTC)
    return start, datetime(last.year, last.month, last.day, tzinfo=UTC) + timedelta(days=1)


def basis_of(asked: Asked) -> Basis:
    with platform_scope():
        runs = asked.runs().aggregate(runs=Count("run_id"), files=Sum("files"))
        kinds = dict(asked.findings().order_by().values_list("kind").annotate(Count("id", distinct=True)))
        outages = _outages(asked.findings()).count() if Kind.OUTAGE in kinds else 0
    return Basis(runs["runs"], runs["files"] or 0, kinds.get(Kind.QUARANTINED, 0), kinds.get(Kind.HOLE, 0), outages)


def _outages(findings: QuerySet[UsageFinding]) -> QuerySet[UsageFinding, Any]:
    """Once each, though each run whose hours it touches says it."""
    found = findings.filter(kind=Kind.OUTAGE).order_by("-from_at")
    return found.values("source", "boot_epoch", "from_at", "until_at").distinct()


def runs_of(asked: Asked) -> list[dict[str, Any]]:
    """The newest `RUNS_SHOWN`, with how many findings each has of these hours."""
    with platform_scope():
        runs = list(asked.runs().defer("detail").order_by("-requested_at")[:RUNS_SHOWN])
        counts: dict[tuple[str, str], int] = {}
        for run, kind, number in (
            asked.findings().filter(run__in=runs).order_by().values_list("run_id", "kind").annotate(Count("id", distinct=True))
        ):
            counts[run, kind] = number
    return [
        {
            "run": run,
            "records": counts.get((run.run_id, Kind.QUARANTINED), 0),
            "holes": counts.get((run.run_id, Kind.HOLE), 0),
            "outages": counts.get((run.run_id, Kind.OUTAGE), 0),
        }
        for run in runs
    ]


def outages_of(asked: Asked) -> list[dict[str, Any]]:
    with platform_scope():
        return list(_outages(asked.findings())[:ROWS_A_PAGE])


def findings_page(run: UsageRun, kinds: Collection[str], uids: Uids | None, number: str) -> Page[UsageFinding]:
    with platform_scope():
        rows = seen_by(uids).filter(run=run, kind__in=kinds).order_by("hour", "id")
        return _evaluated(Paginator(rows, ROWS_A_PAGE).get_page(number))


def _evaluated(page: Page[UsageFinding]) -> Page[UsageFinding]:
    page.object_list = list(page.object_list)
    return page


def invoice_asked(invoice: Invoice) -> Asked:
    """The versions of the hours that it was made of."""
    runs = {one["run"] for one in invoice.document.get("hours", ())}
    return Asked(invoice.start, invoice.end, [invoice.tenant_uid], runs)


def evidence_address(**query: Any) -> str:
    return f"{reverse('console:usage_evidence')}?{urlencode({name: value for name, value in query.items() if value})}"
