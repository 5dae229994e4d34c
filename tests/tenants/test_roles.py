"""Roles of members: every built-in one and one of the tenant's own, over the routes, and who may give them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import ResolverMatch, resolve

from controlplane.middleware import PermissionTable
from messaging.errors import Conflict, InvalidValue, NotAuthorized, NotFound
from messaging.permissions.model import Action, Resource
from messaging.permissions.roles import BUILT_IN, complete
from tenants import actions
from tenants.http.request_state import state_of
from tenants.models import AuditRecord, CustomRole, Membership, Tenant, User
from tests.support.rest_routes import addresses
from tests.tenants.world import Caller, World

PUBLISHER = "publisher"  # a role of acme's own
ROLES = (*BUILT_IN, PUBLISHER)
RIGHTS = {name: role.actions for name, role in BUILT_IN.items()} | {PUBLISHER: complete([Action.PRODUCE, Action.KEY_ADMIN])}
TOPIC = "persistent://acme/orders/t"


@pytest.fixture
def as_role(world: World, caller: Callable[[str], Caller]) -> Callable[..., Caller]:
    """HTTP as tom, who is a member with this role, and where it holds."""
    actions.set_custom_role(world.actor("olga"), "acme", PUBLISHER, ["produce", "key_admin"], "Publishes.")

    def give(role: str, namespace: str = "", topics: str = "") -> Caller:
        actions.set_member(world.actor("olga"), "acme", "tom", role, namespace, topics)
        return caller("tom")

    return give


def routes() -> list[tuple[str, str, ResolverMatch, Action]]:
    """Every route that is open to some and names what it acts on in its path."""
    listed: list[tuple[str, str, ResolverMatch, Action]] = []
    for method, path, action in addresses():
        match = resolve(path)
        if action not in ("authenticated", "service") and not getattr(match.func, "resources", None):
            listed.append((method, path, match, Action(action)))
    return listed


def test_every_route_answers_to_the_roles_that_have_its_action(world: World, as_role: Callable[..., Caller]) -> None:
    """Asked of the middleware that decides, which no view comes before: thousands of requests would take seconds."""
    table = PermissionTable(lambda request: HttpResponse())
    checked = 0
    for role in ROLES:
        as_role(role)
        actor = world.actor("tom")
        for method, path, match, action in routes():
            request = RequestFactory().generic(method, path)
            request.resolver_match = match
            state_of(request).actor = actor
            answer = table.process_view(request, match.func, match.args, match.kwargs)
            assert (answer is None) is (action in RIGHTS[role]), (role, method, path, action)
            assert answer is None or answer.status_code == 403
            checked += 1
    assert checked > len(ROLES) * 300


@pytest.mark.parametrize("role", ROLES)
def test_a_role_over_http(world: World, as_role: Callable[..., Caller], role: str) -> None:
    world.broker.add(TOPIC, "s")
    tom = as_role(role)
    acme, orders = "/api/v1/tenants/acme", "/api/v1/tenants/acme/namespaces/orders"
    for action, method, path, body in (
        (Action.TENANT_SEE, "GET", acme, None),
        (Action.TENANT_READ, "GET", f"{acme}/members", None),
        (Action.NAMESPACE_READ, "GET", orders, None),
        (Action.LOOKUP, "GET", f"{orders}/topics/t", None),
        (Action.AUDIT_READ, "GET", f"{acme}/audit", None),
        (Action.BILLING_READ, "GET", f"{acme}/budgets", None),
        (Action.KEY_ADMIN, "POST", f"{acme}/keys", {"name": "k"}),
        (Action.GRANT_ADMIN, "PUT", f"{orders}/permissions/k@acme", {"actions": ["produce"]}),
        (Action.TOPIC_ADMIN, "POST", f"{orders}/topics", {"name": "made"}),
        (Action.NAMESPACE_ADMIN, "PATCH", f"{orders}/policies", {"message_ttl_s": 60}),
        (Action.TENANT_ADMIN, "PUT", f"{acme}/labels", {"labels": {}}),
        (Action.SUPERUSER, "DELETE", acme, None),
    ):
        status = tom(method, path, body).status_code
        assert status == 403 if action not in RIGHTS[role] else status < 300, (action, status)


def test_a_role_in_a_namespace_ends_there(world: World, as_role: Callable[..., Caller]) -> None:
    actions.create_namespace(world.actor("olga"), "acme/secret")
    world.broker.add(TOPIC)
    tom = as_role("developer", "orders")
    assert [row["name"] for row in tom("GET", "/api/v1/tenants/acme/namespaces").json()["items"]] == ["acme/orders"]
    assert tom("GET", "/api/v1/tenants/acme/namespaces/orders/topics/t").status_code == 200
    assert tom("GET", "/api/v1/tenants/acme/namespaces/secret").status_code == 403
    assert tom("POST", "/api/v1/tenants/acme/namespaces/secret/topics", {"name": "mine"}).status_code == 403
    assert tom("POST", "/api/v1/tenants/acme/namespaces/orders/topics", {"name": "mine"}).status_code == 201
    for path in ("keys", "members", "roles", "costs", "audit"):  # of the whole tenant
        assert tom("GET", f"/api/v1/tenants/acme/{path}").status_code == 403, path


def test_a_role_for_topics_holds_for_those_that_match(world: World, as_role: Callable[..., Caller]) -> None:
    for topic in ("pay-in", "ship"):
        world.broker.add(f"persistent://acme/orders/{topic}")
    tom = as_role("metadata", "orders", "pay-*")
    topics = "/api/v1/tenants/acme/namespaces/orders/topics"
    assert tom("GET", f"{topics}/pay-in").status_code == 200
    assert tom("GET", f"{topics}/ship").status_code == 403
    assert tom("GET", topics).status_code == 403  # names of topics that are not theirs


def test_a_role_ends_with_its_namespace(world: World, as_role: Callable[..., Caller]) -> None:
    """A later namespace of the same name is another one."""
    actions.create_namespace(world.actor("olga"), "acme/short")
    tom = as_role("developer", "short")
    world.broker.have("acme/short", (), {})
    actions.delete_namespace(world.actor("olga"), "acme/short")
    actions.create_namespace(world.actor("olga"), "acme/short")
    assert tom("GET", "/api/v1/tenants/acme").status_code == 404


def test_nobody_gives_more_than_they_have(world: World) -> None:
    olga = world.actor("olga")
    User.objects.create(username="anna")
    actions.set_member(olga, "acme", "anna", "admin")
    actions.set_custom_role(olga, "acme", "all", ["tenant_admin", "produce"])
    anna = world.actor("anna")
    actions.set_member(anna, "acme", "tom", "developer")
    for refused in (
        lambda: actions.set_member(anna, "acme", "anna", "owner"),
        lambda: actions.set_member(anna, "acme", "olga", "viewer"),
        lambda: actions.remove_member(anna, "acme", "olga"),
    ):
        with pytest.raises(NotAuthorized, match="tenant_owner"):
            refused()
    actions.set_member(olga, "acme", "tom", "all")
    tom = world.actor("tom")
    with pytest.raises(NotAuthorized, match="billing_admin"):
        actions.set_member(tom, "acme", "sam", "billing")
    with pytest.raises(NotAuthorized, match="operate"):
        actions.set_custom_role(tom, "acme", "all", ["tenant_admin", "operate"])
    assert Membership.unscoped.get(tenant="acme", user__username="olga").role == "owner"


def test_roles_of_a_tenant_itself(world: World, caller: Callable[[str], Caller]) -> None:
    olga, tom, sam = caller("olga"), caller("tom"), caller("sam")
    path = "/api/v1/tenants/acme/roles/publisher"
    assert olga("PUT", path, {"actions": ["produce", "fly"]}).json()["code"] == "invalid_value"
    shown = olga("PUT", path, {"actions": ["produce"], "description": "Publishes."}).json()
    assert shown == {
        "name": "publisher",
        "built_in": False,
        "description": "Publishes.",
        "actions": ["lookup", "produce", "namespace_read", "tenant_see"],  # what comes with it is shown
    }
    assert [row["name"] for row in tom("GET", "/api/v1/tenants/acme/roles").json()["items"]] == sorted([*BUILT_IN, "publisher"])
    assert tom("GET", "/api/v1/tenants/acme/roles/viewer").json()["built_in"] is True
    assert sam("GET", path).status_code == sam("PUT", path, {"actions": ["produce"]}).status_code == 404
    assert sam("GET", "/api/v1/tenants/other/roles/publisher").status_code == 404  # it is acme's
    for name in ("owner", "member"):
        assert olga("PUT", f"/api/v1/tenants/acme/roles/{name}", {"actions": ["produce"]}).status_code == 400
    actions.set_member(world.actor("olga"), "acme", "tom", "publisher", "orders", "pay-*")
    assert olga("DELETE", path).status_code == 409
    actions.set_member(world.actor("olga"), "acme", "tom", "member")  # the former name of `metadata`
    assert Membership.unscoped.get(user__username="tom").role == "metadata"
    assert olga("DELETE", path).status_code == 204
    recorded = AuditRecord.unscoped.filter(action__startswith="role.").order_by("id")
    assert [(row.action, (row.after or {}).get("status")) for row in recorded] == [
        ("role.set", None),
        ("role.delete", "409"),  # understood, and refused: recorded with its status; what was 400 or 404 is not
        ("role.delete", None),
    ]


def test_a_change_of_a_role_counts_for_everybody_who_has_it(world: World) -> None:
    olga = world.actor("olga")
    actions.set_custom_role(olga, "acme", "publisher", ["produce"])
    actions.set_member(olga, "acme", "tom", "publisher")
    assert world.actor("tom").may(Action.PRODUCE, Resource("acme", "acme/orders", TOPIC))
    actions.set_custom_role(olga, "acme", "publisher", ["consume"])
    assert not world.actor("tom").may(Action.PRODUCE, Resource("acme", "acme/orders", TOPIC))
    CustomRole.unscoped.all().delete()  # what does not exist gives nothing
    assert not world.actor("tom").may(Action.TENANT_READ, Resource("acme"))


def test_members_are_given_what_exists(world: World) -> None:
    olga = world.actor("olga")
    for error, given in (
        (InvalidValue, ("boss",)),
        (InvalidValue, ("owner", "orders")),
        (InvalidValue, ("viewer", "", "a/b")),
        (InvalidValue, ("viewer", "", "*a" * 9)),
        (NotFound, ("viewer", "absent")),
    ):
        with pytest.raises(error):
            actions.set_member(olga, "acme", "tom", *given)
    with pytest.raises(Conflict):
        actions.set_member(olga, "acme", "olga", "admin")
    assert Tenant.unscoped.get(name="acme").memberships.count() == 2
