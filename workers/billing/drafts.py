"""The invoice of an open month: rated anew from usage and plans whenever one of them changed; and its charges per day and topic."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import Any

from django.db import transaction

from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing import headers, usage
from workers.billing.attribution import ChargeKey, by_part
from workers.billing.charge_rows import write_charges
from workers.billing.models import NANO, BilledMonth, HourDigest, Invoice, PlanAssignment, PricePlanVersion
from workers.billing.usage import METER_NAMES, Used
from workers.rating.adjust import adjustments
from workers.rating.credit import totals_of
from workers.rating.document import BilledHour, invoice_document, segments_in, time_of, time_text
from workers.rating.money import CURRENCIES, minor_of
from workers.rating.plan import plan_from
from workers.rating.rate import ADJUSTMENT, HOUR, USAGE, Line, Segment, month_of, rate, segments_of
from workers.rating.split import split

LATE_MONTHS = 3  # final invoices that late usage may still correct; records are taken for 35 days


@dataclass(frozen=True)
class Span:
    """A day, or the part of one that lies in a segment (None: no plan is in force) with the usage of its topics."""

    segment: int | None
    day: date
    used: Sequence[Used]


@dataclass(frozen=True)
class RatedMonth:
    segments: Sequence[Segment]
    spans: Sequence[Span]
    lines: Sequence[Line]


def refresh(tenant: Tenant, start: datetime, now: datetime, renew: Callable[[], None] = lambda: None) -> Invoice | None:
    """Brings the draft of the month that begins at `start`, and its charges, up to date. None: there is no plan, so no invoice.

    Twice is harmless; a month whose invoice is final is left alone."""
    start, end = month_of(start)
    segments = segments_between(tenant.uid, start, end)
    with platform_scope():
        found = Invoice.objects.filter(tenant_uid=tenant.uid, start=start, kind=Invoice.Kind.INVOICE).first()
    if found is not None and found.state == Invoice.State.FINAL:
        return found
    hours = usage.runs_of_hours(start, min(end, now))
    late = list(late_lines(tenant, start)) if segments and not _earlier_draft(tenant, start) else []
    inputs = inputs_of(tenant, end, segments, hours, late)
    with platform_scope():
        if BilledMonth.objects.filter(tenant_uid=tenant.uid, start=start, inputs=inputs).exists():
            return found
    renew()
    rated = rate_month(tenant.uid, start, end, segments)
    lines = [*rated.lines, *late]
    digests = digests_of(tenant, hours, renew)
    with transaction.atomic(), platform_scope():
        write_charges(tenant, start, by_part(tenant.uid, charges_of(rated, late)), segments[0].version.currency if segments else "")
        BilledMonth.objects.update_or_create(tenant_uid=tenant.uid, start=start, defaults={"tenant": tenant.name, "inputs": inputs})
        if not segments:
            return None
        document = draft_document(tenant, (start, end), segments, lines, digests, _missing(segments, hours, now))
        fields = {
            "tenant": tenant.name,
            "end": end,
            "currency": document["currency"],
            "total_minor": minor_of(document["total"], document["currency"], "total"),
            "document": document,
            "made_at": now,
        }
        invoice, _ = Invoice.objects.update_or_create(
            tenant_uid=tenant.uid, start=start, kind=Invoice.Kind.INVOICE, state=Invoice.State.DRAFT, defaults=fields
        )
        return invoice


def _earlier_draft(tenant: Tenant, start: datetime) -> bool:
    """Corrections stand on the oldest invoice that is open."""
    with platform_scope():
        return Invoice.objects.filter(tenant_uid=tenant.uid, state=Invoice.State.DRAFT, start__lt=start).exists()


def segments_between(tenant_uid: str, start: datetime, end: datetime) -> list[Segment]:
    with platform_scope():
        assigned = list(PlanAssignment.objects.filter(tenant_uid=tenant_uid).values_list("starts_at", "plan"))
    versions: dict[str, list[Any]] = {plan: [] for _, plan in assigned}
    for document in PricePlanVersion.objects.filter(plan__in=versions).values_list("document", flat=True):
        versions[document["plan"]].append(plan_from(document))
    return segments_of(start, end, assigned, versions)


def rate_month(tenant_uid: str, start: datetime, end: datetime, segments: Sequence[Segment]) -> RatedMonth:
    """Reads the usage of the month, day by day, and rates it."""
    edges = sorted({start, end} | {one.start for one in segments} | {one.end for one in segments})
    spans: list[Span] = []
    totals: list[dict[str, dict[str, int]]] = [{meter: defaultdict(int) for meter in METER_NAMES} for _ in segments]
    for begin, finish in pairwise(edges):
        index = next((number for number, one in enumerate(segments) if one.start <= begin < one.end), None)
        for day_start, day_end in usage.days_between(begin, finish):
            used = usage.used_between(tenant_uid, day_start, day_end)
            spans.append(Span(index, day_start.date(), used))
            if index is not None:
                for one in used:
                    for meter, quantity in zip(METER_NAMES, one.quantities, strict=True):
                        if quantity:
                            totals[index][meter][one.namespace] += quantity
    return RatedMonth(segments, spans, rate(segments, totals, (month_of(start)[1] - month_of(start)[0]) // HOUR))


def draft_document(
    tenant: Tenant,
    period: tuple[datetime, datetime],
    segments: Sequence[Segment],
    lines: Sequence[Line],
    hours: Sequence[BilledHour],
    missing: Sequence[datetime],
) -> dict[str, Any]:
    currency = segments[0].version.currency
    header = headers.header_of(tenant)
    totals = totals_of((line.amount for line in lines), headers.credits_of(tenant.uid, currency, period[1].date()), header.tax)
    return invoice_document(header, period, currency, segments, lines, totals, hours, missing)


def late_lines(tenant: Tenant, before: datetime) -> Iterator[Line]:
    """What usage that came late changes about final invoices before `before`, less what later final invoices corrected already."""
    with platform_scope():
        finals = Invoice.objects.filter(
            tenant_uid=tenant.uid, kind=Invoice.Kind.INVOICE, state=Invoice.State.FINAL, start__lt=before
        )
        documents = [one.document for one in finals.order_by("-start")[:LATE_MONTHS]]
    for document in documents:
        start, end = (time_of(document["period"][edge]) for edge in ("start", "end"))
        hours = usage.runs_of_hours(start, end)
        billed_runs = {one["hour"]: one["run"] for one in document["hours"]}
        changed = {hour: run for hour, run in hours.items() if billed_runs.get(time_text(hour)) != run}
        if not changed:
            continue
        number, currency = document["number"], document["currency"]
        billed: dict[str, int] = defaultdict(int)
        for line in document["lines"]:
            if line["kind"] != ADJUSTMENT:
                billed[line["id"]] += minor_of(line["amount"], currency, line["id"])
        for other in documents:
            for line in other["lines"]:
                if line["kind"] == ADJUSTMENT and line["of_invoice"] == number:
                    billed[line["id"].removeprefix(f"{number}/")] += minor_of(line["amount"], other["currency"], line["id"])
        rated = rate_month(tenant.uid, start, end, segments_in(document))
        runs = sorted(set(changed.values()))
        yield from adjustments(number, (start, end), billed, rated.lines, runs, headers.issuer().forgiven_minor)


def digests_of(tenant: Tenant, hours: dict[datetime, str], renew: Callable[[], None]) -> list[BilledHour]:
    """Of each hour the digest of the tenant's usage in it; only versions not seen before are read."""
    with platform_scope():
        known = {
            hour: (run, digest)
            for hour, run, digest in HourDigest.objects.filter(tenant_uid=tenant.uid, hour__in=list(hours)).values_list(
                "hour", "run_id", "digest"
            )
        }
    found = []
    for hour, run in hours.items():
        seen = known.get(hour)
        if seen is None or seen[0] != run:
            renew()
            digest, totals = usage.digest_of(tenant.uid, hour)
            values = {"tenant": tenant.name, "run_id": run, "digest": digest, "quantities": totals}
            with platform_scope():
                HourDigest.objects.update_or_create(tenant_uid=tenant.uid, hour=hour, defaults=values)
        else:
            digest = seen[1]
        found.append(BilledHour(hour, run, digest))
    return found


