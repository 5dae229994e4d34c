"""Reports: costs of a span of days as CSV, Parquet, JSON and HTML with a chart, with the usage runs that they came from."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext

from messaging.atomic_files import replacing
from messaging.settings import Settings
from tenants.models import Tenant
from tenants.scoping import platform_scope
from tenants.text_files import plain_cell
from workers.alerts.notices import TenantRef, send_mail
from workers.billing import charts, costs, usage
from workers.billing.budget_models import Report, ReportSchedule
from workers.billing.models import NANO
from workers.billing.months import charges_are_current
from workers.rating.money import decimal_text
from workers.translation.figures import of_language
from workers.translation.of_tenants import told_in

KINDS = {"csv": "text/csv", "json": "application/json", "parquet": "application/vnd.apache.parquet", "html": "text/html"}
MAILED_BYTES_MAX = 5 << 20
SERIES_MAX = 8
NAMES_MAX = 1000  # of one report: those with the highest costs


@dataclass(frozen=True)
class ReportRow:
    """`cost` has all nine digits, so that rows sum to the invoice's lines."""

    day: str
    name: str
    meter: str
    quantity: int
    cost: str
    currency: str


def span_before(every: str, until: date) -> tuple[date, date]:
    """First and last day of the span that begins at `until`."""
    if every == ReportSchedule.Every.DAY:
        return until, until
    if every == ReportSchedule.Every.WEEK:
        return until, until + timedelta(days=6)
    return until, (until.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)


def make_due(settings: Settings, schedule: ReportSchedule, now: datetime, ready_until: date) -> list[Report]:
    """Reports of all spans that are over, whose usage is computed (days before `ready_until` are), and charged: a report is made
    once, and would never have what is charged after it. Twice makes none twice."""
    made = []
    with platform_scope():
        tenant = Tenant.objects.get(uid=schedule.tenant_uid)
    first, last = span_before(schedule.every, schedule.made_until)
    while last < ready_until and charges_are_current(tenant, first, last, now):
        report = make(settings, schedule, first, last, now)
        schedule.made_until = last + timedelta(days=1)
        schedule.save(update_fields=["made_until"])
        made.append(report)
        first, last = span_before(schedule.every, schedule.made_until)
    return made


def make(settings: Settings, schedule: ReportSchedule, first: date, last: date, now: datetime) -> Report:
    """Writes the files, then the row that names them; then mails them."""
    with platform_scope():
        there = Report.objects.filter(schedule=schedule, first=first).first()
    if there is not None:
        return there
    question = costs.Question([schedule.tenant_uid], first, last, schedule.by)
    question = replace(question, currency=max(costs.currencies_of(question), default=""))
    report = Report(
        tenant=schedule.tenant,
        tenant_uid=schedule.tenant_uid,
        schedule=schedule,
        name=schedule.name,
        by=schedule.by,
        first=first,
        last=last,
        made_at=now,
        runs=_runs(schedule.tenant_uid, first, last),
    )
    with told_in(settings, schedule.tenant_uid):
        files = contents_of(report, question)
    report.files = [
        {"name": name, "bytes": len(contents), "sha256": hashlib.sha256(contents).hexdigest()} for name, contents in files.items()
    ]
    folder = folder_of(settings, report.pk)
    try:
        _write(folder, files)
        report.save()
    except BaseException:  # a full disk, say: what is there is of no row, and the next try has another folder
        shutil.rmtree(folder, ignore_errors=True)
        raise
    report.delivered = _mail(settings, schedule, report, files)
    report.save(update_fields=["delivered"])
    return report


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, contents in files.items():
        with replacing(folder / name, durable=True) as draft:
            draft.write_bytes(contents)


def forget_unnamed(settings: Settings, before: datetime) -> None:
    """Folders of no report, which a worker that was killed left; not of one that is being made."""
    with suppress(FileNotFoundError), platform_scope():
        for folder in (settings.data_path / "reports").iterdir():
            if folder.stat().st_mtime < before.timestamp() and not Report.objects.filter(pk=folder.name).exists():
                shutil.rmtree(folder, ignore_errors=True)


def folder_of(settings: Settings, report_id: str) -> Path:
    return settings.data_path / "reports" / report_id


