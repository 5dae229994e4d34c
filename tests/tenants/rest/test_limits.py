"""Bodies over the limits of the table: refused by field, size and limit, on our API and on Pulsar's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.limits.structs import rows_of
from tenants.pulsar import bodies
from tenants.rest.document import request_bodies
from tests.support.limit_values import at_and_over

Call = Callable[..., Any]
N = "/api/v1/tenants/acme/namespaces/orders"
P = "/admin/v2"
# Where a body of each kind is sent, and what else it must hold.
BODIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "NewTenant": ("POST", "/api/v1/tenants", {"name": "third"}),
    "TenantChange": ("PATCH", "/api/v1/tenants/acme", {}),
    "LabelsShape": ("PUT", "/api/v1/tenants/acme/labels", {}),
    "MaskedFields": ("PUT", "/api/v1/tenants/acme/masked-fields", {}),
    "NewNamespace": ("POST", "/api/v1/tenants/acme/namespaces", {"name": "new"}),
    "PermissionActions": ("PUT", f"{N}/permissions/r", {}),
    "UndoneChange": ("POST", f"{N}/policies/undo", {}),
    "NewTopic": ("POST", f"{N}/topics", {"name": "t"}),
    "NewKey": ("POST", "/api/v1/tenants/acme/keys", {"name": "k"}),
    "KeyRotation": ("POST", "/api/v1/tenants/acme/keys/k1/rotate", {}),
    "LeakedToken": ("POST", "/api/v1/tenants/acme/keys/revoke-token", {}),
    "NewMemberRole": ("PUT", "/api/v1/tenants/acme/members/tom", {"role": "viewer"}),
    "NewTeam": ("PUT", "/api/v1/tenants/acme/teams/night", {"roles": [{"role": "viewer"}]}),
    "NewInvitation": ("POST", "/api/v1/tenants/acme/invitations", {"email": "new@acme.test"}),
    "NewRole": ("PUT", "/api/v1/tenants/acme/roles/r", {"actions": ["produce"]}),
    "NewDeadLetterPolicy": ("PUT", f"{N}/topics/t/subscriptions/s/dead-letter-policy", {"max_redeliver_count": 1}),
    "NewAlertRule": (
        "POST",
        "/api/v1/tenants/acme/alert-rules",
        {"name": "n", "kind": "no_consumer", "topic": "persistent://acme/orders/t", "threshold": 2**62},
    ),
    "ChangedAlertRule": ("PATCH", "/api/v1/tenants/acme/alert-rules/r", {}),
    "NewSilence": ("PUT", "/api/v1/tenants/acme/alert-rules/r/silence", {"for_s": 60}),
    "NewAuditStream": ("PUT", "/api/v1/tenants/acme/audit/stream", {}),
    "NewNotifications": ("PUT", "/api/v1/tenants/acme/notifications", {}),
    "DelayedTime": ("PATCH", f"{N}/topics/t/delayed/1:0", {"delay_ms": 1}),
    "DelayedTimeOfKey": ("PATCH", f"{N}/topics/t/delayed", {"key": "k", "delay_ms": 1}),
    "NewRedrive": ("POST", f"{N}/topics/t/redrives/dry-run", {"target": "persistent://acme/orders/other"}),
    "NewLettersRedrive": ("POST", "/api/v1/tenants/acme/dead-letters/redrives", {}),
    "NewPricePlan": ("POST", "/api/v1/price-plans", {}),
    "NewTokenIssuer": (
        "PUT",
        "/api/v1/tenants/acme/issuers/x",
        {"issuer": "i", "audience": "a", "jwks_url": "https://keys.example/", "roles": {"a": "app@acme"}},
    ),
    "NewIssuer": ("PUT", "/api/v1/billing/issuer", {"details": {}}),
    "BillingChange": ("PATCH", "/api/v1/tenants/acme/billing", {}),
    "NewPlanAssignment": ("POST", "/api/v1/tenants/acme/billing/plans", {"starts_at": "2026-03-01T00:00:00Z"}),
    "NewCredit": ("POST", "/api/v1/tenants/acme/billing/credits", {"title": "t", "currency": "EUR", "amount": "1"}),
    "NewCreditNote": ("POST", "/api/v1/tenants/acme/invoices/i/credit-notes", {"note": "n"}),
}
BODIES |= {
    "NewBudget": ("POST", "/api/v1/tenants/acme/budgets", {"name": "b", "amount": "1", "currency": "EUR"}),
    "NewSpendCap": ("PUT", "/api/v1/tenants/acme/spend-caps/tenant", {"amount": "1", "currency": "EUR", "action": "stop"}),
    "BudgetChange": ("PATCH", "/api/v1/tenants/acme/budgets/b1", {}),
    "NewReportSchedule": ("POST", "/api/v1/tenants/acme/report-schedules", {"name": "r", "every": "day", "by": "topic"}),
    "ReportScheduleChange": ("PATCH", "/api/v1/tenants/acme/report-schedules/s1", {}),
}
BODIES |= {
    "NewSubscription": ("POST", f"{N}/topics/t/subscriptions", {"name": "n"}),
    "NewProperties": ("PUT", f"{N}/topics/t/subscriptions/s/properties", {}),
    "Skip": ("POST", f"{N}/topics/t/subscriptions/s/skip", {}),
    "Reset": ("POST", f"{N}/topics/t/subscriptions/s/reset", {}),
    "Disconnect": ("POST", f"{N}/topics/t/disconnect", {}),
    "Expire": ("POST", f"{N}/topics/t/subscriptions/s/expire", {}),
    "NewMessages": ("POST", f"{N}/topics/t/messages", {}),
    "NewSchema": ("POST", f"{N}/topics/t/schemas", {"type": "AVRO"}),
    "TopicChange": ("PATCH", f"{N}/topics/t/properties", {}),
    "Tune": ("POST", "/api/v1/tune", {"message_bytes": 1, "messages_per_s": 1}),
    "TopicTune": ("POST", f"{N}/topics/t/tune", {}),
}
MAPS = ("document", "details", "amounts", "labels", "properties")
API = rows_of(request_bodies())
NUMBERS: tuple[str, ...] = (
    ".partitions",
    ".entries",
    "_count",
    "_minor",
    "_days",
    "_ms",
    "_max",
    ".rate",
    ".threshold",
    ".clear",
    ".limit",
    "_s",
)
NUMBERS += ("_bytes", "_entry", "_price", ".producers")
LISTS = ("mail_to", "emails", "thresholds", "admin_roles", "allowed_clusters", "actions", "masked_fields")


def kind_of(name: str) -> str:
    field = name.partition(".")[2]
    if field in ("messages", "roles"):
        return "objects"
    return "number" if name.endswith(NUMBERS) else "list" if field in LISTS else "map" if field in MAPS else "text"


OURS = [
    (name, what, over)
    for name, limit in API.items()
    for kind in [kind_of(name)]
    if name != "NewNamespace.policies"
    for what, _, over in at_and_over(limit, kind)
]
PULSAR = {f"body.{bare.name}": bare.limit for bare in bodies.BARE}
BARE = {
    "body.actions": ("POST", f"{P}/namespaces/acme/orders/permissions/r", "list"),
    "body.roles": ("POST", f"{P}/namespaces/acme/orders/permissions/subscription/s", "list"),
    "body.grants": ("POST", f"{P}/namespaces/grantPermissionsOnTopics", "objects"),
    "body.clusters": ("POST", f"{P}/namespaces/acme/orders/replication", "list"),
    "body.properties": ("PUT", f"{P}/persistent/acme/orders/t", "map"),
    "body.partitions": ("PUT", f"{P}/persistent/acme/orders/t/partitions", "number"),
    "body.splitBoundaries": ("PUT", f"{P}/namespaces/acme/orders/0x00000000_0x40000000/split", "numbers"),
    "body.position": ("PUT", f"{P}/persistent/acme/orders/t/subscription/s", "text"),
    "body.policy": ("PUT", f"{P}/namespaces/acme/orders/properties", "map"),
    "body.policies": ("PUT", f"{P}/namespaces/acme/new", "map"),
}
THEIRS = [(name, what, over) for name, row in BARE.items() for what, _, over in at_and_over(PULSAR[name], row[2])]


@pytest.mark.parametrize("body", sorted({name.partition(".")[0] for name, _, _ in OURS}))
def test_fields_of_our_api_over_their_limits_are_refused_by_name(call: Call, body: str) -> None:
    method, path, rest = BODIES[body]
    for name, what, over in OURS:
        of, _, field = name.partition(".")
        if of == body:
            answer = call(method, path, {**rest, field: over})
            assert answer.status_code == 400, (name, what, answer.content)
            assert field in answer.json()["detail"], (name, what)
            assert any(str(number) in answer.json()["detail"] for number in API[name][1:6] if number is not None), (name, what)


@pytest.mark.parametrize(("name", "what", "over"), THEIRS, ids=[f"{case[0]}-{case[1]}" for case in THEIRS])
def test_a_body_of_pulsars_over_its_limit_is_refused_by_name(call: Call, name: str, what: str, over: Any) -> None:
    method, path, _ = BARE[name]
    answer = call(method, path, over)
    assert answer.status_code == PULSAR[name].error.http_status or what == "minimum", answer.content
    assert name.partition(".")[2] in answer.json()["reason"]


def test_every_bare_body_is_tried() -> None:
    assert set(BARE) == set(PULSAR)


@pytest.mark.parametrize("depth", [17, 9_000])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/tenants"),
        ("PUT", f"{N}/policies"),
        ("PUT", f"{P}/namespaces/acme/new"),
        ("PUT", f"{P}/namespaces/acme/orders/properties"),
    ],
)
def test_a_body_nested_too_deeply_is_refused(call: Call, method: str, path: str, depth: int) -> None:
    """It exceeded the recursion of the parser, and was answered with 500."""
    answer = call(method, path, b'{"properties":' + b"[" * depth + b"]" * depth + b"}")
    assert answer.status_code in (400, 412)
    assert "more than 16 levels of nested" in answer.content.decode()


@pytest.mark.parametrize("charset", ["", "; charset=utf-16"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/tenants"),
        ("PUT", f"{N}/policies"),
        ("PUT", f"{P}/namespaces/acme/new"),
        ("PUT", f"{P}/namespaces/acme/orders/properties"),
        ("POST", f"{P}/schemas/acme/orders/t/schema"),
    ],
)
def test_a_body_with_too_many_values_is_not_parsed(call: Call, method: str, path: str, charset: str) -> None:
    """Half a million lists in 1 MiB kept Python's lock for as long as they were made, and everybody's requests waited."""
    body = b'{"properties":[' + b"[]," * 300_000 + b"[]]}"
    answer = call(method, path, body, content_type=f"application/json{charset}")
    assert answer.status_code in (400, 412)
    assert "more than 10000 values" in answer.content.decode()


def test_a_schema_of_two_with_too_many_values_is_not_parsed(call: Call) -> None:
    payload = {"type": "KEY_VALUE", "schema": "[" + "1," * 20_000 + "1]", "properties": {}}
    answer = call("POST", f"{P}/schemas/acme/orders/t/schema", payload)
    assert "the schema has more than 10000 values" in answer.content.decode()


def test_a_body_larger_than_a_mebibyte_is_refused(call: Call) -> None:
    answer = call("POST", "/api/v1/tenants", b'{"name": "' + b"x" * (1 << 20) + b'"}')
    assert answer.status_code == 413


def test_a_long_unknown_field_is_not_sent_back_whole(call: Call) -> None:
    assert len(call("POST", "/api/v1/tenants", {"x" * 100_000: 1}).content) < 2000
