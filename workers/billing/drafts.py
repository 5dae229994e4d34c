"""The invoice of an open month: rated anew from usage and plans whenever one of them changed; and its charges per day and topic."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import Any

from django.db import transaction

from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing import headers, usage
from workers.billing.attribution import ChargeKey, by_part
from workers.billing.charge_rows import check_bookable, write_charges
from workers.billing.corrections import late_lines
from workers.billing.models import NANO, BilledMonth, HourDigest, Invoice, PlanAssignment, PricePlanVersion
from workers.billing.usage import METER_NAMES, Used
from workers.rating.credit import totals_of
from workers.rating.document import BilledHour, invoice_document, time_text
from workers.rating.money import CURRENCIES, minor_of
from workers.rating.plan import plan_from
from workers.rating.rate import HOUR, USAGE, Line, Segment, month_of, rate, segments_of
from workers.rating.split import split


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
    Corrections of invoices in another currency than the month's are a draft of their own in that currency.

    Twice is harmless; a month whose invoice is final is left alone. Raises `RatingError` for a plan that cannot be used."""
    start, end = month_of(start)
    inputs = inputs_of(tenant, start, now)
    with platform_scope():
        of_month = Invoice.objects.filter(tenant_uid=tenant.uid, start=start, kind=Invoice.Kind.INVOICE)
        invoice = of_month.filter(currency=inputs.currency).first() or of_month.first()
    if invoice is not None and invoice.state == Invoice.State.FINAL:
        return invoice
    if charges_are_of(tenant, start, inputs):
        return _with_hours_missing(invoice, inputs) if invoice is not None else None
    renew()
    rated = rate_month(tenant.uid, start, end, inputs.segments)
    digests = digests_of(tenant, inputs.hours, renew)
    own, others = inputs.late.get(inputs.currency, []), {code: of for code, of in inputs.late.items() if code != inputs.currency}
    charges = {inputs.currency: by_part(tenant.uid, charges_of(rated, own))}
    charges |= {code: by_part(tenant.uid, fees_of(lines, start.date(), code)) for code, lines in others.items()}
    with transaction.atomic(), platform_scope():
        write_charges(tenant, start, charges)
        BilledMonth.objects.update_or_create(
            tenant_uid=tenant.uid, start=start, defaults={"tenant": tenant.name, "inputs": inputs.checksum}
        )
        of_month.filter(state=Invoice.State.DRAFT).exclude(currency__in=charges).delete()
        for code, lines in others.items():
            _store(tenant, start, draft_document(tenant, (start, end), code, [], lines), now)
        if not inputs.segments:
            return None
        lines = [*rated.lines, *own]
        document = draft_document(tenant, (start, end), inputs.currency, inputs.segments, lines, digests, inputs.hours_missing)
        return _store(tenant, start, document, now)


@dataclass(frozen=True)
class Inputs:
    """Everything that the drafts of a month are made of, but for the usage in the `hours`, which their runs stand for."""

    segments: Sequence[Segment]
    hours: Mapping[datetime, str]
    hours_missing: Sequence[datetime]
    late: Mapping[str, Sequence[Line]]  # by currency
    checksum: str

    @property
    def currency(self) -> str:
        return self.segments[0].version.currency if self.segments else ""


def inputs_of(tenant: Tenant, start: datetime, now: datetime) -> Inputs:
    """Raises `RatingError` where no invoice can be made."""
    start, end = month_of(start)
    segments = segments_between(tenant.uid, start, end)
    hours = usage.runs_of_hours(start, min(end, now))
    late = late_lines(tenant.uid, start, _lines_of_month) if segments and not _earlier_draft(tenant, start) else {}
    header = headers.header_of(tenant)
    currencies = sorted({*(segment.version.currency for segment in segments), *late})
    last_day = last_day_of((start, end))
    told = [
        [(time_text(hour), run) for hour, run in hours.items()],
        [(time_text(segment.start), time_text(segment.end), dict(segment.version.document)) for segment in segments],
        [dict(header.customer), dict(header.supplier), header.tax.label, header.tax.rate],
        [(code, line.id, line.amount) for code, lines in sorted(late.items()) for line in lines],
        [
            (credit.id, credit.title, credit.left, credit.expires)
            for code in currencies
            for credit in headers.credits_of(tenant.uid, code, last_day)
        ],
    ]
    checksum = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return Inputs(segments, hours, _missing(segments, hours, now), late, checksum)