def contents_of(report: Report, question: costs.Question) -> dict[str, bytes]:
    rows = rows_of(question)
    told = {
        "name": report.name,
        "tenant": report.tenant,
        "by": report.by,
        "first": report.first.isoformat(),
        "last": report.last.isoformat(),
        "made_at": report.made_at.isoformat(),
        "time_zone": "UTC",  # of the days
        "runs": report.runs,
    }
    return {
        "report.csv": _csv(rows),
        "report.json": json.dumps({**told, "rows": [vars(row) for row in rows]}, indent=1).encode(),
        "report.parquet": _parquet(rows),
        "report.html": _html(report, question).encode(),
    }


def rows_of(question: costs.Question) -> list[ReportRow]:
    """By day, name and meter. Names beyond the `NAMES_MAX` dearest are one, `costs.REST`: the files are made in memory."""
    kept = set(costs.ask(question, NAMES_MAX).names)
    sums: dict[tuple[date, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for series, day, meter, nano, quantity in costs.cells_of(question):
        name = series if series in kept else costs.REST
        sums[day, name, meter][0] += nano
        sums[day, name, meter][1] += quantity
    return [
        ReportRow(day.isoformat(), name, meter, quantity, decimal_text(Fraction(nano, NANO), 9), question.currency)
        for (day, name, meter), (nano, quantity) in sorted(sums.items())
    ]


def _csv(rows: list[ReportRow]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("day_utc", "name", "meter", "quantity", "cost", "currency"))
    writer.writerows((row.day, plain_cell(row.name), row.meter, row.quantity, row.cost, row.currency) for row in rows)
    return text.getvalue().encode()


def _parquet(rows: list[ReportRow]) -> bytes:
    import arro3.core as arrow
    from arro3.io import write_parquet

    # Byte-seconds of very much data do not fit in 64 bits: then quantities are text, as costs are.
    fits = all(abs(row.quantity) < 2**63 for row in rows)
    types = {"quantity": arrow.DataType.int64()} if fits else {}
    names = ("day", "name", "meter", "quantity", "cost", "currency")
    schema = arrow.Schema([arrow.Field(name, types.get(name, arrow.DataType.string()), nullable=False) for name in names])
    values = {name: [getattr(row, name) for row in rows] for name in names}
    if not fits:
        values["quantity"] = [str(quantity) for quantity in values["quantity"]]
    arrays = [arrow.Array(values[name], type=types.get(name, arrow.DataType.string())) for name in names]
    file = io.BytesIO()
    write_parquet(arrow.RecordBatch.from_arrays(arrays, schema=schema), file, compression="zstd(3)")
    return file.getvalue()


def _html(report: Report, question: costs.Question) -> str:
    answer = costs.ask(question, SERIES_MAX)
    rows: list[dict[str, Any]] = [
        {"series": index, "name": name, "cost": of_language(costs.nano_text(answer.totals[name], question.currency))}
        for index, name in enumerate(answer.names, 1)
    ]
    shapes = {"width": charts.WIDTH, "height": charts.HEIGHT}
    chart = charts.stacked(answer.steps, answer.names, answer.cells, {})
    total = of_language(costs.nano_text(answer.total, question.currency))
    return render_to_string(
        "workers/report.html", {"report": report, "rows": rows, "chart": chart, "total": total, "question": question, **shapes}
    )


def _runs(tenant_uid: str, first: date, last: date) -> list[str]:
    start, end = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (first, last + timedelta(days=1)))
    return sorted(set(usage.hours_with_usage(tenant_uid, start, end).values()))


def _mail(settings: Settings, schedule: ReportSchedule, report: Report, files: dict[str, bytes]) -> str:
    sent = [(name, contents, KINDS[name.rpartition(".")[2]]) for name, contents in files.items() if name != "report.parquet"]
    if sum(len(contents) for _, contents, _ in sent) > MAILED_BYTES_MAX:
        sent = []
    about = {"name": report.name, "tenant": report.tenant, "first": report.first, "last": report.last}
    with told_in(settings, report.tenant_uid):
        subject = gettext("Report {name}, {first} to {last}").format(**about)
        lines = [gettext("{name} of tenant {tenant}, {first} to {last}.").format(**about)]
        lines += [] if sent else [gettext("The files are too large for a mail: they are in the console.")]
    text, told = "".join(f"{line}\n" for line in lines), TenantRef(report.tenant, report.tenant_uid)
    return send_mail(settings, report.made_at, told, schedule.emails, subject, text, sent)
