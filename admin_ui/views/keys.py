"""Keys of a tenant: list, one of them, create, revoke, also by a token that leaked. A token appears in one response and is stored
nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import F
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import api_calls, broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.calls import Call, calls_of, followed, show_calls
from admin_ui.form_pages import confirm_page
from admin_ui.key_forms import KeyForm, LeakedTokenForm
from admin_ui.key_view import views_of
from admin_ui.pages import add_error, crumbs, navigation, show, show_message
from admin_ui.row_list import Column, list_rows, newest_first
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.adminrpc.base import Request
from messaging.adminrpc.methods import FEED_VERSION
from messaging.errors import AuthenticationFailed, MagnetarError, NotReady
from messaging.permissions.model import Action, Resource, key_role
from tenants.access import Actor
from tenants.actions.grants import grant_permission
from tenants.actions.keys import KeyUse, NewKey, create_key, revoke_key, revoke_token
from tenants.actions.lasting import end_of_right
from tenants.actions.quotas import key_life_max
from tenants.actions.tenants import update_tenant
from tenants.http.authentication import key_of_token
from tenants.models import Grant, Key, Namespace, Tenant
from tenants.models.access import REVOKED

KEY_COLUMNS = (
    # Those in use first: what was revoked is only of interest afterwards.
    Column("use", order=(REVOKED.asc(), "-created_at")),
    Column("name", gettext_lazy("Key"), ("name",)),
    Column("state", gettext_lazy("State")),
    Column("may", gettext_lazy("May")),
    Column("last_used", gettext_lazy("Last used"), newest_first("last_used_at"), down=True),
    Column("expires", gettext_lazy("Expires"), (F("expires_at").asc(nulls_last=True),)),
)
NAMESPACES_SHOWN = 100  # with boxes for produce and consume


def key_of(key_id: str) -> Key:
    """Of the tenant of the scope; 404 without it."""
    key = Key.objects.filter(id=key_id).first()
    if key is None:
        raise Http404
    return key


def above(tenant: str) -> list[tuple[str, str]]:
    return crumbs(tenant, "", (gettext("Keys"), reverse("console:keys", args=[tenant])))


@page
def keys(request: ConsoleRequest, tenant: str) -> HttpResponse:
    listed = list_rows(request.GET, Key.objects.all(), KEY_COLUMNS, searched=("name", "id"))
    return show(
        request,
        "pages/keys.html",
        navigation(request, "keys", tenant),
        crumbs=crumbs(tenant),
        keys=views_of(listed.rows, Tenant.objects.get().admin_roles),
        listed=listed,
        life_max=key_life_max(tenant),
    )


@page
def key_create(request: ConsoleRequest, tenant: str) -> HttpResponse:
    nav = navigation(request, "keys", tenant)
    namespaces = [row.local for row in Namespace.objects.order_by("name")[:NAMESPACES_SHOWN]]
    given = request.GET if followed(request) else request.POST or None
    most = key_life_max(tenant)
    form = KeyForm(given, namespaces=namespaces, may_administer=nav.superuser, life_days_max=most.value if most else 0)
    if followed(request):
        form.is_valid()
        return show_calls(request, _calls_of_form(tenant, form))
    if request.method == "POST" and form.is_valid():
        try:
            grants = {f"{tenant}/{local}": actions for local, actions in form.grants().items()}
            new = new_key(
                request.actor, tenant, form.cleaned_data["name"], grants, form.expires_at(), form.scope(), form.network_list()
            )
            if form.administers():
                add_admin_role(request.actor, tenant, new.key.role)
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            return show_once(request, tenant, new)
    return show(
        request,
        "pages/key_new.html",
        nav,
        crumbs=above(tenant),
        form=form,
        grants=form.grant_rows(),
        uses=list(form.use_rows()),
        namespaces_left_out=max(0, Namespace.objects.count() - len(namespaces)),
        calls=calls_of(request, [api_calls.create_key(tenant, "", None, [KeyUse(["produce"])])]),
    )


def _calls_of_form(tenant: str, form: KeyForm) -> list[Call]:
    name = str(form.cleaned_data.get("name") or "")
    role = key_role(name or api_calls.NOT_NAMED, tenant)
    calls = [api_calls.create_key(tenant, name, form.expires_at(), form.scope(), form.network_list())]
    for local, actions in form.grants().items():
        wanted, ends = _with_former(f"{tenant}/{local}", role, actions)
        calls.append(api_calls.grant(tenant, local, role, wanted, expires_at=ends))
    if form.administers():
        admins = [*Tenant.objects.get().admin_roles]
        calls.append(api_calls.set_admin_roles(tenant, [*admins, *([] if role in admins else [role])]))
    return calls


def show_once(request: HttpRequest, tenant: str, new: NewKey, former: Key | None = None) -> HttpResponse:
    """The page with its token. `former`: the key that it replaces."""
    (view,) = views_of([new.key], Tenant.objects.get().admin_roles)
    nav = navigation(request, "keys", tenant)  # type: ignore[arg-type]
    return show(request, "pages/key_created.html", nav, crumbs=above(tenant), key=view, token=new.token, former=former)


def new_key(
    actor: Actor,
    tenant: str,
    name: str,
    grants: dict[str, list[str]],
    expires_at: datetime | None = None,
    scope: Sequence[KeyUse] | None = None,
    networks: Sequence[str] = (),
) -> NewKey:
    """Creates a key and adds `grants` (namespace -> actions) to those of its role.

    Checks first that the broker responds: if a key were saved but not confirmed, nobody would ever see its token.
    """
    _, away = broker.ask_or_why(lambda rpc: rpc.call(FEED_VERSION, Request()))
    if away:
        raise NotReady(
            gettext("the key was not created because the broker is unavailable ({away}): try again in a moment").format(away=away)
        )
    new = create_key(actor, tenant, name, expires_at, scope, networks)
    for namespace, actions in grants.items():
        wanted, ends = _with_former(namespace, new.key.role, actions)
        former, _ = _granted(namespace, new.key.role)
        if wanted != sorted(former):
            if not former:
                ends = end_of_right(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
            grant_permission(actor, namespace, new.key.role, wanted, expires_at=ends)
    return new


def _granted(namespace: str, role: str) -> tuple[Sequence[str], datetime | None]:
    """And until when."""
    found = Grant.objects.filter(namespace=namespace, topic="", role=role).values_list("actions", "expires_at").first()
    return found or ((), None)


def _with_former(namespace: str, role: str, actions: Sequence[str]) -> tuple[list[str], datetime | None]:
    """What was granted before is not taken away, and lasts no longer: a role has one grant there, which has one end."""
    former, ends = _granted(namespace, role)
    return sorted({*actions, *former}), ends


def add_admin_role(actor: Actor, tenant: str, role: str) -> None:
    roles = Tenant.objects.get(name=tenant).admin_roles
    if role not in roles and actor.may(Action.SUPERUSER):
        update_tenant(actor, tenant, [*roles, role])


@page
def key_revoke(request: ConsoleRequest, tenant: str, key_id: str) -> HttpResponse:
    key = key_of(key_id)
    return confirm_page(
        request,
        navigation(request, "keys", tenant),
        lambda: revoke_key(request.actor, tenant, key.id),
        crumbs=above(tenant),
        heading=gettext("Revoke key {name}").format(name=key.name),
        impact=[
            gettext("Its token stops working immediately and its connections are closed. This cannot be undone."),
            gettext("The grants of its role remain and apply to other keys with the same name."),
        ],
        name=key.name,
        submit=gettext("Revoke key"),
        done=gettext("Key {name} was revoked. Its token is no longer valid.").format(name=key.name),
        back=reverse("console:keys", args=[tenant]),
        calls=[api_calls.revoke_key(tenant, key.id)],
    )


@page
def key_leaked(request: ConsoleRequest, tenant: str) -> HttpResponse:
    """Revokes the key of a token that somebody pasted. The token is not in the answer, whatever comes of it."""
    form = LeakedTokenForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            key = revoke_token(request.actor, tenant, key_of_token(form.cleaned_data["token"]))
        except AuthenticationFailed:
            form.add_error("token", gettext("This is no valid token of the platform, or it has expired. Paste the whole token."))
        except MagnetarError as error:
            add_error(request, form, error, "token")
        else:
            show_message(
                request,
                gettext("The token was of key {name} ({id}), which is revoked. Its connections are closed.").format(
                    name=key.name, id=key.id
                ),
            )
            return HttpResponseRedirect(reverse("console:key", args=[tenant, key.id]))
    form.data = {}  # so that the page does not repeat it
    return show(
        request,
        "pages/form.html",
        navigation(request, "keys", tenant),
        crumbs=above(tenant),
        heading=gettext("Revoke a leaked token"),
        intro=gettext(
            "Paste the token. Its key is revoked at once, and its connections are closed. The token itself is stored nowhere."
        ),
        form=form,
        submit=gettext("Revoke its key"),
        final=True,
        cancel_url=reverse("console:keys", args=[tenant]),
        calls=calls_of(request, [api_calls.revoke_token(tenant)]),
    )
