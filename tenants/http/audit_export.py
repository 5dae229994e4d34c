"""The audit log as a file, of the console and of /api/v1. It loads nothing of REST framework: the console does without."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponseBase, StreamingHttpResponse

from messaging.errors import InvalidValue
from messaging.permissions.model import Action, Resource
from tenants.access import Actor, require
from tenants.audit.export_lines import csv_line, json_line
from tenants.audit.reading import export_pieces, filters_of, read_all
from tenants.grants import DatabaseGrants
from tenants.http.threads import in_request_thread
from tenants.masked_records import RecordMasks
from tenants.models import AuditRecord

FORMATS = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}


def export(actor: Actor, query: Any, rows: QuerySet[AuditRecord], name: str, *, tenant: str) -> HttpResponseBase:
    """A file that is made while it is sent, without what is masked for the actor. It breaks off when they may read the log no more,
    such as when their membership ends. `tenant`: "" for all. Raises `InvalidValue`."""
    form = query.get("format", "") or "jsonl"
    if form not in FORMATS:
        raise InvalidValue(f"format {form[:40]!r} is not one of {', '.join(FORMATS)}")
    shown = map(
        RecordMasks(actor).shown, read_all(rows, filters_of(query), bool(tenant), check=lambda: _require_still(actor, tenant))
    )
    if form == "csv":
        pieces = export_pieces((csv_line(each.row, masked=each.masked) for each in shown), csv_line(None))
    else:
        pieces = export_pieces(json_line(each.row, masked=each.masked) for each in shown)
    response = PiecewiseResponse(pieces, content_type=FORMATS[form])
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    response["Cache-Control"] = "no-store"
    return response


def _require_still(actor: Actor, tenant: str) -> None:
    """With the rights of now: those of the actor are of when the request came."""
    now = replace(actor, grants=DatabaseGrants())
    require(now, Action.AUDIT_READ if tenant else Action.SUPERUSER, Resource(tenant))


class PiecewiseResponse(StreamingHttpResponse):
    """Takes the next piece when the one before was sent, in the thread of the request. Django would gather all of them first."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: Iterator[bytes] = iter(self)
        while (piece := await in_request_thread(lambda: next(pieces, None))()) is not None:
            yield piece
