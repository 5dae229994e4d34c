"""Reading the audit log: a page at a time, newest first, or as a whole for an export.

Each page costs the same however long the log is. Within a tenant one filter has an index; what others leave of its records is
looked for among `SCAN_MAX` of them at a time, so a page may be short, or empty, and still have a next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from messaging.errors import InvalidValue
from tenants.models import AuditRecord, Tenant

SCAN_MAX = 20_000  # records that one page looks at
ROWS_AT_ONCE = 1_000  # of an export
LENGTHS_MAX = {"request_id": 64, "resource": 1100, "key_id": 64, "action": 64, "role": 600, "address": 64}
_INDEXED = ("request_id", "resource", "key_id", "action", "role")  # within a tenant; the first that is given is used


class Page(NamedTuple):
    """`following`: the `after` of the next page, None for the last one. `looked_to`: when the oldest record that this page looked
    at was written, where it looked at no more and has a next one."""

    records: list[AuditRecord]
    following: str | None
    looked_to: datetime | None = None


@dataclass(frozen=True)
class Filters:
    """Exactly these values; and times, of which `until` is the first that does not count any more."""

    request_id: str = ""
    resource: str = ""
    key_id: str = ""
    action: str = ""
    role: str = ""
    address: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def given(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in LENGTHS_MAX if getattr(self, name)}


def filters_of(query: Mapping[str, str]) -> Filters:
    """Of the parameters of a query. Raises `InvalidValue` naming the first that is wrong."""
    values: dict[str, str] = {}
    for name, longest in LENGTHS_MAX.items():
        text = query.get(name, "").strip()
        if len(text) > longest or "\x00" in text:
            raise InvalidValue(f"{name} {text[:40]!r} is not valid: use at most {longest} characters")
        values[name] = text
    return Filters(**values, since=_time(query, "since"), until=_time(query, "until"))


def records_of(tenant: str) -> QuerySet[AuditRecord]:
    """Of the tenant in scope. By its uid alone, so that an index has them in order."""
    return AuditRecord.objects.filter(tenant_uid=Tenant.objects.values_list("uid", flat=True).get(name=tenant))


def read_page(rows: QuerySet[AuditRecord], filters: Filters, *, limit: int, after: str = "", of_tenant: bool = True) -> Page:
    """At most `limit` of `rows` that follow the record `after` (the `following` of the page before). `of_tenant`: the rows are
    those of one tenant. Raises `InvalidValue` for another `after`."""
    if after and not (after.isascii() and after.isdecimal() and len(after) < 19):
        raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
    rows = _within(rows, filters).order_by("-id")
    if after:
        rows = rows.filter(id__lt=int(after))
    narrow, others = _narrowed(rows, filters, of_tenant)
    if not others:
        return _page(list(narrow[: limit + 1]), limit)
    floor = narrow.values_list("id", "at")[SCAN_MAX - 1 : SCAN_MAX].first()
    if floor is None:
        return _page(list(narrow.filter(**others)[: limit + 1]), limit)
    page = _page(list(narrow.filter(**others, id__gte=floor[0])[: limit + 1]), limit)
    return page if page.following else Page(page.records, str(floor[0]), floor[1])


def read_all(rows: QuerySet[AuditRecord], filters: Filters, of_tenant: bool = True) -> Iterator[AuditRecord]:
    """The oldest first, with bounded memory and without a transaction. What is appended meanwhile may come too."""
    narrow, others = _narrowed(_within(rows, filters), filters, of_tenant)
    narrow, after = narrow.order_by("id"), 0
    while page := list(narrow.filter(id__gt=after)[:ROWS_AT_ONCE]):
        after = page[-1].id
        for record in page:
            if all(getattr(record, name) == value for name, value in others.items()):
                yield record


def export_pieces(lines: Iterator[bytes], head: bytes = b"") -> Iterator[bytes]:
    """Lines, some at a time."""
    piece = bytearray(head)
    for line in lines:
        piece += line
        if len(piece) >= 64 << 10:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def _page(found: list[AuditRecord], limit: int) -> Page:
    return Page(found[:limit], str(found[limit - 1].id) if len(found) > limit else None)


def _narrowed(rows: QuerySet[AuditRecord], filters: Filters, of_tenant: bool) -> tuple[QuerySet[AuditRecord], dict[str, str]]:
    """The rows that an index has for one of the filters, and the other filters."""
    given = filters.given
    name = next((name for name in _INDEXED if name in given and (of_tenant or name == "request_id")), None)
    if name is None:
        return rows, given
    return rows.filter(**{name: given.pop(name)}), given


def _within(rows: QuerySet[AuditRecord], filters: Filters) -> QuerySet[AuditRecord]:
    """Ids have the order of times, so a range of times is one of ids."""
    if filters.since is not None:
        rows = rows.filter(id__gte=_first_id_from(filters.since))
    if filters.until is not None:
        rows = rows.filter(id__lt=_first_id_from(filters.until))
    return rows


def _first_id_from(at: datetime) -> int:
    """Of the records that were written then or later; a place beyond the end if there are none."""
    first = AuditRecord.unscoped.filter(at__gte=at).order_by("at", "id").values_list("id", flat=True).first()
    return first if first is not None else (1 << 63) - 1


def _time(query: Mapping[str, Any], name: str) -> datetime | None:
    text = str(query.get(name, "")).strip()
    if not text:
        return None
    try:
        if len(text) == 10:
            day = date.fromisoformat(text)
            at = datetime(day.year, day.month, day.day, tzinfo=UTC)
        else:
            at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(f"{name} {text[:40]!r} is not a time: use a day or a time such as 2026-11-01T12:00:00Z") from None
    if not 1970 < at.year < 9000:
        raise InvalidValue(f"{name} {text[:40]!r} is not a time between 1971 and 8999")
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
