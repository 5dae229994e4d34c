"""Reading the audit log, newest first, a page at a time."""

from __future__ import annotations

from django.db.models import QuerySet

from messaging.errors import InvalidValue
from tenants.models import AuditRecord

ROLE_LENGTH_MAX, ACTION_LENGTH_MAX = 600, 64


def audit_page(
    rows: QuerySet[AuditRecord], *, limit: int, after: str = "", action: str = "", role: str = ""
) -> tuple[list[AuditRecord], str | None]:
    """At most `limit` records of `rows` that follow the record `after` (the `next` of the page before), with exactly this action
    and role if they are given; and the `next` of this page, None for the last. Within a tenant each filter has an index."""
    if after and not (after.isascii() and after.isdecimal() and len(after) < 19):
        raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
    for name, text, longest in (("action", action, ACTION_LENGTH_MAX), ("role", role, ROLE_LENGTH_MAX)):
        if len(text) > longest or "\x00" in text:
            raise InvalidValue(f"{name} {text[:40]!r} is not valid: use at most {longest} characters")
    if after:
        rows = rows.filter(id__lt=int(after))
    if action:
        rows = rows.filter(action=action)
    if role:
        rows = rows.filter(role=role)
    found = list(rows.order_by("-id")[: limit + 1])
    return found[:limit], str(found[limit - 1].id) if len(found) > limit else None
