"""One way in: every page and WebSocket takes its action from the permission table, its resource from the address.

Signed out: to the sign-in page and back. A stranger to the tenant: 404, the same as for a tenant that does not exist. Somebody
who may see the tenant but not do this: 403. What has no row in the table is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import urlencode

from django.contrib.auth import HASH_SESSION_KEY
from django.contrib.sessions.backends.base import SessionBase
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.crypto import constant_time_compare

from messaging.permissions.model import NOTHING, Action, Resource
from messaging.permissions.table import CONSOLE
from messaging.protocol.names import PERSISTENT, TopicName
from tenants.access import Actor, actor_of_user, sees
from tenants.http.authentication import client_address_of
from tenants.http.errors import deny
from tenants.models import Membership, Namespace, Tenant, User
from tenants.scoping import platform_scope, tenant_scope

P = ParamSpec("P")
_DENIED = {
    True: "you may see this tenant, but not do that: an administrator of the tenant can do it, or give you the right",
    False: "this is for administrators of the platform",
}
SIGNED_OUT, NOT_VISIBLE = 4401, 4404  # close codes of WebSockets


class ConsoleRequest(HttpRequest):
    """What a page is handed: a request whose `actor` is known. `user` is a `User`, except on public pages."""

    actor: Actor
    user: User


View = Callable[Concatenate[Any, P], HttpResponse]
Guarded = Callable[Concatenate[HttpRequest, P], HttpResponse]


def page(view: View[P]) -> Guarded[P]:
    """Guards a view. Inside, queries on tenant data see the tenant of the address; without one in it, nothing."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        match = request.resolver_match
        name = match.view_name if match else ""
        method = "GET" if request.method == "HEAD" else request.method or ""
        action = CONSOLE.get((method, name))
        if action is None:
            methods = [verb for verb, route in CONSOLE if route == name]
            if methods:
                return HttpResponseNotAllowed(methods)
            raise PermissionDenied(f"the page {name} has no row in the permission table")
        if action is Action.PUBLIC:
            return view(request, *args, **kwargs)
        if not request.user.is_authenticated:
            return _to_sign_in(request)
        actor = actor_of_user(request.user, getattr(request, "request_id", ""), client_address_of(request))
        request.actor = actor  # type: ignore[attr-defined]
        resource = resource_of(kwargs)
        if not actor.may(action, resource):
            if resource.tenant and not sees(actor, resource):
                deny(request, f"lacks {action.value!r} on a tenant that is not theirs to see")
                raise Http404
            raise PermissionDenied(_DENIED[bool(resource.tenant)])
        if not resource.tenant:
            return view(request, *args, **kwargs)
        with tenant_scope(resource.tenant):
            if not exists(resource):
                raise Http404
            return view(request, *args, **kwargs)

    guarded.guarded = True  # type: ignore[attr-defined]  # for the test that no view goes without
    return cast("Guarded[P]", guarded)


def websocket_refusal(scope: dict[str, Any], name: str) -> int:
    """0 if the WebSocket of this scope may go on; else the code to close it with. Reads the person anew each time. Blocks."""
    claimed = scope.get("user")
    user = User.objects.filter(pk=claimed.pk, is_active=True).first() if claimed and claimed.is_authenticated else None
    session = scope.get("session")
    if user is None or (session is not None and not _still_signed_in(user, session)):
        return SIGNED_OUT
    action = CONSOLE.get(("WEBSOCKET", name))
    resource = resource_of(scope["url_route"]["kwargs"])
    if action is None or not actor_of_user(user).may(action, resource):
        return NOT_VISIBLE
    with tenant_scope(resource.tenant):
        return 0 if exists(resource) else NOT_VISIBLE


def _still_signed_in(user: User, session: SessionBase) -> bool:
    """As Django asks with every request: the session exists, and the password is the one that it began with."""
    if not session.exists(session.session_key or ""):
        return False
    return constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())


def resource_of(kwargs: dict[str, Any]) -> Resource:
    """What the parts of an address name."""
    tenant = kwargs.get("tenant", "")
    if not tenant:
        return NOTHING
    local = kwargs.get("namespace", "")
    topic = kwargs.get("topic", "")
    return Resource(
        tenant,
        f"{tenant}/{local}" if local else "",
        str(TopicName(PERSISTENT, tenant, local, topic)) if topic else "",
    )


def exists(resource: Resource) -> bool:
    """Whether tenant and namespace are there. Within the scope of the tenant."""
    if resource.namespace:
        return Namespace.objects.filter(name=resource.namespace).exists()
    return Tenant.objects.filter(name=resource.tenant).exists()


def visible_tenants(actor: Actor, user: User) -> list[str]:
    """Names of the tenants that somebody may see, in order. Two queries."""
    with platform_scope():
        tenants = Tenant.objects.values_list("name", "admin_roles")
        if actor.may(Action.SUPERUSER):
            return [name for name, _ in tenants]
        mine = set(Membership.objects.filter(user=user).values_list("tenant_id", flat=True))
        return [name for name, roles in tenants if name in mine or user.role in roles]


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    address = reverse("console:sign_in")
    if request.method == "GET" and not request.headers.get("HX-Request"):
        address += "?" + urlencode({"next": request.get_full_path()})
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)
