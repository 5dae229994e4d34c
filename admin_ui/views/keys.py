"""Keys of a tenant: list, create, revoke. A token appears in one response and is stored nowhere."""

from __future__ import annotations

from datetime import datetime

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.forms import ConfirmForm, KeyForm
from admin_ui.key_view import grants_by_role, key_view
from admin_ui.pages import crumbs, explain, navigation, show, show_message
from messaging.adminrpc.base import Request
from messaging.adminrpc.methods import FEED_VERSION
from messaging.errors import MagnetarError, NotReady
from messaging.permissions.model import Action
from tenants.access import Actor
from tenants.actions.grants import grant_permission
from tenants.actions.keys import NewKey, create_key, revoke_key
from tenants.actions.tenants import update_tenant
from tenants.models import Grant, Key, Namespace, Tenant


@page
def keys(request: ConsoleRequest, tenant: str) -> HttpResponse:
    grants = grants_by_role(Tenant.objects.get(name=tenant).admin_roles)
    rows = Key.objects.order_by("revoked_at", "-created_at")
    found = sorted((key_view(key, grants) for key in rows), key=lambda key: key.state == "revoked")
    return show(request, "pages/keys.html", navigation(request, "keys", tenant), crumbs=crumbs(tenant), keys=found)


@page
def key_create(request: ConsoleRequest, tenant: str) -> HttpResponse:
    nav = navigation(request, "keys", tenant)
    namespaces = [row.local for row in Namespace.objects.all()]
    form = KeyForm(request.POST or None, namespaces=namespaces, may_administer=nav.superuser)
    above = crumbs(tenant, "", ("Keys", reverse("console:keys", args=[tenant])))
    if request.method == "POST" and form.is_valid():
        try:
            grants = {f"{tenant}/{local}": actions for local, actions in form.grants().items()}
            new = new_key(request.actor, tenant, form.cleaned_data["name"], grants, form.expires_at())
            if form.cleaned_data.get("administer"):
                add_admin_role(request.actor, tenant, new.key.role)
        except MagnetarError as error:
            form.add_error(None, explain(error))
        else:
            view = key_view(new.key, grants_by_role(Tenant.objects.get(name=tenant).admin_roles))
            return show(request, "pages/key_created.html", nav, crumbs=above, key=view, token=new.token)
    return show(request, "pages/key_new.html", nav, crumbs=above, form=form, grants=form.rows())


def new_key(actor: Actor, tenant: str, name: str, grants: dict[str, list[str]], expires_at: datetime | None = None) -> NewKey:
    """Creates a key and adds `grants` (namespace -> actions) to those of its role.

    Checks first that the broker responds: if a key were saved but not confirmed, nobody would ever see its token.
    """
    _, away = broker.ask_or_why(lambda rpc: rpc.call(FEED_VERSION, Request()))
    if away:
        raise NotReady(f"the key was not created because the broker is unavailable ({away}): try again in a moment")
    new = create_key(actor, tenant, name, expires_at)
    for namespace, actions in grants.items():
        held = Grant.objects.filter(namespace=namespace, topic="", role=new.key.role).values_list("actions", flat=True).first()
        if not set(actions) <= set(held or ()):
            grant_permission(actor, namespace, new.key.role, sorted({*actions, *(held or ())}))
    return new


def add_admin_role(actor: Actor, tenant: str, role: str) -> None:
    roles = Tenant.objects.get(name=tenant).admin_roles
    if role not in roles and actor.may(Action.SUPERUSER):
        update_tenant(actor, tenant, [*roles, role])


@page
def key_revoke(request: ConsoleRequest, tenant: str, key_id: str) -> HttpResponse:
    key = Key.objects.filter(id=key_id).first()
    if key is None:
        raise Http404
    back = reverse("console:keys", args=[tenant])
    form = ConfirmForm(request.POST or None, expected=key.name)
    if request.method == "POST" and form.is_valid():
        try:
            revoke_key(request.actor, tenant, key.id)
        except MagnetarError as error:
            form.add_error(None, explain(error))
        else:
            show_message(request, f"Key {key.name} was revoked. Its token is no longer valid.")
            return HttpResponseRedirect(back)
    return show(
        request,
        "pages/confirm.html",
        navigation(request, "keys", tenant),
        crumbs=crumbs(tenant, "", ("Keys", back)),
        heading=f"Revoke key {key.name}",
        impact=[
            "Its token stops working immediately and its connections are closed. This cannot be undone.",
            "The grants of its role remain and apply to other keys with the same name.",
        ],
        name=key.name,
        form=form,
        submit="Revoke key",
        cancel_url=back,
    )
