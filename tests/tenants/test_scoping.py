"""Tenant data outside a scope: an error, not a leak."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.db.models import Manager

from tenants import actions
from tenants.models import (
    AuditChain,
    AuditCheckpoint,
    AuditHead,
    DynamicSetting,
    FailureDomain,
    FeedHead,
    Grant,
    HistoryCursor,
    IdempotencyKey,
    IsolationPolicy,
    Key,
    Membership,
    Namespace,
    OutboxChange,
    ProviderLogin,
    SavedView,
    Tenant,
    User,
)
from tenants.scoping import OutsideScope, ScopedManager, platform_scope, tenant_scope
from tests.tenants.world import World

NOT_OF_A_TENANT = {
    User,
    IdempotencyKey,
    FeedHead,
    OutboxChange,
    DynamicSetting,
    IsolationPolicy,
    FailureDomain,
    AuditChain,
    AuditHead,
    AuditCheckpoint,
    ProviderLogin,
    HistoryCursor,
    SavedView,  # of a person; `tenants/actions/saved_views.py` alone finds them, by the person and the tenants that may be seen
}


def tenant_models() -> list[type]:
    return [model for model in apps.get_app_config("tenants").get_models() if model not in NOT_OF_A_TENANT]


@pytest.mark.parametrize("model", tenant_models())
def test_every_model_of_tenants_refuses_a_query_outside_a_scope(model: type, db: None) -> None:
    assert isinstance(model.objects, ScopedManager)  # type: ignore[attr-defined]
    default = model._default_manager  # type: ignore[attr-defined]
    assert isinstance(default, Manager) and not isinstance(default, ScopedManager)
    with pytest.raises(OutsideScope, match=model.__name__):
        model.objects.count()  # type: ignore[attr-defined]
    with tenant_scope("acme"):
        assert model.objects.count() == 0  # type: ignore[attr-defined]
    with pytest.raises(OutsideScope):
        model.objects.first()  # type: ignore[attr-defined]


def test_a_scope_shows_one_tenant(world: World) -> None:
    actions.create_key(world.actor("olga"), "acme", "app")
    actions.create_key(world.actor("sam"), "other", "app")
    for tenant in ("acme", "other"):
        actions.grant_permission(world.admin, f"{tenant}/{'orders' if tenant == 'acme' else 'things'}", "r", ["produce"])
    with tenant_scope("acme"):
        assert [row.name for row in Tenant.objects.all()] == ["acme"]
        assert [row.name for row in Namespace.objects.all()] == ["acme/orders"]
        assert [row.role for row in Key.objects.all()] == ["app@acme"]
        assert [row.namespace_id for row in Grant.objects.all()] == ["acme/orders"]
        assert {row.user.username for row in Membership.objects.all()} == {"olga", "tom"}
        with platform_scope():
            assert Tenant.objects.count() == 3
        assert Tenant.objects.count() == 1
    with tenant_scope("absent"):
        assert not Namespace.objects.exists()


async def test_a_scope_follows_into_threads_and_ends_there() -> None:
    @sync_to_async
    def filtered() -> str:
        return str(Namespace.objects.all().query)

    with tenant_scope("acme"):
        assert "acme" in await filtered()
    with pytest.raises(OutsideScope):
        await filtered()


UNSCOPED = {"actions", "audit", "grants.py", "feed.py", "first_rows.py", "models", "scoping.py"}
UNSCOPED_ELSEWHERE = {
    "tenants/http/authentication.py",  # a token names its key before anybody has a tenant
    "platform/controlplane/accounts.py",  # the commands of whoever runs the platform
    "tenants/policy_events.py",  # an outbox, of changes of all tenants
}


def test_only_few_files_name_the_unscoped_manager(repository: Path) -> None:
    found = set()
    for folder in ("tenants", "admin_ui", "workers", "platform/controlplane"):
        for path in (repository / folder).rglob("*.py"):
            if "migrations" in path.parts:
                continue
            names = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
            if names & {"unscoped", "_base_manager", "_default_manager"}:
                found.add(str(path.relative_to(repository)))
    stray = {
        path
        for path in found
        if path not in UNSCOPED_ELSEWHERE and not (path.startswith("tenants/") and path.split("/")[1] in UNSCOPED)
    }
    assert not stray