def charges_are_of(tenant: Tenant, start: datetime, inputs: Inputs) -> bool:
    """Whether the charges of the month that begins at `start` were made of these."""
    with platform_scope():
        return BilledMonth.objects.filter(tenant_uid=tenant.uid, start=start, inputs=inputs.checksum).exists()


def _with_hours_missing(draft: Invoice, inputs: Inputs) -> Invoice:
    """Hours go by also where no usage comes: how many are missing changes while nothing else does."""
    missing = [time_text(hour) for hour in inputs.hours_missing]
    if draft.document["segments"] and draft.document["hours_missing"] != missing:
        draft.document = {**draft.document, "hours_missing": missing}
        draft.save(update_fields=["document"])
    return draft


def _store(tenant: Tenant, start: datetime, document: dict[str, Any], now: datetime) -> Invoice:
    """Raises `RatingError` for a total that no column holds."""
    currency = document["currency"]
    total = minor_of(document["total"], currency, "total")
    check_bookable(total, currency, f"the invoice of {start:%Y-%m}")
    fields = {
        "tenant": tenant.name,
        "end": month_of(start)[1],
        "total_minor": total,
        "document": document,
        "made_at": now,
    }
    invoice, _ = Invoice.objects.update_or_create(
        tenant_uid=tenant.uid,
        start=start,
        currency=currency,
        kind=Invoice.Kind.INVOICE,
        state=Invoice.State.DRAFT,
        defaults=fields,
    )
    return invoice


def _earlier_draft(tenant: Tenant, start: datetime) -> bool:
    """Corrections stand on the oldest invoice that is open."""
    with platform_scope():
        return Invoice.objects.filter(tenant_uid=tenant.uid, state=Invoice.State.DRAFT, start__lt=start).exists()


def _lines_of_month(tenant_uid: str, start: datetime, end: datetime, segments: Sequence[Segment]) -> Sequence[Line]:
    return rate_month(tenant_uid, start, end, segments).lines


def segments_between(tenant_uid: str, start: datetime, end: datetime) -> list[Segment]:
    with platform_scope():
        assigned = list(PlanAssignment.objects.filter(tenant_uid=tenant_uid).values_list("starts_at", "plan"))
    versions: dict[str, list[Any]] = {plan: [] for _, plan in assigned}
    for document in PricePlanVersion.objects.filter(plan__in=versions).values_list("document", flat=True):
        versions[document["plan"]].append(plan_from(document))
    return segments_of(start, end, assigned, versions)


