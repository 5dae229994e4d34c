"""Access control of the console: each page and WebSocket takes its action from the permission table and its resource from the URL.

A user who is not signed in is sent to the sign-in page and back. A user who may not see the tenant gets 404, as for a tenant that
does not exist; one who may see the tenant but not perform the action gets 403. A page without a row in the table is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import parse_qs, urlencode, urlsplit

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import Resolver404, resolve, reverse

from admin_ui.addresses import full_name
from admin_ui.permissions import CONSOLE
from admin_ui.sign_in import activity
from admin_ui.time_zones import in_zone_of
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.caller import current_caller
from messaging.errors import InvalidName
from messaging.permissions.model import NOTHING, Action, Resource
from messaging.protocol.names import parse_topic
from tenants.access import Actor, actor_of_user, sees
from tenants.actions.lasting import end_of_right
from tenants.broker import ANSWER_S as READ_S
from tenants.http.authentication import client_address_of, user_of_session
from tenants.http.errors import deny, not_a_method
from tenants.http.request_state import state_of
from tenants.models import Namespace, Tenant, User
from tenants.scoping import tenant_scope

P = ParamSpec("P")
_DENIED = {
    True: gettext_lazy(
        "you may view this tenant but not do this: ask an administrator of the tenant to do it or to give you permission"
    ),
    False: gettext_lazy("only platform administrators may do this"),
}
SIGNED_OUT, NOT_VISIBLE = 4401, 4404  # close codes of WebSockets


class ConsoleRequest(HttpRequest):
    """The request that a page receives; its `actor` is known. `user` is a `User`, except on public pages."""

    actor: Actor
    user: User


View = Callable[Concatenate[Any, P], HttpResponse]
Guarded = Callable[Concatenate[HttpRequest, P], HttpResponse]


def page(view: View[P]) -> Guarded[P]:
    """Checks permissions before a view. Within the view, queries on tenant data see only the tenant of the URL, or nothing without
    one. What a view does not say of caches is kept by none: what was shown to one person is not for the next."""

    def checked(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        match = request.resolver_match
        name = match.view_name if match else ""
        method = "GET" if request.method == "HEAD" else request.method or ""
        action = CONSOLE.get((method, name))
        if action is None:
            methods = [verb for verb, route in CONSOLE if route == name]
            if methods:
                return not_a_method(request, methods)
            raise PermissionDenied(f"the page {name} has no row in the permission table")
        if action is Action.PUBLIC:
            return view(request, *args, **kwargs)
        if not request.user.is_authenticated:
            return _to_sign_in(request)
        activity.seen(request)
        if method == "GET":
            current_caller().patience_s = READ_S
        actor = actor_of_user(request.user, getattr(request, "request_id", ""), client_address_of(request))
        request.actor = state_of(request).actor = actor  # type: ignore[attr-defined]  # views know it as `ConsoleRequest.actor`
        resource = resource_of(kwargs)
        if actor.lacks_second_factor(resource.tenant) and sees(actor, resource):
            return _to_second_factor(request, resource.tenant)
        if not actor.may(action, resource):
            if resource.tenant and not sees(actor, resource):
                deny(request, f"lacks {action.value!r} on a tenant that is not theirs to see")
                raise Http404
            raise PermissionDenied(_DENIED[bool(resource.tenant)])
        with in_zone_of(request):
            if not resource.tenant:
                return view(request, *args, **kwargs)
            with tenant_scope(resource.tenant):
                if not exists(resource):
                    raise Http404
                return view(request, *args, **kwargs)

    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        response = checked(request, *args, **kwargs)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    guarded.guarded = True  # type: ignore[attr-defined]  # for the test that no view goes without
    return cast("Guarded[P]", guarded)


def websocket_refusal(scope: dict[str, Any], name: str) -> int:
    """0 if the WebSocket of this scope may continue, else the code to close it with. Reloads the user each time. Blocks."""
    claimed, session = scope.get("user"), scope.get("session")
    user = user_of_session(session, claimed.pk) if claimed and claimed.is_authenticated else None
    if user is None:
        return SIGNED_OUT
    action = CONSOLE.get(("WEBSOCKET", name))
    resource = _resource_of_websocket(scope)
    actor = actor_of_user(user)
    if action is None or actor.lacks_second_factor(resource.tenant) or not actor.may(action, resource):
        return NOT_VISIBLE
    with tenant_scope(resource.tenant):
        return 0 if exists(resource) else NOT_VISIBLE


def websocket_right_ends(scope: dict[str, Any], name: str) -> datetime | None:
    """When the right by which the WebSocket of this scope continues ends by itself; None: it does not. Blocks."""
    return end_of_right(actor_of_user(scope["user"]), CONSOLE["WEBSOCKET", name], _resource_of_websocket(scope))


def may_open(actor: Actor, address: str) -> bool:
    """Whether a link to this path of the console leads to a page that is not refused; True for what is no page of it."""
    try:
        match = resolve(urlsplit(address).path)
    except Resolver404:
        return True
    action = CONSOLE.get(("GET", match.view_name), Action.PUBLIC)
    return action is Action.PUBLIC or actor.may(action, resource_of(match.kwargs))


def _resource_of_websocket(scope: dict[str, Any]) -> Resource:
    """Of one that is about a single topic that topic, else the namespace."""
    resource = resource_of(scope["url_route"]["kwargs"])
    asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("topic", [""])[0]
    try:
        topic = parse_topic(asked)
    except InvalidName:
        return resource
    return resource._replace(topic=str(topic)) if str(topic.namespace) == resource.namespace else resource


def resource_of(kwargs: dict[str, Any]) -> Resource:
    """The resource that the parts of a URL name."""
    tenant = kwargs.get("tenant", "")
    if not tenant:
        return NOTHING
    local = kwargs.get("namespace", "")
    topic = kwargs.get("topic", "")
    return Resource(
        tenant,
        f"{tenant}/{local}" if local else "",
        str(full_name(tenant, local, topic)) if topic else "",
    )


def exists(resource: Resource) -> bool:
    """Whether the tenant and namespace exist. Call it within the scope of the tenant."""
    if resource.namespace:
        return Namespace.objects.filter(name=resource.namespace).exists()
    return Tenant.objects.filter(name=resource.tenant).exists()


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    address = reverse("console:sign_in")
    if request.method == "GET" and not request.headers.get("HX-Request"):
        address += "?" + urlencode({"next": request.get_full_path()})
    return _away(request, address)


def _to_second_factor(request: HttpRequest, tenant: str) -> HttpResponse:
    deny(request, gettext("{tenant} requires a second factor, and they have none").format(tenant=tenant))
    messages.error(
        request, gettext("{tenant} requires a second factor: set up a passkey or an app, then go on.").format(tenant=tenant)
    )
    return _away(request, reverse("mfa_index"))


def _away(request: HttpRequest, address: str) -> HttpResponse:
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)
