"""What is refused is in the audit log, and what cannot be recorded is not passed over."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest
from django.conf import settings as django_settings
from django.db import OperationalError
from django.urls import reverse

from controlplane import audit
from tenants.actions import change
from tenants.models import AuditRecord, Tenant, User
from tests.tenants.world import Caller, World

TOPIC, PARTITIONED = "persistent://acme/orders/t", "persistent://acme/orders/p"


def test_refusals_are_recorded_with_who_and_why(world: World, caller: Callable[[str], Caller]) -> None:
    """A teammate's 403, a stranger's 404, a wrong token's 401: the tenant's own log shows all three."""
    path = "/api/v1/tenants/acme/keys"
    assert caller("tom")("POST", path, {"name": "app"}).status_code == 403
    assert caller("sam")("GET", path).status_code == 404
    assert Caller("no-token")("GET", path).status_code == 401
    assert caller("")("GET", path).status_code == 401
    rows = AuditRecord.unscoped.filter(action="denied").order_by("id")
    assert [(row.role, row.after["status"]) for row in rows] == [  # type: ignore[index]
        ("user:tom", 403),
        ("user:sam", 404),
        ("unknown", 401),
        ("anonymous", 401),
    ]
    assert {row.tenant_uid for row in rows} == {Tenant.unscoped.get(name="acme").uid}
    assert all(row.resource == path and row.address == "127.0.0.1" for row in rows)
    shown = caller("olga")("GET", "/api/v1/tenants/acme/audit?action=denied&role=user:sam").json()["items"]
    assert [item["after"]["asked"] for item in shown] == ["GET api:keys"]


def test_a_session_without_csrf_token_is_recorded(world: World) -> None:
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.get(username="olga"))
    assert client.post("/tenants/acme/new-key", {"name": "app"}).status_code == 403
    assert "CSRF" in AuditRecord.unscoped.get(action="denied").after["why"]  # type: ignore[index]


def test_nobody_fills_the_log_by_being_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [60_000.0]
    monkeypatch.setattr(time, "time", lambda: now_s[0])
    before = AuditRecord.unscoped.count()
    for _ in range(200):
        Caller("no-token")("GET", "/api/v1/me")
    assert AuditRecord.unscoped.count() - before == 5
    now_s[0] += 60
    Caller()("GET", "/api/v1/openapi.json")  # any request: a minute is over
    record = AuditRecord.unscoped.latest("id")
    assert (record.action, record.role, record.address) == ("denied.more", "unknown", "127.0.0.1")
    assert record.after is not None and record.after["count"] == 195


@pytest.fixture
def full_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(audit, "record", full)


def test_what_messages_hold_is_not_shown_without_a_record(world: World, call: Caller, full_log: None) -> None:
    world.broker.add(TOPIC, "s")
    world.broker.publish(TOPIC, b"stored bytes")
    answer = call("GET", "/admin/v2/persistent/acme/orders/t/subscription/s/position/1")
    assert answer.status_code == 503
    assert b"stored bytes" not in answer.content and "without an audit record" in answer.json()["reason"]


def test_what_was_done_and_not_recorded_is_said(world: World, call: Caller, full_log: None) -> None:
    world.broker.add(TOPIC, "s")
    failed = audit.failures
    answer = call("POST", "/admin/v2/persistent/acme/orders/t/subscription/s/skip_all")
    assert answer.status_code == 503 and "do not repeat it" in answer.json()["reason"]
    assert audit.failures == failed + 1
    assert f"magnetar_web_audit_failures_total {float(failed + 1)}" in Caller()("GET", reverse("health:metrics")).content.decode()


def test_what_an_action_did_and_did_not_record_is_said(world: World, call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(rows: object) -> None:
        raise OperationalError("database or disk is full")

    world.broker.add(TOPIC, "s")
    monkeypatch.setattr(change, "append", full)
    answer = call("PUT", "/admin/v2/persistent/acme/orders/t/unload")
    assert answer.status_code == 503 and "do not repeat it" in answer.json()["reason"]


def test_a_refusal_stays_one_when_it_cannot_be_recorded(world: World, full_log: None) -> None:
    assert Caller()("GET", "/api/v1/tenants/acme").status_code == 401


def test_proxies_that_are_trusted_name_the_client(world: World, call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    trusting = msgspec.structs.replace(django_settings.MAGNETAR, trusted_proxies=("127.0.0.1/32",))
    monkeypatch.setattr(django_settings, "MAGNETAR", trusting)
    call("POST", "/api/v1/tenants", {"name": "fresh"})
    assert AuditRecord.unscoped.latest("id").address == "192.0.2.7"
