"""Who may do what: the one decision, against a plain statement of the rules."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.errors import NotAuthorized
from messaging.permissions.decision import allowed, decide, require
from messaging.permissions.model import (
    ANONYMOUS,
    Action,
    Binding,
    Principal,
    Resource,
    Scope,
    key_role,
    matches,
    user_role,
)
from messaging.permissions.roles import BUILT_IN, OF_TENANT, complete, key_binding

T = "persistent://acme/orders/t"
HERE = Resource("acme", "acme/orders", T, "s")
OPEN_TO_ALL = {Action.PUBLIC, Action.HANDSHAKE, Action.SESSION}
OF_A_TENANT = set(OF_TENANT)
EVERYWHERE = Scope()
READS = {Action.TENANT_SEE, Action.TENANT_READ, Action.NAMESPACE_READ, Action.LOOKUP, Action.USAGE_READ}
CONSUMES = {Action.CONSUME, Action.MESSAGE_READ, Action.CURSOR_ADMIN, Action.LOOKUP, Action.NAMESPACE_READ}


class Grants:
    def __init__(
        self,
        *,
        superusers: Collection[str] = (),
        admins: Collection[str] = (),
        namespace: Mapping[str, Collection[str]] | None = None,
        topic: Mapping[str, Collection[str]] | None = None,
        subscription: Collection[str] = (),
        prefix: bool = False,
    ) -> None:
        self.of_keys: dict[str, list[Binding]] = {}
        self.superusers, self.admins, self.namespace, self.topic, self.only, self.prefix = (
            superusers,
            admins,
            namespace or {},
            topic or {},
            subscription,
            prefix,
        )

    def is_superuser(self, role: str) -> bool:
        return role in self.superusers

    def tenant_admins(self, tenant: str) -> Collection[str]:
        return self.admins if tenant == "acme" else ()

    def bindings(self, tenant: str, role: str) -> Sequence[Binding]:
        return ()

    def key_bindings(self, key_id: str) -> Sequence[Binding] | None:
        return self.of_keys.get(key_id)

    def namespace_grants(self, namespace: str) -> Mapping[str, Collection[str]]:
        return self.namespace if namespace == "acme/orders" else {}

    def topic_grants(self, topic: str) -> Mapping[str, Collection[str]]:
        return self.topic if topic == T else {}

    def subscription_roles(self, namespace: str, subscription: str) -> Collection[str]:
        return self.only if (namespace, subscription) == ("acme/orders", "s") else ()

    def prefixes_subscriptions(self, namespace: str) -> bool:
        return self.prefix and namespace == "acme/orders"


class GrantsWithRole(Grants):
    """acme's user:mia has a role."""

    def __init__(self, name: str, scope: Scope = EVERYWHERE, actions: frozenset[Action] | None = None, **given: Any) -> None:
        super().__init__(**given)
        self.binding = Binding(name, BUILT_IN[name].actions if actions is None else actions, scope)

    def bindings(self, tenant: str, role: str) -> Sequence[Binding]:
        return (self.binding,) if (tenant, role) == ("acme", "user:mia") else ()


def may(grants: Grants, role: str, resource: Resource = HERE) -> set[Action]:
    return {action for action in Action if allowed(grants, Principal(role), action, resource)}


def test_without_a_grant_nothing_of_a_tenant() -> None:
    assert may(Grants(), "x@acme") == OPEN_TO_ALL | {Action.AUTHENTICATED}
    assert may(Grants(), ANONYMOUS) == OPEN_TO_ALL | {Action.AUTHENTICATED}


def test_a_superuser_may_everything_but_be_a_process_of_ours() -> None:
    assert may(Grants(superusers=["admin"]), "admin") == set(Action) - {Action.SERVICE}
    assert may(Grants(superusers=["admin"]), "admin", Resource()) == set(Action) - {Action.SERVICE}


def test_a_service_may_everything() -> None:
    assert all(allowed(Grants(), Principal("service:web", service=True), action, HERE) for action in Action)


def test_the_role_of_a_service_without_its_identity_is_nothing() -> None:
    assert not allowed(Grants(), Principal("service:web"), Action.SERVICE, HERE)
    assert not allowed(Grants(), Principal("service:web"), Action.PRODUCE, HERE)


def test_an_admin_of_the_tenant_may_all_of_it_and_nothing_else() -> None:
    grants = Grants(admins=["boss@acme"])
    assert may(grants, "boss@acme") == OPEN_TO_ALL | OF_A_TENANT | {Action.AUTHENTICATED}
    assert may(grants, "boss@acme", Resource("other", "other/ns", "persistent://other/ns/t")) == OPEN_TO_ALL | {
        Action.AUTHENTICATED
    }


