"""Lines of an export of the audit log: written here, and read again by the verifier. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from messaging.json_types import converted
from tenants.audit.links import Linked, moment
from tenants.text_files import plain_cell

LINE_BYTES_MAX = 1 << 20
COLUMNS = (
    "id",
    "at",
    "role",
    "address",
    "key_id",
    "action",
    "tenant",
    "tenant_uid",
    "resource",
    "before",
    "after",
    "request_id",
    "previous_hash",
    "tenant_previous_hash",
    "hash",
)


class ExportError(ValueError):
    """A line that is no record."""


class ExportedRecord(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One line: every field of the record, and its hashes. `masked`: not all of what it says."""

    id: int
    at: datetime
    role: str
    address: str
    key_id: str
    action: str
    tenant: str
    tenant_uid: str
    resource: str
    before: Any = None
    after: Any = None
    request_id: str
    previous_hash: str
    tenant_previous_hash: str
    hash: str
    masked: bool = False


def json_line(record: Linked, *, masked: bool = False) -> bytes:
    """With the standard library, which keeps whole numbers of any size. `masked`: something is hidden in it, and its hash is of the
    record as it is."""
    said = {**{name: getattr(record, name) for name in COLUMNS}, "at": moment(record.at)}
    return json.dumps(said | {"masked": True} if masked else said).encode() + b"\n"


def csv_line(record: Linked | None, *, masked: bool = False) -> bytes:
    """None: the line with the names of the columns. A text that a spreadsheet would take for a formula begins with an apostrophe;
    `before` and `after` are JSON. `masked` as in `json_line`."""
    line = io.StringIO()
    csv.writer(line).writerow(
        (*COLUMNS, "masked") if record is None else [*(_cell(record, name) for name in COLUMNS), "true" if masked else ""]
    )
    return line.getvalue().encode()


def _cell(record: Linked, name: str) -> str:
    value = getattr(record, name)
    if name in ("before", "after"):
        text = "" if value is None else json.dumps(value)
    else:
        text = moment(value) if name == "at" else str(value)
    return plain_cell(text)


def read_lines(file: Iterable[bytes]) -> Iterator[Linked]:
    """Raises `ExportError` naming the line."""
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        if len(line) > LINE_BYTES_MAX:
            raise ExportError(f"line {number} has {len(line)} bytes; a record has at most {LINE_BYTES_MAX}")
        try:
            yield converted(json.loads(line), ExportedRecord)
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            raise ExportError(f"line {number} is not a record of an audit log: {error}") from None
