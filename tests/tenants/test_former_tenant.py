"""A tenant's name used again: nothing of the former tenant is the new one's. It inherited audit log, grants and usage."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from messaging.errors import NotAuthorized, NotReady
from messaging.permissions.model import Action, Resource
from tenants import actions
from tenants.access import require
from tenants.models import AuditRecord, Grant, Key, Membership, Namespace, SubscriptionGrant, Tenant, User
from tenants.scoping import tenant_scope
from tests.tenants.world import Caller, World
from workers.models import UsageHour, UsagePartition, UsageRun


@pytest.fixture
def again(world: World) -> World:
    """Tenant acme was used in every way, deleted, and made again for somebody else."""
    olga, sam = world.actor("olga"), world.actor("sam")
    world.former_token = actions.create_key(olga, "acme", "app").token  # type: ignore[attr-defined]
    actions.grant_permission(olga, "acme/orders", "app@acme", ["produce"])
    actions.grant_permission(sam, "other/things", "app@acme", ["consume"])
    actions.grant_permission(sam, "other/things", "app@acme", ["produce"], "persistent://other/things/t")
    actions.restrict_subscription(sam, "other/things", "shared", ["app@acme", "mine@other"])
    actions.restrict_subscription(sam, "other/things", "alone", ["app@acme"])
    actions.update_tenant(world.admin, "other", admin_roles=["app@acme", "boss@other", "app@ACME"])
    run = UsageRun.objects.create(run_id="r", requested_at=datetime(2026, 1, 1, tzinfo=UTC))
    counts = dict.fromkeys(
        ("messages_in", "bytes_in", "messages_out", "bytes_out", "stored_byte_seconds", "backlog_entry_seconds"), 1
    )
    uid = Tenant.unscoped.get(name="acme").uid
    topic = "persistent://acme/orders/t"
    UsageHour.unscoped.create(
        hour=run.requested_at, tenant="acme", tenant_uid=uid, namespace="acme/orders", topic=topic, run=run, **counts
    )
    UsagePartition.objects.create(hour=run.requested_at, run=run, checksum="", inputs="", rows=1, updated_at=run.requested_at)
    actions.delete_tenant(world.admin, "acme", force=True)
    actions.create_tenant(world.admin, "acme")
    User.objects.create(username="nina")
    actions.set_member(world.admin, "acme", "nina", "owner")
    actions.create_namespace(world.actor("nina"), "acme/orders")
    return world


def test_it_is_another_tenant(again: World) -> None:
    uid = Tenant.unscoped.get(name="acme").uid
    assert AuditRecord.unscoped.filter(tenant="acme").values_list("tenant_uid", flat=True).distinct().count() == 2
    assert again.broker.state[("tenant", "acme")]["uid"] == uid
    assert again.broker.state[("namespace", "acme/orders")]["tenant_uid"] == uid


def test_its_audit_log_begins_with_its_creation(again: World) -> None:
    with tenant_scope("acme"):
        seen = list(AuditRecord.objects.order_by("id").values_list("action", flat=True))
    assert seen == ["tenant.create", "member.set", "namespace.create"]
    items = Caller(user=User.objects.get(username="nina"))("GET", "/api/v1/tenants/acme/audit").json()["items"]
    assert [item["action"] for item in items] == seen[::-1]


def test_the_former_tenants_log_is_kept(again: World) -> None:
    former = AuditRecord.unscoped.get(action="tenant.delete")
    assert AuditRecord.unscoped.filter(tenant_uid=former.tenant_uid, action="key.create").exists()


def test_grants_to_the_former_tenants_roles_are_gone_everywhere(again: World) -> None:
    """A key of the same name in the new tenant has the same role: it must not open what somebody gave the former one."""
    assert not Grant.unscoped.filter(role="app@acme").exists()
    assert list(SubscriptionGrant.unscoped.filter(subscription="shared").values_list("role", flat=True)) == ["mine@other"]
    assert Tenant.unscoped.get(name="other").admin_roles == ["app@ACME", "boss@other"]
    state = again.broker.state[("namespace", "other/things")]
    assert state["grants"] == {} and state["topic_grants"] == {}
    role = again.actor_of_role("app@acme")
    for action in (Action.CONSUME, Action.PRODUCE, Action.TENANT_ADMIN):
        with pytest.raises(NotAuthorized):
            require(role, action, Resource("other", "other/things", "persistent://other/things/t"))


def test_people_and_foreign_roles_that_only_end_like_its_keys_lose_nothing(world: World) -> None:
    """People are often called by their address: deleting tenant acme took the admin role of user:bob@acme from all others."""
    people = ["external:bob@acme", "user:bob@acme"]
    actions.update_tenant(world.admin, "other", admin_roles=[*people, "app@acme"])
    for role in people:
        actions.grant_permission(world.actor("sam"), "other/things", role, ["consume"])
        actions.restrict_subscription(world.actor("sam"), "other/things", "kept", [role])
    actions.delete_tenant(world.admin, "acme", force=True)
    assert Tenant.unscoped.get(name="other").admin_roles == people
    assert set(Grant.unscoped.filter(namespace="other/things").values_list("role", flat=True)) == set(people)
    assert set(SubscriptionGrant.unscoped.filter(namespace="other/things").values_list("role", flat=True)) == set(people)


def test_a_subscription_kept_for_the_former_tenant_alone_is_not_open_to_all(again: World) -> None:
    assert again.broker.state[("namespace", "other/things")]["subscription_roles"]["alone"] == ["service:nobody"]
    resource = Resource("other", "other/things", "persistent://other/things/t", "alone")
    actions.grant_permission(again.actor("sam"), "other/things", "mine@other", ["consume"])
    with pytest.raises(NotAuthorized):
        require(again.actor_of_role("mine@other"), Action.CONSUME, resource)


def test_what_was_taken_from_others_is_in_their_logs(again: World) -> None:
    with tenant_scope("other"):
        taken = list(AuditRecord.objects.filter(role="user:admin").values_list("action", flat=True))
    assert {"permission.revoke", "subscription.unrestrict", "tenant.update"} <= set(taken)


def test_a_key_of_the_former_tenant_opens_nothing(again: World) -> None:
    call = Caller(again.former_token)  # type: ignore[attr-defined]
    new = actions.create_key(again.actor("nina"), "acme", "app")
    assert call("GET", "/api/v1/me").status_code == 401
    assert Key.unscoped.get(tenant="acme").id == new.key.id
    assert ("key", new.key.id) in again.broker.state
    assert len([1 for kind, _ in again.broker.state if kind == "key"]) == 2  # the superuser's and this


def test_key_ids_are_never_used_twice(again: World) -> None:
    ids = [change.key for change in _key_changes()]
    new = actions.create_key(again.actor("nina"), "acme", "app")
    assert new.key.id not in ids
    with pytest.raises(Exception, match="UNIQUE"):
        Key(id=new.key.id, tenant_id="other", name="app", role="app@other").save(force_insert=True)


def _key_changes() -> list[Any]:
    from tenants.models import OutboxChange

    return list(OutboxChange.objects.filter(kind="key"))


def test_people_of_the_former_tenant_see_nothing(again: World) -> None:
    assert list(Membership.unscoped.filter(tenant="acme").values_list("user__username", flat=True)) == ["nina"]
    for username in ("olga", "tom"):
        assert Caller(user=User.objects.get(username=username))("GET", "/api/v1/tenants/acme").status_code == 404


def test_usage_of_the_former_tenant_is_not_the_new_ones(again: World) -> None:
    with tenant_scope("acme"):
        assert not UsageHour.objects.exists()
    assert UsageHour.unscoped.filter(tenant="acme").count() == 1


def test_policies_of_the_former_tenants_namespace_are_gone(again: World) -> None:
    assert Namespace.unscoped.get(name="acme/orders").policies == {}


def test_a_topic_that_slipped_through_a_deletion_is_not_the_next_namespaces(world: World) -> None:
    """A client made it between the list of topics and the deletion."""
    olga = world.actor("olga")
    topic = "persistent://acme/orders/t"
    actions.delete_namespace(olga, "acme/orders")
    world.broker.add(topic, "s")  # after the broker was asked to delete what was left
    actions.create_namespace(olga, "acme/orders")
    assert not world.broker.topics


def test_a_namespace_is_not_made_while_nobody_can_say_that_it_is_empty(world: World) -> None:
    world.line.cut()
    with pytest.raises(NotReady, match="was not created"):
        actions.create_namespace(world.actor("olga"), "acme/fresh")
    assert not Namespace.unscoped.filter(name="acme/fresh").exists()


def test_a_broker_that_missed_the_deletion_hears_of_it_first(world: World) -> None:
    olga = world.actor("olga")
    world.ignore_feed()
    with pytest.raises(NotReady):
        actions.delete_namespace(olga, "acme/orders")
    world.broker.add("persistent://acme/orders/t")
    with pytest.raises(NotReady, match="was not created"):
        actions.create_namespace(olga, "acme/orders")
    world.line.mend()
    actions.create_namespace(olga, "acme/orders")
    assert not world.broker.topics


@pytest.mark.django_db(transaction=True)
def test_what_is_there_is_told_apart_when_tenants_get_their_identity() -> None:
    """The migration: records from before a living tenant was created are of a former one of its name."""
    executor = MigrationExecutor(connection)
    executor.migrate([("tenants", "0001_initial"), ("workers", "0001_initial")])
    old = executor.loader.project_state([("tenants", "0001_initial"), ("workers", "0001_initial")]).apps
    created = datetime(2026, 5, 5, 10, 30, tzinfo=UTC)
    old.get_model("tenants", "Tenant").unscoped.create(name="acme")
    old.get_model("tenants", "Tenant").unscoped.create(name="other")
    old.get_model("tenants", "Tenant").unscoped.update(created_at=created)
    old.get_model("tenants", "FeedHead").objects.create(id=1, version=7)
    records, usage = old.get_model("tenants", "AuditRecord"), old.get_model("workers", "UsageHour")
    run = old.get_model("workers", "UsageRun").objects.create(run_id="r", requested_at=created)
    pointers = old.get_model("workers", "UsagePartition").objects
    counts = dict.fromkeys(
        ("messages_in", "bytes_in", "messages_out", "bytes_out", "stored_byte_seconds", "backlog_entry_seconds"), 1
    )
    for hour in (9, 10, 11):
        record = records.unscoped.create(role="r", action=f"a{hour}", tenant="acme", resource="acme")
        records.unscoped.filter(id=record.id).update(at=created.replace(hour=hour, minute=45))
        usage.unscoped.create(
            hour=created.replace(hour=hour, minute=0), tenant="acme", namespace="acme/n", topic="t", run=run, **counts
        )
        pointers.create(hour=created.replace(hour=hour, minute=0), run=run, checksum="", inputs="", rows=1, updated_at=created)
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())
    try:
        uids = list(Tenant.unscoped.values_list("uid", flat=True))
        assert len(set(uids)) == 2 and all(uids)
        with tenant_scope("acme"):
            assert set(AuditRecord.objects.values_list("action", flat=True)) == {"a10", "a11"}
            assert [row.hour.hour for row in UsageHour.objects.all()] == [10, 11]
        from tenants import feed

        assert feed.since(7).full  # a broker that knows everything of before takes it all anew
    finally:
        for model in (UsageHour, UsagePartition, UsageRun, Tenant):
            getattr(model, "unscoped", model._default_manager).all().delete()
