"""Deleted tenants in the recycle bin: nothing of them works, superusers restore them whole or delete them for good."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from messaging.errors import Conflict, NotFound
from tenants import actions
from tenants.access import platform_actor
from tenants.actions.recycled_ends import purge_due
from tenants.models import AuditRecord, Grant, Recycled, RecycledRow, Tenant, TokenIssuer, User
from tests.support.recycled_namespaces import recycled_namespace
from tests.tenants.world import Caller, World

TOPIC = "persistent://acme/orders/t"
TENANT = "/api/v1/tenants/acme"
NAMESPACE = f"{TENANT}/namespaces/orders"
BIN = "/api/v1/recycled-tenants"
OF_THE_PLATFORM = {"AuditRecord", "OutboxChange", "FeedHead", "AuditChain", "Recycled", "RecycledRow", "IdempotencyKey"}


@pytest.fixture
def admin(world: World) -> Caller:
    """A tenant with people, a key, a team, an issuer, and a namespace with a message."""
    world.broker.add(TOPIC, "s")
    world.broker.publish(TOPIC, b"kept")
    caller = Caller(user=User.objects.get(username="admin"))
    assert caller("PATCH", f"{TENANT}/policies", {"recycle_bin_retention_hours": 24}).status_code == 200
    actions.set_team(world.actor("olga"), "acme", "crew", [])
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["produce"])
    actions.grant_permission(world.actor("sam"), "other/things", "app@acme", ["consume"])
    return caller


def rows() -> dict[str, list[dict[str, Any]]]:
    """All that belongs to tenants."""
    left = {}
    models: list[Any] = list(apps.get_app_config("tenants").get_models())
    for model in models:
        if model.__name__ not in OF_THE_PLATFORM:
            values = (model.unscoped if hasattr(model, "unscoped") else model.objects).order_by("pk").values()
            left[model.__name__] = [
                {name: value for name, value in row.items() if name not in ("restored_at", "state_bytes", "last_login")}
                for row in values
            ]
    return left


def told(world: World) -> dict[Any, Any]:
    return {entity: {k: v for k, v in state.items() if k != "restored_ms"} for entity, state in world.broker.state.items()}


def delete(caller: Caller) -> dict[str, Any]:
    assert caller("DELETE", f"{TENANT}?force=true").status_code == 204
    items: list[dict[str, Any]] = caller("GET", BIN).json()["items"]
    assert len(items) == 1
    return items[0]


@pytest.mark.parametrize("address", [TENANT, "/admin/v2/tenants/acme"])
def test_a_deleted_tenant_comes_back_whole(world: World, admin: Caller, address: str) -> None:
    app = Caller(actions.create_key(world.actor("olga"), "acme", "app").token)
    before, state = rows(), told(world)
    assert admin("DELETE", address).status_code == 409, "it has namespaces"
    assert admin("DELETE", f"{address}?force=true").status_code == 204
    (item,) = admin("GET", BIN).json()["items"]
    assert (item["name"], item["deleted_by"], item["contents"]) == ("acme", "user:admin", {"namespaces": 1, "keys": 1})
    record = AuditRecord.unscoped.filter(action="tenant.delete").first()
    assert record is not None and record.after is not None and record.after["recycle_id"] == item["recycle_id"]
    assert app("GET", "/api/v1/me").status_code == 401, "no key of it works"
    at = f"{BIN}/{item['recycle_id']}"
    assert admin("GET", at).json() == item
    dry = admin("POST", f"{at}/restore?dry_run=true").json()
    assert not Tenant.unscoped.filter(name="acme").exists()
    assert admin("POST", f"{at}/restore").json() == {**dry, "dry_run": False}
    assert rows() == before and told(world) == state and not RecycledRow.unscoped.exists()
    assert world.broker.backlog(TOPIC) == 1 and app("GET", "/api/v1/me").status_code == 200
    restored = AuditRecord.unscoped.get(action="tenant.restore")
    assert restored.tenant_uid == Tenant.unscoped.get(name="acme").uid
    assert admin("POST", f"{at}/restore").status_code == 404


def test_nothing_of_it_is_there_meanwhile(world: World, admin: Caller) -> None:
    uid = Tenant.unscoped.get(name="acme").uid
    at = f"{BIN}/{delete(admin)['recycle_id']}"
    olga = Caller(user=User.objects.get(username="olga"))
    for path in (TENANT, NAMESPACE, f"{NAMESPACE}/topics", f"{TENANT}/keys", f"{TENANT}/recycled-namespaces"):
        assert admin("GET", path).status_code == 404 and olga("GET", path).status_code == 404, path
    assert [each["name"] for each in olga("GET", "/api/v1/tenants").json()["items"]] == []
    for kind, key in world.broker.state:
        assert not key.startswith("acme") or (kind, key) == ("recycled", "acme/orders")
    assert world.broker.service.access.view.payer_uid("acme/orders") == uid
    with pytest.raises(NotFound):
        world.broker.connect_producer(TOPIC)
    for username in ("olga", "sam"):
        caller = Caller(user=User.objects.get(username=username))
        calls = (("GET", BIN), ("GET", at), ("POST", f"{at}/restore"), ("DELETE", at))
        assert [caller(*call).status_code for call in calls] == [403] * 4


def test_its_name_is_not_free_meanwhile(world: World, admin: Caller) -> None:
    at = f"{BIN}/{delete(admin)['recycle_id']}"
    for refused in (
        admin("POST", "/api/v1/tenants", {"name": "acme"}),
        admin("PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"]}),
    ):
        assert refused.status_code == 409 and b"recycle bin until" in refused.content
    with pytest.raises(NotFound):
        actions.create_namespace(world.admin, "acme/orders")
    assert world.broker.topics, "nothing was purged"
    assert admin("POST", f"{at}/restore").status_code == 200


def test_deleting_for_good(world: World, admin: Caller) -> None:
    recycled_namespace(world.admin, "acme/gone", "n1")
    at = f"{BIN}/{delete(admin)['recycle_id']}"
    assert Grant.unscoped.filter(role="app@acme", namespace="other/things").exists()
    assert admin("DELETE", f"{at}?dry_run=true").json()["action"] == "tenant.purge"
    assert admin("DELETE", at).status_code == 204
    assert world.broker.topics == {} and not Recycled.unscoped.exists() and admin("GET", BIN).json()["items"] == []
    assert not Grant.unscoped.filter(role="app@acme").exists(), "a later tenant of its name begins with nothing"
    assert admin("POST", "/api/v1/tenants", {"name": "acme"}).status_code == 201
    assert AuditRecord.unscoped.filter(action="tenant.purge").count() == 1


def test_workers_delete_it_when_its_time_is_over(world: World, admin: Caller) -> None:
    delete(admin)
    worker, now = platform_actor("service:worker"), timezone.now()
    assert purge_due(worker, now + timedelta(hours=23), lambda: None) == (0, {})
    assert purge_due(worker, now + timedelta(hours=25), lambda: None) == (1, {})
    assert world.broker.topics == {} and not Recycled.unscoped.exists()


def test_its_own_bin_comes_back_with_it(world: World, admin: Caller) -> None:
    recycled_namespace(world.admin, "acme/gone", "n1")
    at = f"{BIN}/{delete(admin)['recycle_id']}"
    assert admin("POST", f"{at}/restore").status_code == 200
    assert admin("POST", f"{TENANT}/recycled-namespaces/n1/restore").status_code == 200


def test_a_person_who_is_gone_does_not_come_back(world: World, admin: Caller) -> None:
    at = f"{BIN}/{delete(admin)['recycle_id']}"
    User.objects.get(username="tom").delete()
    assert admin("POST", f"{at}/restore").status_code == 200
    assert [each["username"] for each in admin("GET", f"{TENANT}/members").json()["items"]] == ["olga"]


def test_what_is_protected_does_not_go_there(world: World, admin: Caller) -> None:
    actions.set_policies(world.admin, "acme/orders", {"deletion_protected": True})
    assert admin("DELETE", f"{TENANT}?force=true").status_code == 412 and admin("GET", BIN).json()["items"] == []


def test_a_dry_run_says_what_goes_to_the_bin(world: World, admin: Caller) -> None:
    recycled_namespace(world.admin, "acme/gone", "n1")
    affected = admin("DELETE", f"{TENANT}?force=true&dry_run=true").json()["affected"]
    assert affected.pop("restorable_until_ms") > timezone.now().timestamp() * 1000
    assert affected == {
        "namespaces": 1,
        "topics": 1,
        "keys": 0,
        "recycled_namespaces": 1,
        "recycled_topics": 0,
        "recycle_bin_retention_hours": 24,
    }


def test_without_the_policy_its_bin_goes_with_it(world: World, admin: Caller) -> None:
    recycled_namespace(world.admin, "acme/gone", "n1")
    actions.set_tenant_policies(world.admin, "acme", {"recycle_bin_retention_hours": None})
    assert admin("DELETE", f"{TENANT}?force=true").status_code == 204
    assert not Recycled.unscoped.exists() and world.broker.topics == {}
    actions.create_tenant(world.admin, "acme")
    actions.create_namespace(world.admin, "acme/gone")


def test_an_issuer_that_another_tenant_took_meanwhile_stays_there(world: World, admin: Caller) -> None:
    terms = {"issuer": "https://login", "audience": "magnetar", "jwks_url": "https://login/keys"}
    TokenIssuer.unscoped.create(tenant_id="acme", name="corp", **terms)
    at = f"{BIN}/{delete(admin)['recycle_id']}"
    TokenIssuer.unscoped.create(tenant_id="other", name="theirs", **terms)
    assert admin("POST", f"{at}/restore").status_code == 200
    assert [row.tenant_id for row in TokenIssuer.unscoped.all()] == ["other"]
    with pytest.raises(Conflict):
        actions.create_tenant(world.admin, "acme")
