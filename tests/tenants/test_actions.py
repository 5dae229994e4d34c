"""What can be done to the control plane: by whom, with which traces, and what the broker hears of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from messaging.errors import (
    Conflict,
    InvalidName,
    InvalidValue,
    MagnetarError,
    NotAuthorized,
    NotFound,
    NotReady,
    PreconditionFailed,
)
from messaging.protocol.names import parse_topic
from tenants import actions
from tenants.access import Actor, NotVisible
from tenants.models import AuditRecord, CustomRole, Grant, Key, Membership, Namespace, OutboxChange, Team, TeamMember, Tenant, User
from tests.support.recycled_namespaces import recycled_namespace, recycled_tenant
from tests.tenants.world import World

TOPIC = parse_topic("persistent://acme/orders/new")
OLD_PRODUCE = actions.TopicRoles(parse_topic("persistent://acme/orders/old"), "app@acme", ["produce"])
Act = Callable[[Actor], Any]

# Every action on tenant acme that its owner may do, its teammate may not, and a stranger must not even see.
OF_OWNERS: dict[str, Act] = {
    "create_namespace": lambda actor: actions.create_namespace(actor, "acme/more"),
    "set_policies": lambda actor: actions.set_policies(actor, "acme/orders", {"message_ttl_s": 60}),
    "set_property": lambda actor: actions.set_property(actor, "acme/orders", "a", "b"),
    "delete_namespace": lambda actor: actions.delete_namespace(actor, "acme/orders"),
    "grant_permission": lambda actor: actions.grant_permission(actor, "acme/orders", "app@acme", ["produce"]),
    "revoke_permission": lambda actor: actions.revoke_permission(actor, "acme/orders", "app@acme"),
    "grant_on_topics": lambda actor: actions.grant_on_topics(actor, "acme/orders", [OLD_PRODUCE]),
    "revoke_on_topics": lambda actor: actions.revoke_on_topics(actor, "acme/orders", [OLD_PRODUCE]),
    "restrict_subscription": lambda actor: actions.restrict_subscription(actor, "acme/orders", "s", ["app@acme"]),
    "unrestrict_subscription": lambda actor: actions.unrestrict_subscription(actor, "acme/orders", "s", "app@acme"),
    "create_key": lambda actor: actions.create_key(actor, "acme", "app"),
    "revoke_key": lambda actor: actions.revoke_key(actor, "acme", "k1"),
    "rotate_key": lambda actor: actions.rotate_key(actor, "acme", "k1", 60),
    "revoke_token": lambda actor: actions.revoke_token(actor, "acme", "k1"),
    "set_labels": lambda actor: actions.set_labels(actor, "acme", {"team": "payments"}),
    "set_language": lambda actor: actions.set_language(actor, "acme", "de"),
    "set_member": lambda actor: actions.set_member(actor, "acme", "sam", "metadata"),
    "set_custom_role": lambda actor: actions.set_custom_role(actor, "acme", "publisher", ["produce"]),
    "delete_custom_role": lambda actor: actions.delete_custom_role(actor, "acme", "old"),
    "set_team": lambda actor: actions.set_team(actor, "acme", "crew", [actions.RoleOfTeam("viewer")]),
    "add_team_member": lambda actor: actions.add_team_member(actor, "acme", "old", "tom"),
    "remove_team_member": lambda actor: actions.remove_team_member(actor, "acme", "old", "olga"),
    "delete_team": lambda actor: actions.delete_team(actor, "acme", "old"),
    "remove_member": lambda actor: actions.remove_member(actor, "acme", "tom"),
    "create_topic": lambda actor: actions.create_topic(actor, TOPIC),
    "set_topic_policies": lambda actor: actions.set_topic_policies(actor, parse_topic("acme/orders/old"), {"message_ttl_s": 60}),
    "remove_topic_policies": lambda actor: actions.remove_topic_policies(actor, parse_topic("acme/orders/old")),
    "unload_topic": lambda actor: actions.unload_topic(actor, parse_topic("acme/orders/old")),
    "terminate_topic": lambda actor: actions.terminate_topic(actor, parse_topic("acme/orders/old")),
    "grow_topic": lambda actor: actions.grow_topic(actor, parse_topic("acme/orders/parts"), 4),
    "truncate_topic": lambda actor: actions.truncate_topic(actor, parse_topic("acme/orders/old")),
    "trim_topic": lambda actor: actions.trim_topic(actor, parse_topic("acme/orders/old")),
    "compact_topic": lambda actor: actions.compact_topic(actor, parse_topic("acme/orders/old")),
    "delete_topic": lambda actor: actions.delete_topic(actor, parse_topic("acme/orders/old")),
    "restore_namespace": lambda actor: actions.restore_namespace(actor, "acme", "n1"),
    "purge_namespace": lambda actor: actions.purge_namespace(actor, "acme", "n1"),
    "restore_topic": lambda actor: actions.restore_topic(actor, "acme/orders", "x1"),
    "purge_topic": lambda actor: actions.purge_topic(actor, "acme/orders", "x1"),
}
IDEMPOTENT = ("revoke_permission", "unrestrict_subscription", "remove_topic_policies")
WITHOUT_ACTOR = {"topic_policies", "forget_topic_policies", "granting"}  # a look-up, what follows, a part
OF_SUPERUSERS: dict[str, Act] = {
    "create_tenant": lambda actor: actions.create_tenant(actor, "third"),
    "update_tenant": lambda actor: actions.update_tenant(actor, "acme", admin_roles=["boss"]),
    "set_tenant_policies": lambda actor: actions.set_tenant_policies(actor, "acme", {"max_topics_per_tenant": 5}),
    "restore_tenant": lambda actor: actions.restore_tenant(actor, "n2"),
    "purge_tenant": lambda actor: actions.purge_tenant(actor, "n2"),
    "delete_tenant": lambda actor: actions.delete_tenant(actor, "acme", force=True),
}


@pytest.fixture
def ready(world: World) -> World:
    """What the actions above presuppose."""
    CustomRole.unscoped.create(tenant_id="acme", name="old", actions=["produce"])
    team = Team.unscoped.create(tenant_id="acme", name="old")
    TeamMember.unscoped.create(team=team, user=User.objects.get(username="olga"))
    Key.unscoped.create(id="k1", name="app", role="app@acme", tenant_id="acme")
    world.broker.add("persistent://acme/orders/old")
    world.broker.add_partitioned("persistent://acme/orders/parts", 2)
    world.broker.add("persistent://acme/orders/gone")
    world.broker.recycle("persistent://acme/orders/gone", "x1")
    recycled_namespace(world.admin, "acme/gone", "n1")
    recycled_tenant(world.admin, "gone", "n2")
    return world


def test_every_action_is_in_these_tables() -> None:
    acting = {name for name in actions.__all__ if name.islower()}
    assert acting - WITHOUT_ACTOR == OF_OWNERS.keys() | OF_SUPERUSERS.keys()


def traces() -> tuple[int, int]:
    return AuditRecord.unscoped.count(), OutboxChange.objects.count()


@pytest.mark.parametrize("name", OF_OWNERS)
def test_owner_may_teammate_may_not_stranger_sees_nothing(ready: World, name: str) -> None:
    act, before = OF_OWNERS[name], traces()
    ready.line.calls.clear()
    with pytest.raises(NotVisible):
        act(ready.actor("sam"))
    with pytest.raises(NotAuthorized) as refused:
        act(ready.actor("tom"))
    assert not isinstance(refused.value, NotVisible)
    for role in ("anonymous", "app@acme", "olga", "user:nobody"):
        with pytest.raises(NotAuthorized):
            act(ready.actor_of_role(role))
    assert traces() == before
    assert not ready.line.calls
    if name == "delete_namespace":
        ready.broker.have("acme/orders", (), {})
    act(ready.actor("olga"))
    assert traces() != before or name in IDEMPOTENT


@pytest.mark.parametrize("name", OF_SUPERUSERS)
def test_only_a_superuser_may(ready: World, name: str) -> None:
    act, before = OF_SUPERUSERS[name], traces()
    for username in ("olga", "tom", "sam"):
        with pytest.raises(NotAuthorized):
            act(ready.actor(username))
    assert traces() == before
    act(ready.actor("admin"))
    assert traces() != before


@pytest.mark.parametrize("name", ["create_namespace", "create_key"])
def test_a_role_named_in_admin_roles_administers(ready: World, name: str) -> None:
    actions.update_tenant(ready.admin, "acme", admin_roles=["boss"])
    OF_OWNERS[name](ready.actor_of_role("boss"))
    with pytest.raises(NotVisible):
        actions.create_namespace(ready.actor_of_role("boss"), "other/mine")


def test_a_deactivated_owner_and_superuser_may_nothing(ready: World) -> None:
    for username in ("olga", "admin"):
        user = ready.actor(username)  # acted on before it is read
        User.objects.filter(username=username).update(is_active=False)
        with pytest.raises(NotAuthorized):
            actions.create_namespace(user, "acme/more")


# --- traces ------------------------------------------------------------------------------------------------------------------


def test_a_change_is_saved_recorded_and_held_by_the_broker(world: World) -> None:
    actions.set_policies(world.actor("olga"), "acme/orders", {"message_ttl_s": 60})
    assert Namespace.unscoped.get(name="acme/orders").policies == {"message_ttl_s": 60}
    record = AuditRecord.unscoped.latest("id")
    assert (record.role, record.action, record.tenant, record.resource) == (
        "user:olga",
        "namespace.set_policies",
        "acme",
        "acme/orders",
    )
    assert (record.before, record.after, record.request_id) == ({"policies": {}}, {"policies": {"message_ttl_s": 60}}, "request-1")
    assert world.broker.state[("namespace", "acme/orders")]["policies"] == {"message_ttl_s": 60}
    assert world.broker.version == OutboxChange.objects.latest("version").version


def test_an_audit_record_holds_no_token(world: World) -> None:
    created = actions.create_key(world.actor("olga"), "acme", "app")
    everything = list(AuditRecord.unscoped.values()) + list(OutboxChange.objects.values()) + list(Key.unscoped.values())
    assert created.token not in repr(everything)


def test_a_refused_change_leaves_nothing_behind(world: World) -> None:
    before = traces(), world.broker.version
    for act in (
        lambda: actions.create_namespace(world.actor("olga"), "acme/orders"),
        lambda: actions.create_namespace(world.actor("olga"), "acme/new", {"message_ttl_s": -1}),
        lambda: actions.create_namespace(world.actor("olga"), "acme/new", {"unknown": 1}),
        lambda: actions.set_policies(world.actor("olga"), "acme/orders", {"retention_time_min": 0, "retention_size_mb": 5}),
        lambda: actions.set_policies(world.actor("olga"), "acme/absent", {"message_ttl_s": 1}),
        lambda: actions.create_tenant(world.admin, "acme"),
        lambda: actions.create_tenant(world.admin, "bad/name"),
        lambda: actions.create_tenant(world.admin, "fourth", allowed_clusters=["elsewhere"]),
        lambda: actions.create_tenant(world.admin, "fourth", allowed_clusters=[]),
        lambda: actions.create_tenant(world.admin, "fourth", admin_roles=["a\nb"]),
        lambda: actions.delete_tenant(world.admin, "acme"),
        lambda: actions.delete_tenant(world.admin, "absent"),
        lambda: actions.grant_permission(world.actor("olga"), "acme/orders", "app", ["fly"]),
        lambda: actions.grant_permission(world.actor("olga"), "acme/orders", "app", []),
        lambda: actions.grant_permission(world.actor("olga"), "acme/orders", "", ["produce"]),
        lambda: actions.grant_permission(world.actor("olga"), "acme/orders", "a", ["produce"], "other/things/t"),
        lambda: actions.revoke_permission(world.actor("olga"), "acme/orders", "app", "other/things/t"),
        lambda: actions.revoke_key(world.actor("olga"), "acme", "absent"),
        lambda: actions.set_member(world.actor("olga"), "acme", "nobody", "metadata"),
        lambda: actions.set_member(world.actor("olga"), "acme", "tom", "king"),
        lambda: actions.create_topic(world.actor("olga"), parse_topic("acme/absent/t")),
    ):
        with pytest.raises((Conflict, InvalidName, InvalidValue, NotFound, PreconditionFailed)):
            act()
    assert (traces(), world.broker.version) == before


def test_a_change_without_the_broker_is_saved_and_says_so(world: World) -> None:
    world.line.cut()
    with pytest.raises(NotReady, match="was saved"):
        actions.set_policies(world.actor("olga"), "acme/orders", {"message_ttl_s": 7})
    assert Namespace.unscoped.get(name="acme/orders").policies == {"message_ttl_s": 7}
    world.line.mend()
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["produce"])
    # the next push brings what was missed
    assert world.broker.state[("namespace", "acme/orders")]["policies"] == {"message_ttl_s": 7}
    assert world.broker.state[("namespace", "acme/orders")]["grants"] == {"app@acme": ["produce"]}


def test_a_broker_that_never_confirms_is_an_error(world: World) -> None:
    world.ignore_feed()
    with pytest.raises(NotReady, match="was saved"):
        actions.set_policies(world.actor("olga"), "acme/orders", {"message_ttl_s": 7})


# --- keys --------------------------------------------------------------------------------------------------------------------


def test_a_key_has_the_role_of_its_name_and_tenant(world: World) -> None:
    expires_at = timezone.now() + timedelta(hours=1)
    first = actions.create_key(world.actor("olga"), "acme", "app", expires_at)
    second = actions.create_key(world.actor("olga"), "acme", "app")
    assert first.key.role == second.key.role == "app@acme"
    assert first.token != second.token
    state = world.broker.state[("key", first.key.id)]
    expires_ms = int(expires_at.timestamp() * 1000)
    tenant_uid = Tenant.unscoped.get(name="acme").uid
    assert state == {"role": "app@acme", "tenant": "acme", "tenant_uid": tenant_uid, "revoked": False, "expires_ms": expires_ms}
    actions.revoke_key(world.actor("olga"), "acme", first.key.id)
    assert world.broker.state[("key", first.key.id)]["revoked"]
    assert not world.broker.state[("key", second.key.id)]["revoked"]
    revoked_at = Key.unscoped.get(id=first.key.id).revoked_at
    actions.revoke_key(world.actor("olga"), "acme", first.key.id)
    assert Key.unscoped.get(id=first.key.id).revoked_at == revoked_at


@pytest.mark.parametrize("name", ["a@other", "user:olga", "service:web", "", "a b", "x" * 300])
def test_key_names_that_would_be_somebody_else(world: World, name: str) -> None:
    with pytest.raises(InvalidName):
        actions.create_key(world.actor("olga"), "acme", name)


def test_a_key_that_has_expired_is_not_made(world: World) -> None:
    with pytest.raises(InvalidValue):
        actions.create_key(world.actor("olga"), "acme", "app", timezone.now())


def test_nobody_revokes_a_key_of_another_tenant(world: World) -> None:
    theirs = actions.create_key(world.actor("sam"), "other", "app").key
    with pytest.raises(NotFound):
        actions.revoke_key(world.actor("olga"), "acme", theirs.id)
    with pytest.raises(NotAuthorized):
        actions.revoke_key(world.actor("olga"), "", "superuser-1")
    actions.revoke_key(world.admin, "", "superuser-1")
    assert world.broker.state[("key", "superuser-1")]["revoked"]


# --- deletion ----------------------------------------------------------------------------------------------------------------


def test_a_namespace_with_topics_goes_only_by_force(world: World) -> None:
    world.broker.add("persistent://acme/orders/a", "sub")
    world.broker.add_partitioned("persistent://acme/orders/p", 2, "sub")
    with pytest.raises(Conflict):
        actions.delete_namespace(world.actor("olga"), "acme/orders")
    assert len(world.broker.topics) == 3
    actions.delete_namespace(world.actor("olga"), "acme/orders", force=True)
    assert not world.broker.topics
    assert not world.broker.partitions("persistent://acme/orders/p")
    assert ("namespace", "acme/orders") not in world.broker.state


def test_a_tenant_goes_with_its_keys_and_people(world: World) -> None:
    key = actions.create_key(world.actor("olga"), "acme", "app").key
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["produce"])
    actions.delete_tenant(world.admin, "acme", force=True)
    assert not Tenant.unscoped.filter(name="acme").exists()
    assert not Key.unscoped.filter(id=key.id).exists()
    assert not Grant.unscoped.exists()
    assert not Membership.unscoped.filter(tenant="acme").exists()
    gone = {("tenant", "acme"), ("namespace", "acme/orders"), ("key", key.id)}
    assert gone.isdisjoint(world.broker.state)
    assert ("tenant", "other") in world.broker.state


def test_the_last_owner_stays(world: World) -> None:
    for act in (
        lambda: actions.remove_member(world.actor("olga"), "acme", "olga"),
        lambda: actions.set_member(world.actor("olga"), "acme", "olga", "metadata"),
    ):
        with pytest.raises(Conflict):
            act()
    actions.set_member(world.actor("olga"), "acme", "tom", "owner")
    actions.remove_member(world.actor("tom"), "acme", "olga")
    with pytest.raises(MagnetarError):
        actions.create_namespace(world.actor("olga"), "acme/more")


def test_a_keys_token_is_not_lost_to_a_broker_that_is_away(world: World) -> None:
    """It exists only in this answer; the broker asks for the key when somebody first comes with it."""
    world.line.cut()
    new = actions.create_key(world.actor("olga"), "acme", "late")
    assert new.token
    assert Key.unscoped.filter(id=new.key.id, revoked_at=None).exists()
    with pytest.raises(NotReady):
        actions.revoke_key(world.actor("olga"), "acme", new.key.id)
