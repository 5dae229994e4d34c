"""Grants for a time: they give nothing from that moment on, with or without the task that removes them, and are gone from lists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from messaging.errors import Conflict, InvalidValue, NotAuthorized
from messaging.permissions.decision import allowed
from messaging.permissions.model import Action, Principal, Resource
from tenants import actions, feed
from tenants.actions.grants import end_grants
from tenants.actions.members import set_member
from tenants.actions.people import (
    create_person,
    end_administrators,
    new_password,
    set_active,
    set_administrator,
    set_password,
)
from tenants.grants import DatabaseGrants
from tenants.models import AuditRecord, Grant, Namespace, User
from tests.tenants.world import World

AT = "/api/v1/tenants/acme/namespaces/orders/permissions"
ORDERS = Resource("acme", "acme/orders", "persistent://acme/orders/t")


def at(days: float) -> datetime:
    return timezone.now() + timedelta(days=days)


def may_consume(role: str = "contractor@acme") -> bool:
    return allowed(DatabaseGrants(), Principal(role), Action.CONSUME, ORDERS)


def test_a_contractor_consumes_for_a_week_and_not_longer(world: World, caller: Any) -> None:
    olga, until = caller("olga"), at(7).replace(microsecond=0)
    answer = olga("PUT", f"{AT}/contractor@acme", {"actions": ["consume"], "expires_at": until.isoformat()})
    assert answer.status_code == 200, answer.content
    listed = olga("GET", AT).json()
    assert listed["permissions"] == {"contractor@acme": ["consume"]}
    assert datetime.fromisoformat(listed["expires_at"]["contractor@acme"]) == until
    told = world.broker.service.access.view.namespaces["acme/orders"]
    assert told["grant_ends_ms"] == {"": {"contractor@acme": int(until.timestamp() * 1000)}}
    record = AuditRecord.unscoped.filter(action="permission.grant", tenant="acme").order_by("-id").first()
    assert record is not None and record.after is not None and record.after["expires_at"] == until.astimezone(UTC).isoformat()
    assert may_consume()
    Grant.ever.update(expires_at=at(-0.001))
    assert not may_consume()
    assert olga("GET", AT).json() == {"permissions": {}, "expires_at": {}}
    assert olga("GET", "/admin/v2/namespaces/acme/orders/permissions").json() == {}


def test_one_who_may_not_grant_grants_for_no_time_either(world: World, caller: Any) -> None:
    body = {"actions": ["consume"], "expires_at": at(1).isoformat()}
    assert caller("tom")("PUT", f"{AT}/contractor@acme", body).status_code == 403
    assert caller("sam")("PUT", f"{AT}/contractor@acme", body).status_code == 404
    assert not Grant.ever.exists()


def test_pulsars_admin_grants_without_an_end(world: World, caller: Any) -> None:
    actions.grant_permission(world.actor("olga"), "acme/orders", "contractor@acme", ["consume"], expires_at=at(1))
    granted = caller("olga")("POST", "/admin/v2/namespaces/acme/orders/permissions/contractor@acme", ["consume"])
    assert granted.status_code == 204, granted.content
    assert Grant.unscoped.get().expires_at is None
    assert "grant_ends_ms" not in feed.namespace_state(Namespace.unscoped.get(name="acme/orders"))


def test_a_task_removes_those_whose_time_is_over_and_tells_the_broker(world: World) -> None:
    topic = "persistent://acme/orders/t"
    actions.grant_permission(world.actor("olga"), "acme/orders", "contractor@acme", ["consume"], topic, at(1))
    assert end_grants(world.admin, timezone.now()) == 0
    Grant.ever.update(expires_at=at(-0.001))
    assert end_grants(world.admin, timezone.now()) == 1
    assert not Grant.ever.exists()
    (record,) = AuditRecord.unscoped.filter(action="permission.expire", tenant="acme", resource=topic)
    assert record.before is not None and record.before["role"] == "contractor@acme"
    assert world.broker.service.access.view.namespaces["acme/orders"]["topic_grants"] == {}


def test_one_that_has_ended_is_given_anew_before_it_is_removed(world: World) -> None:
    olga = world.actor("olga")
    actions.grant_permission(olga, "acme/orders", "contractor@acme", ["consume"], expires_at=at(1))
    Grant.ever.update(expires_at=at(-0.001))
    actions.grant_permission(olga, "acme/orders", "contractor@acme", ["consume"])
    assert may_consume()
    assert end_grants(world.admin, timezone.now()) == 0


def test_the_past_is_no_end(world: World) -> None:
    with pytest.raises(InvalidValue, match="is over"):
        actions.grant_permission(world.actor("olga"), "acme/orders", "contractor@acme", ["consume"], expires_at=at(-1))


def test_an_administrator_of_the_platform_for_a_day(world: World) -> None:
    create_person(world.admin, "vera", new_password())
    set_administrator(world.admin, "vera", True, at(1))
    vera = world.actor("vera")
    assert vera.may(Action.SUPERUSER)
    with pytest.raises(NotAuthorized, match="nobody gives for longer"):
        set_administrator(vera, "tom", True)
    for change in (lambda: set_administrator(vera, "admin", False), lambda: set_active(vera, "admin", False)):
        with pytest.raises(Conflict, match="the only platform administrator"):
            change()
    User.objects.filter(username="vera").update(superuser_until=at(-0.001))
    assert not world.actor("vera").may(Action.SUPERUSER)
    with pytest.raises(NotAuthorized):
        create_person(world.actor("vera"), "walter", new_password())
    assert end_administrators(world.admin, timezone.now()) == 1
    assert not User.objects.get(username="vera").is_superuser
    assert AuditRecord.unscoped.filter(action="person.expire_administrator", resource="vera").count() == 1


def test_what_an_administrator_for_a_time_gives_lasts_no_longer(world: World) -> None:
    """Nor do they get the password of somebody who administers the platform, or is a member of a tenant, for longer."""
    for username in ("vera", "walter"):
        create_person(world.admin, username, new_password())
        set_administrator(world.admin, username, True, at(1 if username == "vera" else 2))
    vera = world.actor("vera")
    with pytest.raises(NotAuthorized, match="nobody gives for longer"):
        create_person(vera, "yves", new_password(), superuser=True)
    assert not User.objects.filter(username="yves").exists()
    set_member(world.actor("olga"), "acme", "tom", "viewer", expires_at=at(1.5))
    for username in ("admin", "walter", "olga", "tom"):  # a member of a tenant, too
        with pytest.raises(NotAuthorized, match=f"{username} has rights for longer: they choose a password by mail"):
            set_password(vera, username, new_password())
        set_password(world.admin, username, new_password())
    set_member(world.actor("olga"), "acme", "tom", "viewer", expires_at=at(0.5))
    set_password(vera, "tom", new_password())
    create_person(vera, "yves", new_password())
    for username in ("yves", "vera"):
        set_password(vera, username, new_password())
    set_password(world.actor("walter"), "vera", new_password())


def test_only_administrators_make_administrators(world: World) -> None:
    for username in ("olga", "tom"):
        with pytest.raises(NotAuthorized):
            set_administrator(world.actor(username), "tom", True, at(1))