def rate_month(tenant_uid: str, start: datetime, end: datetime, segments: Sequence[Segment]) -> RatedMonth:
    """Reads the usage of the month, day by day, and rates it."""
    edges = sorted({start, end} | {segment.start for segment in segments} | {segment.end for segment in segments})
    spans: list[Span] = []
    totals: list[dict[str, dict[str, int]]] = [{meter: defaultdict(int) for meter in METER_NAMES} for _ in segments]
    for begin, finish in pairwise(edges):
        index = next((number for number, segment in enumerate(segments) if segment.start <= begin < segment.end), None)
        for day_start, day_end in usage.days_between(begin, finish):
            used = usage.used_between(tenant_uid, day_start, day_end)
            spans.append(Span(index, day_start.date(), used))
            if index is not None:
                for row in used:
                    for meter, quantity in zip(METER_NAMES, row.quantities, strict=True):
                        if quantity:
                            totals[index][meter][row.namespace] += quantity
    return RatedMonth(segments, spans, rate(segments, totals, (month_of(start)[1] - month_of(start)[0]) // HOUR))


def draft_document(
    tenant: Tenant,
    period: tuple[datetime, datetime],
    currency: str,
    segments: Sequence[Segment],
    lines: Sequence[Line],
    hours: Sequence[BilledHour] = (),
    missing: Sequence[datetime] = (),
) -> dict[str, Any]:
    """What is below 0 is carried over to later invoices, where there will be some: not of a tenant that was deleted, nor in a
    currency that it had before."""
    header = headers.header_of(tenant)
    credits = headers.credits_of(tenant.uid, currency, last_day_of(period))
    goes_on = bool(segments) and tenant.created_at is not None
    totals = totals_of((line.amount for line in lines), credits, header.tax, carried_over=goes_on)
    return invoice_document(header, period, currency, segments, lines, totals, hours, missing)


def last_day_of(period: tuple[datetime, datetime]) -> date:
    return (period[1] - HOUR).date()


def digests_of(tenant: Tenant, hours: Mapping[datetime, str], renew: Callable[[], None]) -> list[BilledHour]:
    """Of each hour the digest of the tenant's usage in it; only versions not seen before are read."""
    with platform_scope():
        known = {
            hour: (run, digest)
            for hour, run, digest in HourDigest.objects.filter(tenant_uid=tenant.uid, hour__in=list(hours)).values_list(
                "hour", "run_id", "digest"
            )
        }
    billed = []
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
        billed.append(BilledHour(hour, run, digest))
    return billed


def charges_of(rated: RatedMonth, late: Sequence[Line]) -> dict[ChargeKey, tuple[int, int]]:
    """(namespace, topic, day, meter) -> (quantity, cost in 10^-9). Costs sum to the lines; what has no price costs 0."""
    charges: dict[ChargeKey, tuple[int, int]] = defaultdict(lambda: (0, 0))
    weights: dict[tuple[int, str, str], dict[tuple[str, str], int]] = defaultdict(dict)
    for span in rated.spans:
        for used in span.used:
            for meter, quantity in zip(METER_NAMES, used.quantities, strict=True):
                if not quantity:
                    continue
                key = (used.namespace, used.topic, span.day, meter)
                charges[key] = (charges[key][0] + quantity, 0)
                if span.segment is not None:
                    weights[span.segment, meter, used.namespace][used.topic, span.day.isoformat()] = quantity
    for line in rated.lines:
        if line.kind != USAGE:
            continue
        segment = next(index for index, rated_segment in enumerate(rated.segments) if rated_segment.start == line.start)
        scale = nano_in_minor(rated.segments[segment].version.currency)
        for share in line.shares:
            for (topic, day), nano in split(share.amount * scale, weights[segment, line.meter, share.namespace]).items():
                key = (share.namespace, topic, date.fromisoformat(day), line.meter)
                charges[key] = (charges[key][0], charges[key][1] + nano)
    if rated.segments:
        currency = rated.segments[0].version.currency
        for fees in (
            *(fees_of([line], line.start.date(), currency) for line in rated.lines if line.kind != USAGE),
            fees_of(late, rated.segments[0].start.date(), currency),
        ):
            for key, (_, nano) in fees.items():
                charges[key] = (0, charges[key][1] + nano)
    return charges


def fees_of(lines: Sequence[Line], day: date, currency: str) -> dict[ChargeKey, tuple[int, int]]:
    """What is no namespace's: fees, and corrections of other months, as charges of `day`."""
    charges: dict[ChargeKey, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for line in lines:
        key = ("", "", day, line.kind)
        charges[key] = (0, charges[key][1] + line.amount * nano_in_minor(currency))
    return charges


def nano_in_minor(currency: str) -> int:
    return NANO // int(10 ** CURRENCIES[currency])


def _missing(segments: Sequence[Segment], hours: Mapping[datetime, str], now: datetime) -> list[datetime]:
    """Hours in which a plan was in force, that are over and were never computed."""
    missing = []
    for segment in segments:
        at = segment.start
        while at < min(segment.end, now - HOUR):
            if at not in hours:
                missing.append(at)
            at += HOUR
    return missing
