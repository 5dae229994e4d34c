"""An invoice against usage and price plans: everything is computed again, and each difference is named with its reason.

Differences of lines come with their cause where one is known: an hour whose usage is another, missing or added, a price plan that
is not the one of the invoice, or, where all inputs agree, an amount that was changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from workers.rating.credit import Tax, tax_on
from workers.rating.digest import NOTHING, hour_digest, row_digest
from workers.rating.document import DRAFT, INVOICE, SCHEMA, line_document, time_of, time_text
from workers.rating.errors import RatingError
from workers.rating.money import CURRENCIES, minor_of, money_text
from workers.rating.plan import PlanVersion, plan_from
from workers.rating.rate import ADJUSTMENT, HOUR, Line, Segment, month_of, rate
from workers.rating.units import METERS

SHOWN_MAX = 5


class UsageRow(NamedTuple):
    """What one topic used in one hour. Quantities in base units, by meter."""

    hour: datetime
    namespace: str
    topic: str
    quantities: Mapping[str, int]


@dataclass
class Report:
    """`differences`: line id or field -> in words. Empty: the invoice is right. `notes`: what was not checked, and why."""

    differences: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lines: int = 0
    hours: int = 0
    rows: int = 0

    @property
    def agrees(self) -> bool:
        return not self.differences


def verify(invoice: Mapping[str, Any], rows: Iterable[UsageRow], plans: Sequence[Mapping[str, Any]] | None = None) -> Report:
    """`plans`: documents of the price plans that the customer has; None: those in the invoice.

    Raises `RatingError` for what is no invoice."""
    try:
        return _verify(invoice, rows, plans)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, RatingError):
            raise
        raise RatingError(f"this is not an invoice of schema {SCHEMA}: {type(error).__name__}: {error}") from None


def _verify(invoice: Mapping[str, Any], rows: Iterable[UsageRow], plans: Sequence[Mapping[str, Any]] | None) -> Report:
    if invoice["schema"] != SCHEMA:
        raise RatingError(f"the invoice has schema {invoice['schema']!r}, this program knows {SCHEMA}")
    if invoice["kind"] != INVOICE:
        raise RatingError(f"this is a {invoice['kind']}: verify the invoice {invoice['of_invoice']!r} that it takes back")
    currency = invoice["currency"]
    if currency not in CURRENCIES:
        raise RatingError(f"currency {str(currency)[:40]!r} is not known")
    report = Report()
    segments = _segments(invoice, plans, report)
    usage, digests = _usage(segments, rows, report)
    hours = _compare_hours(invoice, digests, report)
    start, end = month_of(time_of(invoice["period"]["start"]))
    computed = rate(segments, usage, (end - start) // HOUR) if segments else []
    _compare_lines(invoice, computed, report, hours)
    _compare_totals(invoice, report)
    if invoice["state"] == DRAFT:
        report.notes.append("the invoice is a draft: it changes until the month is closed")
    return report


def _segments(invoice: Mapping[str, Any], plans: Sequence[Mapping[str, Any]] | None, report: Report) -> list[Segment]:
    own = {(plan["plan"], plan["version"]): plan for plan in invoice["plans"]}
    mine = own if plans is None else {(plan.get("plan"), plan.get("version")): plan for plan in plans}
    versions: dict[tuple[str, int], PlanVersion] = {}
    for key, document in own.items():
        name = f"plan {key[0]} version {key[1]}"
        given = mine.get(key)
        if given is None:
            others = ", ".join(str(version) for plan, version in mine if plan == key[0])
            report.differences[name] = f"the invoice was made with it; you gave {f'version {others}' if others else 'no such plan'}"
            candidates = [document for (plan, _), document in mine.items() if plan == key[0]]
            given = candidates[0] if candidates else document
        elif dict(given) != dict(document):
            fields = sorted(field for field in {*given, *document} if given.get(field) != document.get(field))
            report.differences[name] = f"yours is another than that in the invoice: {', '.join(fields)} differ"
        versions[key] = plan_from(dict(given))
    return [
        Segment(time_of(segment["start"]), time_of(segment["end"]), versions[segment["plan"], segment["version"]])
        for segment in invoice["segments"]
    ]


def _usage(
    segments: Sequence[Segment], rows: Iterable[UsageRow], report: Report
) -> tuple[list[dict[str, dict[str, int]]], dict[str, str]]:
    """Of each segment: meter -> namespace -> quantity; and hour -> digest."""
    used: list[dict[str, dict[str, int]]] = [{meter: defaultdict(int) for meter in METERS} for _ in segments]
    digests: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        report.rows += 1
        digests[time_text(row.hour)].append(row_digest(row.namespace, row.topic, row.quantities))
        for segment, into in zip(segments, used, strict=True):
            if segment.start <= row.hour < segment.end:
                for meter, quantity in row.quantities.items():
                    if quantity:
                        into[meter][row.namespace] += quantity
    return used, {hour: hour_digest(rows) for hour, rows in digests.items()}


def _compare_hours(invoice: Mapping[str, Any], digests: Mapping[str, str], report: Report) -> str:
    """What is wrong with the hours, in words, for the lines that differ; "" if they are those that were billed."""
    start, end = invoice["period"]["start"], invoice["period"]["end"]
    billed = {hour["hour"]: hour["digest"] for hour in invoice["hours"]}
    report.hours = len(billed)
    mine = {hour: digest for hour, digest in digests.items() if start <= hour < end}
    kinds: dict[str, list[str]] = {"missing in your usage": [], "different from what was billed": [], "not billed": []}
    for hour in sorted(set(billed) | set(mine)):
        was, computed = billed.get(hour, NOTHING), mine.get(hour, NOTHING)
        if was == computed:
            continue
        kind = (
            "not billed" if was == NOTHING else "missing in your usage" if computed == NOTHING else "different from what was billed"
        )
        kinds[kind].append(hour)
    said = [f"{kind}: {_some(hours)}" for kind, hours in kinds.items() if hours]
    if said:
        report.differences["hours"] = "; ".join(said)
    missing = invoice["hours_missing"]
    if missing:
        report.notes.append(f"usage of {len(missing)} hours had not been computed when the invoice was made: {_some(missing)}")
    return report.differences.get("hours", "")


def _some(hours: Sequence[str]) -> str:
    more = f" and {len(hours) - SHOWN_MAX} more" if len(hours) > SHOWN_MAX else ""
    return f"{'hour' if len(hours) == 1 else 'hours'} {', '.join(hours[:SHOWN_MAX])}{more}"


def _compare_lines(invoice: Mapping[str, Any], computed: Sequence[Line], report: Report, hours: str) -> None:
    currency = invoice["currency"]
    billed = {line["id"]: line for line in invoice["lines"] if line["kind"] != ADJUSTMENT}
    adjusted = [line for line in invoice["lines"] if line["kind"] == ADJUSTMENT]
    if adjusted:
        numbers = ", ".join(sorted({line["of_invoice"] for line in adjusted}))
        report.notes.append(f"{len(adjusted)} corrections are of the periods of {numbers}: they were added, not computed again")
    lines = {line.id: line for line in computed}
    report.lines = len(billed)
    plans = [text for name, text in report.differences.items() if name.startswith("plan ")]
    causes = (f"usage {hours}" if hours else "", f"the price plan: {plans[0]}" if plans else "")
    why = "; ".join(filter(None, causes))
    for name in [*billed, *(line_id for line_id in lines if line_id not in billed)]:
        if name not in lines:
            text = f"the invoice bills {billed[name]['amount']} {currency}, and nothing is due"
        elif name not in billed:
            text = f"{money_text(lines[name].amount, currency)} {currency} is due, and the invoice has no such line"
        else:
            text = _difference(billed[name], line_document(lines[name], currency), currency)
        if text:
            report.differences[name] = f"{text}; because of {why}" if why else f"{text}; the line was changed: all its inputs agree"


def _difference(billed: Mapping[str, Any], computed: Mapping[str, Any], currency: str) -> str:
    if billed == computed:
        return ""
    said = []
    if billed.get("quantity") != computed.get("quantity"):
        said.append(f"it bills {billed.get('quantity')} base units, your usage has {computed.get('quantity')}")
    if billed["amount"] != computed["amount"]:
        said.append(f"it bills {billed['amount']} {currency}, {computed['amount']} {currency} is due")
    if not said:
        fields = sorted(field for field in {*billed, *computed} if billed.get(field) != computed.get(field))
        said.append(f"the same amount, but {', '.join(fields)} differ")
    return ", and ".join(said)


def _compare_totals(invoice: Mapping[str, Any], report: Report) -> None:
    """The sums of what the invoice itself says: a wrong line is told once, not again in every sum."""
    currency = invoice["currency"]
    subtotal = sum(minor_of(line["amount"], currency, line["id"]) for line in invoice["lines"])
    credits = sum(minor_of(credit["amount"], currency, credit["id"]) for credit in invoice["credits"])
    said_tax = invoice["tax"]
    tax = tax_on(subtotal - credits, Tax(said_tax["label"], said_tax["rate"]))
    for name, said, due in (
        ("subtotal", invoice["subtotal"], subtotal),
        ("tax", said_tax["amount"], tax),
        ("total", invoice["total"], subtotal - credits + tax),
    ):
        if minor_of(said, currency, name) != due:
            report.differences[name] = f"it says {said} {currency}, its lines make {money_text(due, currency)} {currency}"
