"""The audit log as a file, of the console and of /api/v1. It loads nothing of REST framework: the console does without."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase

from messaging.errors import InvalidValue
from messaging.permissions.model import Action, Resource
from tenants.access import require
from tenants.audit.export_lines import csv_line, json_line
from tenants.audit.reading import export_pieces, filters_of, read_all
from tenants.http.authentication import actor_now, actor_of
from tenants.http.piecewise import PiecewiseResponse
from tenants.masked_records import RecordMasks
from tenants.models import AuditRecord

FORMATS = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}


def export(request: HttpRequest, rows: QuerySet[AuditRecord], name: str, *, tenant: str) -> HttpResponseBase:
    """A file that is made while it is sent, without what is masked for whoever asks. It breaks off when they may read the log no
    more, such as when their membership ends. `tenant`: "" for all. Raises `InvalidValue`."""
    form = request.GET.get("format", "") or "jsonl"
    if form not in FORMATS:
        raise InvalidValue(f"format {form[:40]!r} is not one of {', '.join(FORMATS)}")
    shown = map(RecordMasks(actor_of(request)).shown, read_all(rows, filters_of(request.GET), bool(tenant)))
    if form == "csv":
        pieces = export_pieces((csv_line(each.row, masked=each.masked) for each in shown), csv_line(None))
    else:
        pieces = export_pieces(json_line(each.row, masked=each.masked) for each in shown)
    needed = (Action.AUDIT_READ if tenant else Action.SUPERUSER, Resource(tenant))
    response = PiecewiseResponse(pieces, lambda: require(actor_now(request), *needed), FORMATS[form])
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    response["Cache-Control"] = "no-store"
    return response
