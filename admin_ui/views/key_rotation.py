"""One key, and how it is replaced: a new one beside it, its token given to the programs, and the end of the former."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone

from admin_ui import api_calls
from admin_ui.access import ConsoleRequest, page
from admin_ui.calls import calls_of, followed, show_calls
from admin_ui.key_forms import RotationForm
from admin_ui.key_view import KeyView, views_of
from admin_ui.pages import add_error, navigation, show
from admin_ui.translation.texts import gettext
from admin_ui.views.keys import above, key_of, show_once
from messaging.errors import MagnetarError
from tenants.actions.keys import rotate_key
from tenants.models import Key, Tenant

QUIET = timedelta(minutes=10)


@page
def key(request: ConsoleRequest, tenant: str, key_id: str) -> HttpResponse:
    row = key_of(key_id)
    view, successor, former = _views(row)
    return show(
        request,
        "pages/key.html",
        navigation(request, "keys", tenant),
        crumbs=above(tenant),
        key=view,
        successor=successor,
        former=former,
        moved=successor is not None and _moved(view, successor),
        quiet_min=QUIET.seconds // 60,
        revoke_calls=calls_of(request, [api_calls.revoke_key(tenant, row.id)]),
    )


def _moved(former: KeyView, successor: KeyView) -> bool:
    """Whether programs use the new key, and the former one has been quiet. Uses are known to the minute, and a minute later."""
    if successor.last_used_at is None:
        return False
    return former.last_used_at is None or timezone.now() - former.last_used_at > QUIET


def _views(row: Key) -> tuple[KeyView, KeyView | None, KeyView | None]:
    """The key, the one that replaces it, and the one that it replaces."""
    successor = row.replaced_by.filter(revoked_at=None).first()
    rows = [row, *filter(None, (successor, row.replaces))]
    views = {view.id: view for view in views_of(rows, Tenant.objects.get().admin_roles)}
    return views[row.id], views.get(successor.id) if successor else None, views.get(row.replaces_id or "")


@page
def key_rotate(request: ConsoleRequest, tenant: str, key_id: str) -> HttpResponse:
    row = key_of(key_id)
    form = RotationForm(request.GET if followed(request) else request.POST or None)
    if followed(request):
        overlap_s = form.cleaned_data["overlap_s"] if form.is_valid() else 86_400
        return show_calls(request, [api_calls.rotate_key(tenant, row.id, overlap_s)])
    if request.method == "POST" and form.is_valid():
        try:
            new = rotate_key(request.actor, tenant, row.id, form.cleaned_data["overlap_s"])
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            row.refresh_from_db()
            return show_once(request, tenant, new, former=row)
    return show(
        request,
        "pages/form.html",
        navigation(request, "keys", tenant),
        crumbs=[*above(tenant), (row.name, reverse("console:key", args=[tenant, row.id]))],
        heading=gettext("Rotate key {name}").format(name=row.name),
        intro=gettext(
            "A new key is made that can do the same. Give its token to every program that uses this one. The page of this key "
            "then shows when it is no longer used."
        ),
        form=form,
        submit=gettext("Make the new key"),
        cancel_url=reverse("console:key", args=[tenant, row.id]),
        calls=calls_of(request, [api_calls.rotate_key(tenant, row.id, 86_400)]),
        follow=True,
    )
