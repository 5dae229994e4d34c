"""The audit log as a file, of the console and of /api/v1. It loads nothing of REST framework: the console does without."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponseBase, StreamingHttpResponse

from messaging.errors import InvalidValue
from tenants.access import Actor
from tenants.audit.export_lines import csv_line, json_line
from tenants.audit.reading import export_pieces, filters_of, read_all
from tenants.http.threads import in_request_thread
from tenants.masked_records import RecordMasks
from tenants.models import AuditRecord

FORMATS = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}


def export(actor: Actor, query: Any, rows: QuerySet[AuditRecord], name: str, *, of_tenant: bool) -> HttpResponseBase:
    """A file that is made while it is sent, without what is masked for the actor. Raises `InvalidValue`."""
    form = query.get("format", "") or "jsonl"
    if form not in FORMATS:
        raise InvalidValue(f"format {form[:40]!r} is not one of {', '.join(FORMATS)}")
    shown = map(RecordMasks(actor).shown, read_all(rows, filters_of(query), of_tenant))
    if form == "csv":
        pieces = export_pieces((csv_line(each.row) for each in shown), csv_line(None))
    else:
        pieces = export_pieces(json_line(each.row, masked=each.masked) for each in shown)
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
