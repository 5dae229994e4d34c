"""The audit log of a tenant and of the platform, a page at a time; and the state of its chain."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.addresses import short_name
from admin_ui.audited import RECORDED
from admin_ui.pages import Navigation, crumbs, navigation, show, show_error, show_message
from admin_ui.row_list import cursor_links
from admin_ui.time_zones import in_utc
from admin_ui.translation.texts import gettext
from messaging.errors import InvalidValue, MagnetarError
from messaging.permissions.audited import DENIED
from tenants.access import Actor
from tenants.actions.audit import sign_audit_head
from tenants.actions.cursor_moves import MOVES, UNDO_H
from tenants.audit.diff import changes
from tenants.audit.reading import LENGTHS_MAX, Filters, Page, filters_of, read_page, records_of
from tenants.http.audit_export import export
from tenants.masked_records import RecordMasks
from tenants.models import AuditChain, AuditCheckpoint, AuditHead, AuditRecord
from tenants.scoping import platform_scope
from workers.audit_actions import last_verification, verify_audit_log
from workers.models import TaskRun

RECORDS_A_PAGE = 50
HEADS_SHOWN = 10
Outcome = TaskRun.Outcome
_ASKED = (*LENGTHS_MAX, "since", "until")


@page
def audit(request: ConsoleRequest, tenant: str) -> HttpResponse:
    nav, first = navigation(request, "audit", tenant), reverse("console:audit", args=[tenant])
    return _log(request, nav, records_of(tenant), of_tenant=True, crumbs=crumbs(tenant), first=first)


@page
def audit_export(request: ConsoleRequest, tenant: str) -> HttpResponse:
    return _export(request, records_of(tenant), f"audit-{tenant}", reverse("console:audit", args=[tenant]), tenant=tenant)


@page
def platform_audit(request: ConsoleRequest) -> HttpResponse:
    with platform_scope():
        rows = AuditRecord.objects.all()
    first = reverse("console:platform_audit")
    return _log(request, navigation(request, "platform_audit"), rows, of_tenant=False, crumbs=[], first=first)


@page
def platform_audit_export(request: ConsoleRequest) -> HttpResponse:
    with platform_scope():
        rows = AuditRecord.objects.all()
    return _export(request, rows, "audit", reverse("console:platform_audit"), tenant="")


@page
def audit_chain(request: ConsoleRequest) -> HttpResponse:
    """Whether the log is whole, as far as that is known; and its signed heads."""
    if request.method == "POST":
        return _asked_of_chain(request)
    last, newest = last_verification(Outcome.SUCCEEDED), last_verification()
    under_way = newest is not None and newest.outcome in (Outcome.QUEUED, Outcome.RUNNING, Outcome.RETRYING)
    return show(
        request,
        "pages/audit_chain.html",
        navigation(request, "platform_audit"),
        crumbs=[(gettext("Audit log"), reverse("console:platform_audit"))],
        end=AuditChain.objects.filter(id=1).first(),
        checkpoint=AuditCheckpoint.objects.first(),
        heads=list(AuditHead.objects.all()[:HEADS_SHOWN]),
        verified_at=last.started_at if last else None,
        report=last.summary if last else None,
        under_way=under_way,
        failed=newest is not None and newest.outcome in (Outcome.FAILED, Outcome.QUARANTINED),
    )


def _asked_of_chain(request: ConsoleRequest) -> HttpResponse:
    try:
        if request.POST.get("do") == "sign":
            head = sign_audit_head(request.actor)
            show_message(
                request,
                gettext("Record {sequence} was signed.").format(sequence=head.sequence) if head else gettext("The log is empty."),
            )
        else:
            verify_audit_log(request.actor)
            show_message(request, gettext("The verification begins as soon as a worker takes it."))
    except MagnetarError as error:
        show_error(request, error)
    return HttpResponseRedirect(reverse("console:audit_chain"))


def _log(request: ConsoleRequest, nav: Navigation, rows: QuerySet[AuditRecord], *, of_tenant: bool, **context: Any) -> HttpResponse:
    if in_utc_address := in_utc(request, ("since", "until")):
        return in_utc_address
    asked = {name: request.GET.get(name, "").strip() for name in _ASKED}
    found = Page([], None)
    try:
        filters = filters_of(asked)
        found = read_page(rows, filters, limit=RECORDS_A_PAGE, after=request.GET.get("after", ""), of_tenant=of_tenant)
    except InvalidValue as error:
        filters = Filters()
        show_error(request, error)
    given = {name: text for name, text in asked.items() if text}
    exported = reverse("console:audit_export", args=[nav.tenant]) if of_tenant else reverse("console:platform_audit_export")
    return show(
        request,
        "pages/audit.html",
        nav,
        records=audit_rows(request.actor, found.records),
        actions=RECORDED,
        links=cursor_links(request.GET, found.following or ""),
        looked_to=found.looked_to,
        asked=asked,
        further=any(given.get(name) for name in ("key_id", "address", "resource", "request_id", "since", "until")),
        exports=[(form, f"{exported}?{urlencode({**given, 'format': form})}") for form in ("csv", "jsonl")],
        **context,
    )


def _export(request: ConsoleRequest, rows: QuerySet[AuditRecord], name: str, back: str, *, tenant: str) -> HttpResponse:
    try:
        return cast(HttpResponse, export(request, rows, name, tenant=tenant))
    except InvalidValue as error:
        show_error(request, error)
        return HttpResponseRedirect(back)


def _undone_at(row: AuditRecord) -> str:
    """The address of the moves of a subscription, for one that can still be undone; else ""."""
    domain, _, rest = row.resource.partition("://")
    parts = rest.split("/", 3)
    if row.action not in MOVES or not row.before or row.at < datetime.now(UTC) - timedelta(hours=UNDO_H) or len(parts) != 4:
        return ""
    tenant, namespace, _, subscription = parts
    topic = short_name(f"{domain}://{'/'.join(parts[:3])}")
    return reverse("console:subscription", args=[tenant, namespace, topic, subscription]) + "#moves-title"


def audit_rows(actor: Actor, rows: Iterable[AuditRecord]) -> list[dict[str, Any]]:
    """As the actor may see them."""
    masks = RecordMasks(actor)
    return [audit_row(masks.shown(row).row) for row in rows]


def audit_row(row: AuditRecord) -> dict[str, Any]:
    """A record in readable form: with the name of a key, the role of a grant, and what a refused request asked for."""
    before, after = (value if isinstance(value, dict) else {} for value in (row.before, row.after))
    target = f"{after['name']} ({row.resource})" if row.action.startswith("key.") and "name" in after else row.resource
    if row.action.startswith("permission."):
        target = f"{target} to {after.get('role') or before.get('role', '')}"
    if row.action == DENIED:
        target = f"{target}: {after.get('asked', '')}"
    return {
        "id": row.id,
        "at": row.at,
        "actor": row.role,
        "address": row.address,
        "action": row.action,
        "target": target,
        "key_id": row.key_id,
        "request_id": row.request_id,
        "hash": row.hash,
        "undone_at": _undone_at(row),
        "changes": changes(row.before, row.after),
    }