def inputs_of(tenant: Tenant, end: datetime, segments: Sequence[Segment], hours: dict[datetime, str], late: Iterable[Line]) -> str:
    """A checksum of everything that a draft is made of."""
    header = headers.header_of(tenant)
    currency = segments[0].version.currency if segments else ""
    credits = headers.credits_of(tenant.uid, currency, end.date()) if segments else []
    told = [
        [(time_text(hour), run) for hour, run in hours.items()],
        [(time_text(one.start), time_text(one.end), dict(one.version.document)) for one in segments],
        [dict(header.customer), dict(header.supplier), header.tax.label, header.tax.rate],
        [(line.id, line.amount) for line in late],
        [(one.id, one.title, one.left, one.expires) for one in credits],
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def charges_of(rated: RatedMonth, late: Sequence[Line]) -> dict[ChargeKey, tuple[int, int]]:
    """(namespace, topic, day, meter) -> (quantity, cost in 10^-9). Costs sum to the lines; what has no price costs 0."""
    found: dict[ChargeKey, tuple[int, int]] = defaultdict(lambda: (0, 0))
    weights: dict[tuple[int, str, str], dict[tuple[str, str], int]] = defaultdict(dict)
    for span in rated.spans:
        for one in span.used:
            for meter, quantity in zip(METER_NAMES, one.quantities, strict=True):
                if not quantity:
                    continue
                key = (one.namespace, one.topic, span.day, meter)
                found[key] = (found[key][0] + quantity, 0)
                if span.segment is not None:
                    weights[span.segment, meter, one.namespace][one.topic, span.day.isoformat()] = quantity
    for line in [*rated.lines, *late]:
        segment = next((index for index, one in enumerate(rated.segments) if one.start == line.start), 0)
        scale = NANO // int(10 ** CURRENCIES[rated.segments[0].version.currency])
        if line.kind != USAGE:
            kind_key = ("", "", (rated.segments[0].start if line in late else line.start).date(), line.kind)
            found[kind_key] = (0, found[kind_key][1] + line.amount * scale)
            continue
        for share in line.shares:
            for (topic, day), nano in split(share.amount * scale, weights[segment, line.meter, share.namespace]).items():
                key = (share.namespace, topic, date.fromisoformat(day), line.meter)
                found[key] = (found[key][0], found[key][1] + nano)
    return found


def _missing(segments: Sequence[Segment], hours: dict[datetime, str], now: datetime) -> list[datetime]:
    """Hours in which a plan was in force, that are over and were never computed."""
    missing = []
    for segment in segments:
        at = segment.start
        while at < min(segment.end, now - HOUR):
            if at not in hours:
                missing.append(at)
            at += HOUR
    return missing
