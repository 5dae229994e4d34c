"""The audit log as a file, of the console and of /api/v1. It loads nothing of REST framework: the console does without."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponseBase, StreamingHttpResponse

from messaging.errors import InvalidValue
from tenants.audit.export_lines import csv_line, json_line
from tenants.audit.reading import export_pieces, filters_of, read_all
from tenants.http.threads import in_request_thread
from tenants.models import AuditRecord

FORMATS = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}


def export(query: Any, rows: QuerySet[AuditRecord], name: str, *, of_tenant: bool) -> HttpResponseBase:
    """A file that is made while it is sent. Raises `InvalidValue`."""
    form = query.get("format", "") or "jsonl"
    if form not in FORMATS:
        raise InvalidValue(f"format {form[:40]!r} is not one of {', '.join(FORMATS)}")
    records = read_all(rows, filters_of(query), of_tenant)
    pieces = export_pieces(records, csv_line, csv_line(None)) if form == "csv" else export_pieces(records, json_line)
    response = PiecewiseResponse(pieces, content_type=FORMATS[form])
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    response["Cache-Control"] = "no-store"
    return response


class PiecewiseResponse(StreamingHttpResponse):
    """Takes the next piece when the one before was sent, in the thread of the request. Django would gather all of them first."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: Iterator[bytes] = iter(self)
        while (piece := await in_request_thread(lambda: next(pieces, None))()) is not None:
            yield piece