@pytest.mark.parametrize("local", ["__change_events", "__change_events-partition-0"])
@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_no_role_of_a_tenant_publishes_change_events(local: str, domain: str) -> None:
    grants = Grants(admins=["boss@acme"], namespace={"x@acme": ["produce", "consume"]}, superusers=["admin"])
    events = HERE._replace(topic=f"{domain}://acme/orders/{local}")
    for role in ("boss@acme", "tenant:acme", "x@acme"):
        assert Action.CONSUME in may(grants, role, events) and Action.PRODUCE not in may(grants, role, events)
        assert Action.PRODUCE in may(grants, role, HERE._replace(topic=f"{domain}://acme/orders/a{local}"))
    with pytest.raises(NotAuthorized, match="the platform writes there"):
        require(grants, Principal("boss@acme"), Action.PRODUCE, events)
    assert Action.PRODUCE in may(grants, "admin", events)
    assert allowed(grants, Principal("service:broker", service=True), Action.PRODUCE, events)


@pytest.mark.parametrize(
    ("granted", "actions"),
    [
        ({"produce"}, {Action.PRODUCE, Action.LOOKUP, Action.NAMESPACE_READ}),
        ({"consume"}, CONSUMES),
        ({"produce", "consume"}, CONSUMES | {Action.PRODUCE}),
        ({"functions", "sources"}, set()),
        (set(), set()),
    ],
)
@pytest.mark.parametrize("level", ["namespace", "topic"])
def test_grants(granted: set[str], actions: set[Action], level: str) -> None:
    by_role = {"x@acme": granted}
    grants = Grants(namespace=by_role) if level == "namespace" else Grants(topic=by_role)
    assert may(grants, "x@acme") & OF_A_TENANT == actions
    assert may(grants, "y@acme") & OF_A_TENANT == set()
    elsewhere = Resource("acme", "acme/other", "persistent://acme/other/t")
    assert may(grants, "x@acme", elsewhere) & OF_A_TENANT == set()


def test_grants_of_both_levels_add_up() -> None:
    grants = Grants(namespace={"x@acme": ["produce"]}, topic={"x@acme": ["consume"]})
    assert {Action.PRODUCE, Action.CONSUME} <= may(grants, "x@acme")


def test_a_subscription_kept_for_roles() -> None:
    grants = Grants(namespace={"x@acme": ["consume"], "y@acme": ["consume"]}, subscription=["y@acme"])
    assert Action.CONSUME not in may(grants, "x@acme")
    assert Action.CONSUME in may(grants, "y@acme")
    assert Action.CONSUME in may(grants, "x@acme", HERE._replace(subscription="another"))
    # To be named there is no grant by itself.
    assert Action.CONSUME not in may(Grants(subscription=["z@acme"]), "z@acme")


def test_names_of_subscriptions_that_begin_with_the_role() -> None:
    grants = Grants(namespace={"x@acme": ["consume"]}, admins=["boss@acme"], prefix=True)
    for name, may_use in (("x@acme", True), ("x@acme-1", True), ("s", False), ("x@acm", False), ("a-x@acme", False)):
        assert (Action.CONSUME in may(grants, "x@acme", HERE._replace(subscription=name))) is may_use
    assert Action.CONSUME in may(grants, "x@acme", HERE._replace(subscription=""))
    assert Action.CONSUME in may(grants, "boss@acme")
    with pytest.raises(NotAuthorized, match="must begin with the role"):
        require(grants, Principal("x@acme"), Action.CONSUME, HERE)
    with pytest.raises(NotAuthorized, match="lacks 'consume'"):  # what a role may not see at all says nothing of its rules
        require(grants, Principal("z@acme"), Action.CONSUME, HERE)
    kept = Grants(namespace={"x@acme": ["consume"]}, subscription=["y@acme"], prefix=True)
    assert Action.CONSUME not in may(kept, "x@acme", HERE._replace(subscription="s"))


@pytest.mark.parametrize(
    ("role", "actions"),
    [
        ("owner", OF_A_TENANT),
        ("admin", OF_A_TENANT - {Action.TENANT_OWNER}),
        (
            "operator",
            READS | {Action.CURSOR_ADMIN, Action.TOPIC_ADMIN, Action.NAMESPACE_ADMIN, Action.OPERATE, Action.AUDIT_READ},
        ),
        ("developer", READS | CONSUMES | {Action.PRODUCE, Action.TOPIC_ADMIN}),
        ("viewer", READS | {Action.MESSAGE_READ}),
        ("metadata", READS),
        ("billing", {Action.TENANT_SEE, Action.USAGE_READ, Action.BILLING_READ, Action.BILLING_ADMIN}),
    ],
)
def test_built_in_roles(role: str, actions: set[Action]) -> None:
    grants = GrantsWithRole(role)
    assert may(grants, "user:mia") & OF_A_TENANT == actions
    assert may(grants, "user:mia", Resource("other", "other/ns")) & OF_A_TENANT == set()
    assert may(grants, "user:max") & OF_A_TENANT == set()
    assert {"owner", "admin", "operator", "developer", "viewer", "metadata", "billing"} == BUILT_IN.keys()


