"""One contract for both implementations of grants: broker and web decide alike, whatever is granted."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import msgspec
import pytest
from django.conf import settings as django_settings
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from messaging.broker.core.control.view import ControlView
from messaging.permissions.decision import allowed
from messaging.permissions.model import ANONYMOUS, Action, Principal, Resource
from messaging.policies.resolution import defaults
from tenants import feed
from tenants.access import actor_of_user
from tenants.actions import update_tenant
from tenants.grants import DatabaseGrants
from tenants.models import Grant, Namespace, SubscriptionGrant, Tenant, User
from tenants.visible import visible_tenants
from tests.support.examples import examples
from tests.tenants.world import World

TENANTS = ("public", "acme")
NAMESPACES = ("public/default", "public/other", "acme/orders")
TOPICS = ("t", "t-partition-0", "t-partition-1", "t-partition-x", "u")
SUBSCRIPTIONS = ("s", "kept")
ROLES = (ANONYMOUS, "app@acme", "app@public", "boss", "admin", "")
GRANTED = ("produce", "consume", "functions")
PRINCIPALS = (*(Principal(role) for role in ROLES), Principal("service:web", service=True), Principal("service:web"))


def full(namespace: str, topic: str) -> str:
    return f"persistent://{namespace}/{topic}"


RESOURCES = (
    Resource(),
    *(Resource(tenant) for tenant in (*TENANTS, "absent")),
    *(Resource(name.partition("/")[0], name) for name in (*NAMESPACES, "absent/absent")),
    *(Resource(name.partition("/")[0], name, full(name, topic)) for name in NAMESPACES for topic in TOPICS),
    *(
        Resource(name.partition("/")[0], name, full(name, topic), subscription)
        for name in NAMESPACES
        for topic in TOPICS
        for subscription in SUBSCRIPTIONS
    ),
)


class Granted(NamedTuple):
    namespaces: frozenset[str]
    admins: dict[str, list[str]]
    grants: dict[tuple[str, str, str], list[str]]  # (namespace, topic, role) -> actions
    restrictions: frozenset[tuple[str, str, str]]  # (namespace, subscription, role)
    anonymous_public: bool


roles = st.sampled_from([role for role in ROLES if role])
places = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(("", *TOPICS)), roles)
WORLDS = st.builds(
    Granted,
    namespaces=st.frozensets(st.sampled_from(NAMESPACES), min_size=1),
    admins=st.dictionaries(st.sampled_from(TENANTS), st.lists(roles, max_size=2)),
    grants=st.dictionaries(places, st.lists(st.sampled_from(GRANTED), max_size=2, unique=True), max_size=8),
    restrictions=st.frozensets(st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(SUBSCRIPTIONS), roles), max_size=3),
    anonymous_public=st.booleans(),
)


def store(world: Granted) -> None:
    for model in (Grant, SubscriptionGrant, Namespace, Tenant):
        model.unscoped.all().delete()
    for tenant in TENANTS:
        Tenant.unscoped.create(name=tenant, admin_roles=world.admins.get(tenant, []))
    for namespace in world.namespaces:
        Namespace.unscoped.create(name=namespace, tenant_id=namespace.partition("/")[0])
    for (namespace, topic, role), actions in world.grants.items():
        if namespace in world.namespaces:
            text = full(namespace, topic) if topic else ""
            Grant.unscoped.create(namespace_id=namespace, topic=text, role=role, actions=actions)
    for namespace, subscription, role in world.restrictions:
        if namespace in world.namespaces:
            SubscriptionGrant.unscoped.create(namespace_id=namespace, subscription=subscription, role=role)


def both(world: Granted, monkeypatch: pytest.MonkeyPatch) -> tuple[ControlView, DatabaseGrants]:
    """The broker's view, fed as a broker is, and the database, asked over loopback: the only way in for anonymous clients."""
    configured = msgspec.structs.replace(django_settings.MAGNETAR, anonymous_public=world.anonymous_public)
    monkeypatch.setattr(django_settings, "MAGNETAR", configured)
    view = ControlView(
        superuser_roles=configured.superuser_roles,
        policy_defaults=defaults(configured),
        anonymous_public=configured.anonymous_public,
    )
    everything = feed.since(0)
    view.apply(0, everything.to_version, everything.changes, full=True)
    return view, DatabaseGrants(anonymous_public=True)


@hypothesis_settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WORLDS)
def test_both_decide_alike(db: None, monkeypatch: pytest.MonkeyPatch, world: Granted) -> None:
    with monkeypatch.context() as patch:
        store(world)
        view, database = both(world, patch)
        for principal, action, resource in itertools.product(PRINCIPALS, Action, RESOURCES):
            decisions = [allowed(grants, principal, action, resource) for grants in (view, database)]
            assert decisions[0] == decisions[1], (principal.role, action, resource)


def decisions_of(monkeypatch: pytest.MonkeyPatch, world: Granted, role: str, action: Action, resource: Resource) -> list[bool]:
    store(world)
    return [allowed(grants, Principal(role), action, resource) for grants in both(world, monkeypatch)]


def world_of(**given: Any) -> Granted:
    return Granted(**{"namespaces": frozenset(NAMESPACES), "admins": {}, "grants": {}, "restrictions": frozenset()} | given)


def test_a_partition_adds_its_own_grants_to_those_it_inherits(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker took the partitioned topic's grants alone, the web both."""
    grants = {("acme/orders", "t", "app@acme"): ["produce"], ("acme/orders", "t-partition-0", "app@acme"): ["consume"]}
    world = world_of(grants=grants, anonymous_public=False)
    resource = Resource("acme", "acme/orders", full("acme/orders", "t-partition-0"))
    for action in (Action.PRODUCE, Action.CONSUME):
        assert decisions_of(monkeypatch, world, "app@acme", action, resource) == [True, True]
    other = resource._replace(topic=full("acme/orders", "t-partition-1"))
    assert decisions_of(monkeypatch, world, "app@acme", Action.CONSUME, other) == [False, False]


def test_a_grant_to_anonymous_adds_to_what_loopback_gives(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the broker the grant took the place of what loopback gives, on the web it added."""
    world = world_of(grants={("public/default", "", ANONYMOUS): ["consume"]}, anonymous_public=True)
    resource = Resource("public", "public/default", full("public/default", "t"))
    assert decisions_of(monkeypatch, world, ANONYMOUS, Action.PRODUCE, resource) == [True, True]


def test_a_public_namespace_that_was_deleted_is_open_to_nobody(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The web let anonymous callers into a namespace that did not exist, the broker did not."""
    world = world_of(namespaces=frozenset({"acme/orders"}), anonymous_public=True)
    resource = Resource("public", "public/default", full("public/default", "t"))
    assert decisions_of(monkeypatch, world, ANONYMOUS, Action.PRODUCE, resource) == [False, False]


@pytest.mark.parametrize("who", ["olga", "tom", "sam", "admin", "nina"])
def test_lists_of_tenants_hold_those_that_may_be_seen(world: World, who: str) -> None:
    """The lists of the API and of the console decide for many tenants at once what the permission decides for one."""
    user, _ = User.objects.get_or_create(username=who)  # nina is of no tenant, but named as an administrator of one
    update_tenant(world.admin, "other", admin_roles=["user:nina"])
    actor = actor_of_user(user)
    may = [tenant.name for tenant in Tenant.unscoped.all() if actor.may(Action.TENANT_READ, Resource(tenant.name))]
    assert list(visible_tenants(actor).order_by("name").values_list("name", flat=True)) == may
