"""The audit log of a tenant, a page at a time."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import crumbs, explain, navigation, show, show_error
from admin_ui.permissions import RECORDED
from messaging.errors import InvalidValue
from messaging.permissions.audited import DENIED
from tenants.audit_log import audit_page
from tenants.models import AuditRecord

RECORDS_A_PAGE = 50


@page
def audit(request: ConsoleRequest, tenant: str) -> HttpResponse:
    asked = {name: request.GET.get(name, "").strip() for name in ("action", "role")}
    found: list[AuditRecord] = []
    following: str | None = None
    try:
        found, following = audit_page(AuditRecord.objects.all(), limit=RECORDS_A_PAGE, after=request.GET.get("after", ""), **asked)
    except InvalidValue as error:
        show_error(request, explain(error))
    older = f"?{urlencode({**asked, 'after': following})}" if following else ""
    return show(
        request,
        "pages/audit.html",
        navigation(request, "tenant", tenant),
        crumbs=crumbs(tenant),
        records=[audit_row(row) for row in found],
        actions=RECORDED,
        older=older,
        first=reverse("console:audit", args=[tenant]),
        action=asked["action"],
        role=asked["role"],
    )


def audit_row(row: AuditRecord) -> dict[str, Any]:
    """A record in readable form: with the name of a key, the role of a grant, and what a refused request asked for."""
    before, after = (value if isinstance(value, dict) else {} for value in (row.before, row.after))
    target = f"{after['name']} ({row.resource})" if row.action.startswith("key.") and "name" in after else row.resource
    if row.action.startswith("permission."):
        target = f"{target} to {after.get('role') or before.get('role', '')}"
    if row.action == DENIED:
        target = f"{target}: {after.get('asked', '')}"
    return {"at": row.at, "actor": row.role, "address": row.address, "action": row.action, "target": target}