def test_a_role_holds_within_its_scope() -> None:
    actions = complete([Action.PRODUCE])
    seen = {Action.TENANT_SEE}  # that there is a tenant is known to whoever has a role in it
    here = GrantsWithRole("developer", Scope("acme/orders"), actions)
    assert may(here, "user:mia") & OF_A_TENANT == actions
    assert may(here, "user:mia", Resource("acme", "acme/other", "persistent://acme/other/t")) & OF_A_TENANT == seen
    assert may(here, "user:mia", Resource("acme")) & OF_A_TENANT == seen
    topics = GrantsWithRole("developer", Scope("acme/orders", "pay-*"), actions)
    for topic, within in (("pay-1", True), ("pay-1-partition-3", True), ("pray-1", False), ("t", False)):
        for domain in ("persistent", "non-persistent"):
            there = Resource("acme", "acme/orders", f"{domain}://acme/orders/{topic}")
            assert may(topics, "user:mia", there) & OF_A_TENANT == (actions if within else seen)
    assert may(topics, "user:mia", Resource("acme", "acme/orders")) & OF_A_TENANT == seen
    everywhere = GrantsWithRole("developer", Scope("", "pay-*"), actions)
    assert Action.PRODUCE in may(everywhere, "user:mia", Resource("acme", "acme/other", "persistent://acme/other/pay-2"))


def test_a_kept_subscription_binds_developers_and_not_operators() -> None:
    for role, may_use in (("developer", False), ("operator", True), ("owner", True)):
        grants = GrantsWithRole(role, subscription=["y@acme"])
        assert allowed(grants, Principal("user:mia"), Action.CURSOR_ADMIN, HERE) is may_use
        assert allowed(grants, Principal("user:mia"), Action.CURSOR_ADMIN, HERE._replace(subscription="other"))


def test_a_decision_says_every_reason_for_it() -> None:
    grants = GrantsWithRole("developer", Scope("acme/orders"), namespace={"user:mia": ["produce"]}, topic={"user:mia": ["produce"]})
    decision = decide(grants, Principal("user:mia"), Action.PRODUCE, HERE)
    assert [reason.rule for reason in decision.reasons] == ["role", "namespace_grant", "topic_grant"]
    assert decision.reasons[0].text == "user:mia has the role developer on namespace acme/orders, itself"
    assert decision.allowed and not decide(grants, Principal("user:max"), Action.PRODUCE, HERE).allowed


@given(st.sampled_from(list(Action)), st.sampled_from(["owner", "viewer", "developer"]), st.sampled_from(["user:mia", "x@acme"]))
def test_there_are_reasons_where_it_is_allowed_and_nowhere_else(action: Action, role: str, subject: str) -> None:
    grants = GrantsWithRole(role, superusers=["x@acme"])
    assert decide(grants, Principal(subject), action, HERE).allowed == allowed(grants, Principal(subject), action, HERE)


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_patterns_match_as_regular_expressions_do(pattern: str, name: str) -> None:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    assert matches(pattern, name) is bool(re.fullmatch(expression, name))


@given(st.sampled_from(list(Action)), st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_without_a_grant_every_action_is_refused(action: Action, role: str, tenant: str, local: str) -> None:
    resource = Resource(tenant, f"{tenant}/{local}", f"persistent://{tenant}/{local}/t")
    if action not in OPEN_TO_ALL and action is not Action.AUTHENTICATED:
        assert not allowed(Grants(), Principal(role), action, resource)


def test_a_refusal_names_role_action_and_place_only() -> None:
    with pytest.raises(NotAuthorized) as caught:
        require(Grants(), Principal("x@acme"), Action.PRODUCE, HERE)
    assert caught.value.message == (f"role 'x@acme' lacks 'produce' on {T}: ask an administrator of the tenant to grant it")
    require(Grants(namespace={"x@acme": ["produce"]}), Principal("x@acme"), Action.PRODUCE, HERE)


def test_roles_of_keys_carry_their_tenant_last() -> None:
    assert key_role("admin@other", "acme").rpartition("@")[2] == "acme"
    assert user_role("mia") == "user:mia"


def test_a_key_with_a_scope_does_that_and_nothing_else() -> None:
    grants = Grants(superusers=["boss@acme"], admins=["app@acme"], namespace={"app@acme": ["consume"]}, subscription=["y@acme"])
    grants.of_keys["k"] = [key_binding(["produce"], "acme/orders", "t*")]
    for role in ("app@acme", "boss@acme"):
        key = Principal(role, "k")
        assert {action for action in OF_TENANT if allowed(grants, key, action, HERE)} == complete([Action.PRODUCE])
        assert not allowed(grants, key, Action.SUPERUSER) and allowed(grants, key, Action.AUTHENTICATED)
        assert not allowed(grants, key, Action.PRODUCE, HERE._replace(topic="persistent://acme/orders/u"))
        events = HERE._replace(topic="persistent://acme/orders/__change_events")
        assert not allowed(grants, key, Action.PRODUCE, events)
    grants.of_keys["all"] = [key_binding(["produce", "consume"], "", "")]
    assert allowed(grants, Principal("app@acme", "all"), Action.CONSUME, HERE._replace(subscription="other"))
    assert not allowed(grants, Principal("app@acme", "all"), Action.CONSUME, HERE)  # it is kept for another role
    assert not allowed(grants, Principal("app@other", "all"), Action.PRODUCE, HERE)  # a scope is of the tenant of its key
    assert Action.CONSUME in {action for action in Action if allowed(grants, Principal("app@acme", "unscoped"), action, HERE)}
