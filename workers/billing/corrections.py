"""What usage that came late changes about final invoices, for the oldest invoice that is open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from tenants.scoping import platform_scope
from workers.billing import headers, usage
from workers.billing.models import Invoice
from workers.rating.adjust import adjustments
from workers.rating.document import segments_in, time_of, time_text
from workers.rating.rate import Line, Segment
from workers.rating.statement import Statement, statement_of

LATE_MONTHS = 3  # final months that late usage may still correct; records are taken for 35 days
RateLines = Callable[[str, datetime, datetime, Sequence[Segment]], Sequence[Line]]


def late_lines(tenant_uid: str, before: datetime, rated: RateLines) -> dict[str, list[Line]]:
    """By currency, that of the invoices that they correct: the differences to final invoices of months before `before`, less what
    later invoices and credit notes changed already. `rated`: the lines of a month by the usage of now."""
    documents = _documents(tenant_uid, before)
    statement = statement_of(documents)
    corrections: dict[str, list[Line]] = {}
    for document in documents:
        if not document["segments"]:
            continue  # a note, or nothing but corrections
        start, end = (time_of(document["period"][edge]) for edge in ("start", "end"))
        billed_runs = {hour["hour"]: hour["run"] for hour in document["hours"]}
        hours = usage.runs_of_hours(start, end)
        runs = sorted({run for hour, run in hours.items() if billed_runs.get(time_text(hour)) != run})
        if runs:
            number, lines = document["number"], rated(tenant_uid, start, end, segments_in(document))
            late = adjustments(number, (start, end), statement.of(number), lines, runs, headers.issuer().forgiven_minor)
            if late:
                corrections.setdefault(document["currency"], []).extend(late)
    return corrections


def statement_about(invoice: Invoice) -> Statement:
    """Of everything that may have changed what is charged for its lines: the invoices that it corrects and that correct it, and
    the credit notes of all of them."""
    with platform_scope():
        finals = Invoice.objects.filter(tenant_uid=invoice.tenant_uid, state=Invoice.State.FINAL)
        return statement_of(finals.values_list("document", flat=True))


def _documents(tenant_uid: str, before: datetime) -> list[dict[str, Any]]:
    """Of the last months: final invoices, the newest first, and their credit notes."""
    with platform_scope():
        finals = Invoice.objects.filter(tenant_uid=tenant_uid, state=Invoice.State.FINAL, start__lt=before)
        months = finals.order_by("-start").values_list("start", flat=True).distinct()[:LATE_MONTHS]
        oldest = min(months, default=before)
        return list(finals.filter(start__gte=oldest).order_by("-start").values_list("document", flat=True))
