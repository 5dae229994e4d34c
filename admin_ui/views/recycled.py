"""Deleted namespaces and tenants that can be restored: the lists, restore, delete for good."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse
from django.urls import reverse

from admin_ui import api_calls
from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import button_page, confirm_page
from admin_ui.pages import crumbs, navigation, show
from admin_ui.row_list import cursor_links
from admin_ui.translation.texts import gettext, ngettext
from messaging.errors import NotFound
from tenants.actions.recycle_bin import ID_LENGTH_MAX
from tenants.actions.recycled_namespaces import purge_namespace, recycled_namespace, recycled_namespaces, restore_namespace
from tenants.actions.recycled_tenants import purge_tenant, recycled_tenant, recycled_tenants, restore_tenant
from tenants.models import Recycled

ENTRIES_A_PAGE = 100


def kept_for(hours: int) -> str:
    """Goes on a sentence that says what was deleted; "" where nothing is kept."""
    if not hours:
        return ""
    return ngettext(
        " It is in the recycle bin for {hours} hour, where it can be restored.",
        " It is in the recycle bin for {hours} hours, where it can be restored.",
        hours,
    ).format(hours=hours)


@page
def recycled_namespace_list(request: ConsoleRequest, tenant: str) -> HttpResponse:
    after = request.GET.get("after", "")[:ID_LENGTH_MAX]
    entries = recycled_namespaces(request.actor, tenant, after=after, limit=ENTRIES_A_PAGE + 1)
    return show(
        request,
        "pages/recycled.html",
        navigation(request, "tenant", tenant),
        crumbs=crumbs(tenant),
        heading=gettext("Deleted namespaces"),
        kind=gettext("Namespace"),
        contents=gettext("Topics"),
        entries=[
            _row(entry)
            | {
                "restore": reverse("console:recycled_namespace_restore", args=[tenant, entry.id]),
                "purge": reverse("console:recycled_namespace_purge", args=[tenant, entry.id]),
            }
            for entry in entries[:ENTRIES_A_PAGE]
        ],
        links=cursor_links(request.GET, entries[ENTRIES_A_PAGE - 1].id if len(entries) > ENTRIES_A_PAGE else ""),
        policies=reverse("console:tenant_policies", args=[tenant]),
        action=gettext("Policies"),
    )


@page
def recycled_tenant_list(request: ConsoleRequest) -> HttpResponse:
    after = request.GET.get("after", "")[:ID_LENGTH_MAX]
    entries = recycled_tenants(request.actor, after=after, limit=ENTRIES_A_PAGE + 1)
    return show(
        request,
        "pages/recycled.html",
        navigation(request, "tenants"),
        crumbs=crumbs(),
        heading=gettext("Deleted tenants"),
        kind=gettext("Tenant"),
        contents=gettext("Namespaces"),
        entries=[
            _row(entry)
            | {
                "restore": reverse("console:recycled_tenant_restore", args=[entry.id]),
                "purge": reverse("console:recycled_tenant_purge", args=[entry.id]),
            }
            for entry in entries[:ENTRIES_A_PAGE]
        ],
        links=cursor_links(request.GET, entries[ENTRIES_A_PAGE - 1].id if len(entries) > ENTRIES_A_PAGE else ""),
        policies=reverse("console:tenants"),
        action=gettext("Tenants"),
    )


def _row(entry: Recycled) -> dict[str, Any]:
    return {
        "name": entry.name,
        "contents": entry.counts.get("topics", entry.counts.get("namespaces", 0)),
        "deleted_at": entry.deleted_at,
        "expires_at": entry.expires_at,
        "deleted_by": entry.deleted_by,
    }


@page
def recycled_namespace_restore(request: ConsoleRequest, tenant: str, entry: str) -> HttpResponse:
    """A button of the list."""
    return button_page(
        request,
        lambda: restore_namespace(request.actor, tenant, entry),
        reverse("console:recycled_namespaces", args=[tenant]),
        lambda restored: (
            gettext("Namespace {name} was restored, with its policies, permissions, topics and messages.").format(
                name=restored.name
            ),
            reverse("console:namespace", args=restored.name.split("/")),
        ),
    )


@page
def recycled_namespace_purge(request: ConsoleRequest, tenant: str, entry: str) -> HttpResponse:
    try:
        name = recycled_namespace(request.actor, tenant, entry).name
    except NotFound:
        raise Http404 from None
    back = reverse("console:recycled_namespaces", args=[tenant])
    return confirm_page(
        request,
        navigation(request, "tenant", tenant),
        lambda: purge_namespace(request.actor, tenant, entry),
        crumbs=crumbs(tenant, "", (gettext("Deleted namespaces"), back)),
        heading=gettext("Delete {name} for good").format(name=name),
        impact=[gettext("All its topics, messages and subscriptions are deleted permanently. It cannot be restored after that.")],
        name=name,
        submit=gettext("Delete for good"),
        done=gettext("Namespace {name} was deleted for good.").format(name=name),
        back=back,
        calls=[api_calls.purge_recycled_namespace(tenant, entry)],
    )


@page
def recycled_tenant_restore(request: ConsoleRequest, entry: str) -> HttpResponse:
    """A button of the list."""
    return button_page(
        request,
        lambda: restore_tenant(request.actor, entry),
        reverse("console:recycled_tenants"),
        lambda restored: (
            gettext("Tenant {name} was restored, with its people, keys, namespaces, topics and messages.").format(
                name=restored.name
            ),
            reverse("console:tenant", args=[restored.name]),
        ),
    )


@page
def recycled_tenant_purge(request: ConsoleRequest, entry: str) -> HttpResponse:
    try:
        name = recycled_tenant(request.actor, entry).name
    except NotFound:
        raise Http404 from None
    back = reverse("console:recycled_tenants")
    return confirm_page(
        request,
        navigation(request, "tenants"),
        lambda: purge_tenant(request.actor, entry),
        crumbs=crumbs("", "", (gettext("Deleted tenants"), back)),
        heading=gettext("Delete {name} for good").format(name=name),
        impact=[
            gettext(
                "All its people, keys, namespaces, topics and messages are deleted permanently. It cannot be restored after that."
            )
        ],
        name=name,
        submit=gettext("Delete for good"),
        done=gettext("Tenant {name} was deleted for good.").format(name=name),
        back=back,
        calls=[api_calls.purge_recycled_tenant(entry)],
    )
