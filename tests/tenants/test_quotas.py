"""What one tenant may have in the control plane is bounded: every broker holds it in memory, and all tenants share its disk."""

from __future__ import annotations

import msgspec
import pytest
from django.conf import settings as django_settings

from messaging.errors import PreconditionFailed
from tenants import actions
from tenants.actions import quotas
from tenants.models import AuditRecord, Key, Namespace
from tests.tenants.world import World


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    few = msgspec.structs.replace(django_settings.MAGNETAR, namespaces_per_tenant_max=3, keys_per_tenant_max=3)
    monkeypatch.setattr(django_settings, "MAGNETAR", few)


def test_namespaces_of_a_tenant_are_bounded_and_those_of_another_are_not_touched(world: World) -> None:
    olga, sam = world.actor("olga"), world.actor("sam")
    for name in ("second", "third"):
        actions.create_namespace(olga, f"acme/{name}")
    with pytest.raises(PreconditionFailed, match=r"has 3 namespaces, .* namespaces_per_tenant_max = 3:"):
        actions.create_namespace(olga, "acme/fourth")
    assert Namespace.unscoped.filter(tenant="acme").count() == 3
    assert ("namespace", "acme/fourth") not in world.broker.state
    actions.create_namespace(sam, "other/second")
    actions.delete_namespace(olga, "acme/third")
    actions.create_namespace(olga, "acme/fourth")


def test_keys_of_a_tenant_are_bounded_and_the_oldest_revoked_one_is_forgotten_for_a_new_one(world: World) -> None:
    olga = world.actor("olga")
    made = [actions.create_key(olga, "acme", "app").key for _ in range(3)]
    with pytest.raises(PreconditionFailed, match="has 3 keys and has reached keys_per_tenant_max = 3:"):
        actions.create_key(olga, "acme", "app")
    actions.create_key(world.actor("sam"), "other", "app")
    actions.revoke_key(olga, "acme", made[1].id)
    actions.revoke_key(olga, "acme", made[0].id)
    latest = actions.create_key(olga, "acme", "app").key
    assert set(Key.unscoped.filter(tenant="acme").values_list("id", flat=True)) == {made[0].id, made[2].id, latest.id}
    told = {key for kind, key in world.broker.state if kind == "key"}
    assert made[1].id not in told and latest.id in told
    assert AuditRecord.unscoped.filter(
        action="key.revoke", resource__endswith=made[1].id
    ).exists()  # it was, and the log still says so


def test_what_namespaces_of_a_tenant_hold_together_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each namespace may hold 1 MiB of grants: a thousand of them would be a gibibyte in every broker."""
    monkeypatch.setattr(quotas, "STATES_BYTES_MAX", 4_000)
    olga = world.actor("olga")
    actions.create_namespace(olga, "acme/second")
    for local in ("orders", "second"):
        actions.set_policies(olga, f"acme/{local}", {"properties": {"k": "x" * 1_500}})
    with pytest.raises(PreconditionFailed, match="at most 4000 are allowed"):
        actions.grant_permission(olga, "acme/second", "r" * 500, ["produce"], f"persistent://acme/second/{'t' * 250}")
    actions.set_policies(world.actor("sam"), "other/things", {"properties": {"k": "x" * 1_500}})
    actions.set_policies(olga, "acme/orders", {"properties": None})
    actions.grant_permission(olga, "acme/second", "r" * 500, ["produce"], f"persistent://acme/second/{'t' * 250}")
    monkeypatch.setattr(quotas, "STATES_BYTES_MAX", 100)
    actions.set_policies(olga, "acme/second", {"properties": {"k": "x" * 1_400}})  # what is too much already may become less
