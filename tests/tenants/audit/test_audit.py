"""The audit log: every request that changes something or shows what messages hold leaves a record, and so does every refusal."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.conf import settings as django_settings
from django.urls import resolve

from controlplane.permissions import AUDITED, CONSOLE, PAYLOAD_READS, QUESTIONS, REST
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.clock import wall_ms
from messaging.identity import issue_token
from messaging.permissions.model import Action
from tenants import actions
from tenants.models import (
    AuditRecord,
    FailureDomain,
    Invitation,
    IsolationPolicy,
    Key,
    Membership,
    Namespace,
    NamespaceBundles,
    Team,
    TeamMember,
    Tenant,
    TokenIssuer,
    User,
)
from tests.support.recycled_namespaces import recycled_namespace, recycled_tenant
from tests.support.rest_routes import addresses
from tests.tenants.world import Caller, World
from workers.alerts.models import AlertRule
from workers.alerts.rule_actions import delete_rule
from workers.audit_streams.models import AuditStream
from workers.billing.budget_models import Budget, ReportSchedule
from workers.models import TaskRun
from workers.redrive.models import RedriveJob
from workers.schedule import REDRIVE
from workers.spend_caps.models import SpendCap

OF_A_PERSON = {("POST", "console:language"), ("POST", "console:time_zone")}  # how pages are shown to them, and nothing else
READING = ("GET", "WEBSOCKET")
# Signing in with a provider: the browser is sent there, and nothing is changed before it comes back, by GET.
TO_PROVIDER, FROM_PROVIDER = ("POST", "openid_connect_login"), ("GET", "openid_connect_callback")

# Routes of Action.CONSUME that read, and whose answer holds nothing that was published.
NO_PAYLOAD = {
    ("GET", "admin_v2:last-message-id"),
    ("GET", "admin_v2:find-message"),
    ("GET", "admin_v2:subscriptions"),
    ("GET", "admin_v2:subscription-properties"),
    ("GET", "admin_v2:replicated-subscription"),
    ("GET", "api:dead-letter-policy"),
    ("GET", "api:last-message"),
    ("GET", "api:message-at"),
    ("GET", "api:subscription"),
    ("GET", "api:subscription-backlog"),
    ("GET", "api:subscription-moves"),
    ("GET", "api:subscription-properties"),
    ("GET", "api:subscriptions"),
    ("GET", "console:dead_letter_policy"),
    *(("GET", f"console:subscription_{move}") for move in ("create", "skip", "clear", "reset", "expire", "delete", "undo")),
}

TOPIC, PARTITIONED = "persistent://acme/orders/t", "persistent://acme/orders/p"
TARGET = "persistent://acme/orders/target"


def test_every_route_that_changes_something_is_audited_and_no_row_is_for_nothing() -> None:
    changing = {row for row in (*REST, *CONSOLE) if row[0] not in READING} - QUESTIONS - OF_A_PERSON - {TO_PROVIDER} | {
        FROM_PROVIDER
    }
    assert set(AUDITED) - set(PAYLOAD_READS) == changing


OF_MESSAGES = (Action.CONSUME, Action.MESSAGE_READ, Action.CURSOR_ADMIN)


def test_every_route_that_shows_payloads_is_audited() -> None:
    """A new route of the rights that come with reading messages is either here or said to show none."""
    reading = {row for row, action in (REST | CONSOLE).items() if action in OF_MESSAGES and row[0] == "GET"}
    assert reading == set(PAYLOAD_READS) - OF_OPERATORS | NO_PAYLOAD


# Keys and properties without payloads: who keeps topics working sees them, and each look is recorded
OF_OPERATORS = {
    ("GET", "api:dead-letters"),
    ("GET", "api:dead-letter-messages"),
    ("GET", "console:dead_letters"),
    ("GET", "console:delayed"),
}


LOGIN = "https://login.acme.example/"
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "api:tenants"): {"name": "fresh"},
    ("PATCH", "api:tenant"): {"admin_roles": ["boss"]},
    ("PATCH", "api:tenant-ceilings"): {"max_topics_per_tenant": 7},
    ("POST", "api:keys"): {"name": "app"},
    ("PUT", "api:member"): {"role": "owner"},
    ("PUT", "api:role"): {"actions": ["produce"]},
    ("POST", "api:namespaces"): {"name": "fresh"},
    ("PUT", "api:tenant-labels"): {"labels": {"team": "payments"}},
    ("PUT", "api:tenant-language"): {"language": "de"},
    ("PUT", "api:tenant-masked-fields"): {"masked_fields": ["$..card"]},
    ("PUT", "api:policies"): {"message_ttl_s": 60},
    ("PATCH", "api:policies"): {"message_ttl_s": 61},
    ("PUT", "api:permission"): {"actions": ["produce"]},
    ("POST", "api:topics"): {"name": "fresh"},
    ("PUT", "api:topic-permission"): {"actions": ["produce"]},
    ("POST", "api:schemas"): {"type": "STRING"},
    ("POST", "api:messages"): {"messages": [{"text": "a"}]},
    ("POST", "api:subscriptions"): {"name": "fresh"},
    ("PUT", "api:subscription-properties"): {"properties": {"a": "b"}},
    ("POST", "api:subscription-skip"): {"entries": 1},
    ("POST", "api:topic-disconnect"): {},
    ("POST", "api:subscription-reset"): {"position": "earliest"},
    ("POST", "api:subscription-expire"): {"older_than_s": 1},
    ("PUT", "api:dead-letter-policy"): {"max_redeliver_count": 1},
    ("PUT", "api:team"): {"roles": []},
    ("PUT", "api:issuer"): {"issuer": "i", "audience": "a", "jwks_url": f"{LOGIN}jwks", "roles": {"orders": "app"}},
    ("POST", "admin_v2:tenant"): {"adminRoles": ["boss"], "allowedClusters": ["standalone"]},
    ("POST", "admin_v2:namespace-permission"): ["produce"],
    ("POST", "admin_v2:subscription-permission"): ["r"],
    ("POST", "admin_v2:replication"): ["standalone"],
    ("POST", "admin_v2:topic-permission"): ["produce"],
    ("POST", "admin_v2:topics-grants"): [{"topic": TOPIC, "role": "r", "actions": ["produce"]}],
    ("POST", "admin_v2:topics-revocations"): [{"topic": TOPIC, "role": "r"}],
    ("POST", "admin_v2:reset-cursor"): {"ledgerId": 1, "entryId": 1},
    ("POST", "admin_v2:expire-to"): {"ledgerId": 1, "entryId": 0},
    ("POST", "admin_v2:schema"): {"type": "STRING", "schema": "", "properties": {}},
    ("PUT", "admin_v2:subscription-properties"): {"a": "b"},
    ("POST", "api:alert-rules"): {"name": "large", "kind": "backlog_bytes", "topic": TOPIC},
    ("PATCH", "api:alert-rule"): {"threshold": 7},
    ("PUT", "api:alert-rule-silence"): {"for_s": 60},
    ("PUT", "api:platform-notifications"): {"mail_to": ["ops@magnetar.test"]},
    ("PUT", "api:sign-in-rules"): {"second_factor_required": True},
    ("POST", "api:invitations"): {"email": "new@acme.test"},
    ("PUT", "api:audit-stream"): {"url": "https://hook.example/"},
    ("PUT", "api:platform-audit-stream"): {"url": "https://hook.example/"},
    ("PUT", "api:notifications"): {"webhook_url": "", "mail_to": ["ops@acme.test"]},
    ("POST", "api:redrives"): {"target": TARGET},
    ("PATCH", "api:delayed"): {"key": "k", "delay_ms": 7_200_000},
    ("PATCH", "api:delayed-message"): {"delay_ms": 7_200_000},
    ("PUT", "billing:issuer"): {"details": {"name": "Magnetar"}},
    ("PUT", "billing:spend-cap"): {"amount": "5.00", "currency": "EUR", "action": "stop"},
    ("PUT", "billing:platform-spend-cap"): {"amount": "5.00", "currency": "EUR", "action": "stop"},
    ("POST", "billing:budgets"): {"name": "All", "amount": "5.00", "currency": "EUR"},
    ("PATCH", "billing:budget"): {"amount": "6.00"},
    ("POST", "billing:report-schedules"): {"name": "Daily", "every": "day", "by": "topic"},
    ("PATCH", "billing:report-schedule"): {"by": "namespace"},
    ("POST", "billing:credits"): {"title": "Welcome", "currency": "EUR", "amount": "5.00"},
    ("POST", "admin_v2:anti-affinity"): "apart",
    ("POST", "admin_v2:cluster-domain"): {"brokers": ["b1"]},
    ("POST", "admin_v2:cluster-isolation-policy"): {
        "namespaces": ["acme/orders"],
        "primary": ["b1"],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}},
    },
    ("PUT", "admin_v2:partitions"): 2,
    ("POST", "admin_v2:partitions"): 3,
}

# They need invoices, plans, a change to take back or a webhook: their own tests hold their records.
ELSEWHERE = {
    ("POST", "billing:price-plans"),
    ("POST", "billing:plan-assignments"),
    ("PATCH", "billing:account"),
    ("POST", "billing:credit-notes"),
    ("POST", "api:tenant-policies-undo"),
    ("POST", "api:policies-undo"),
    ("POST", "api:topic-policies-undo"),
    ("POST", "api:subscription-policies-undo"),
    ("POST", "api:subscription-undo"),
    ("POST", "admin_v2:bookie-rack"),  # they need messages on bookies
    ("DELETE", "admin_v2:bookie-rack"),
    ("DELETE", "api:my-sessions"),  # of a person, who comes with no key
    ("DELETE", "api:my-session"),
    ("POST", "api:notice-replay"),
    ("POST", "api:notice-replays"),
    ("POST", "api:notifications-test"),
}

# What these routes are about, so that they find it, or find it missing: what they make.
GONE = {("PUT", "admin_v2:tenant"), ("PUT", "admin_v2:namespace"), ("PUT", "admin_v2:topic"), ("PUT", "admin_v2:subscription")}

OF_PARTITIONED = {
    ("POST", "admin_v2:partitions"),
    ("DELETE", "admin_v2:partitions"),
    ("POST", "admin_v2:missing-partitions"),
    ("POST", "api:missing-partitions"),
    ("POST", "admin_v2:topic-terminate-partitions"),
}


def prepare(world: World, row: tuple[str, str]) -> None:
    """Everything that a route of the fillings may name is there, but for what this one makes."""
    world.broker.have("acme/orders", (), {})
    state, named = world.broker.state, ("namespace", "acme/orders")
    world.broker.tell(world.broker.version, {**state, ("tenant", "acme"): {}, named: {}})
    if row in OF_PARTITIONED:
        world.broker.add_partitioned(TOPIC, 2, "s")
    elif row == ("PUT", "admin_v2:subscription"):
        world.broker.add(TOPIC)
    elif row not in GONE and row != ("PUT", "admin_v2:partitions"):
        world.broker.add(TARGET)
        world.broker.add(TOPIC, "s")
        world.broker.publish(TOPIC, b"stored bytes")
    if row == ("POST", "api:topic-disconnect"):
        world.broker.connect_producer(TOPIC)
    if row[1].startswith("api:recycled-topic"):
        world.broker.recycle(TOPIC, "x1")
    if row[1].startswith("api:recycled-namespace"):
        recycled_namespace(world.admin, "acme/gone", "x1")
    if row[1].startswith("api:recycled-tenant"):
        recycled_tenant(world.admin, "gone", "x1")
    if row[1].startswith("api:delayed"):
        world.broker.publish_messages(TOPIC, OutgoingMessage(b"later", key="k", deliver_at_ms=wall_ms() + 3_600_000))
    Tenant.unscoped.get_or_create(name="acme")
    Namespace.unscoped.get_or_create(name="acme/orders", tenant_id="acme")
    NamespaceBundles.unscoped.all().delete()  # as if none had been split
    if row == ("PUT", "admin_v2:namespace"):
        Namespace.unscoped.filter(name="acme/orders").delete()
        world.broker.tell(world.broker.version, {key: held for key, held in state.items() if key != named})
    in_use = {"name": "app", "role": "app@acme", "tenant_id": "acme", "revoked_at": None, "expires_at": None}
    Key.unscoped.update_or_create(id="k1", defaults=in_use)
    Membership.unscoped.get_or_create(tenant_id="acme", user=User.objects.get(username="tom"), defaults={"role": "metadata"})
    team, _ = Team.unscoped.get_or_create(tenant_id="acme", name="payments")
    if row == ("DELETE", "api:team-member"):
        TeamMember.unscoped.get_or_create(team=team, user=User.objects.get(username="tom"))
    terms = {"issuer": "i", "audience": "a", "jwks_url": f"{LOGIN}jwks", "roles": {"orders": "app"}}
    TokenIssuer.unscoped.get_or_create(tenant_id="acme", name="corp", defaults=terms)
    if row == ("DELETE", "api:invitation"):
        invited = {"tenant_id": "acme", "email": "invited@acme.test", "role": "metadata", "secret_hash": "s", "created_by": "admin"}
        Invitation.unscoped.create(id="n1", expires_at=datetime.now(UTC) + timedelta(days=1), **invited)
    of_acme = {
        "tenant": "acme",
        "tenant_uid": Tenant.unscoped.get(name="acme").uid,
        "topic": TOPIC,
        "created_at": datetime.now(UTC),
    }
    TaskRun.objects.update_or_create(
        task_id="r1", defaults={"name": REDRIVE, "started_at": datetime.now(UTC), "outcome": TaskRun.Outcome.QUARANTINED}
    )
    job_state = RedriveJob.State.PAUSED if row == ("POST", "api:redrive-resume") else RedriveJob.State.RUNNING
    RedriveJob.unscoped.update_or_create(id="j1", defaults={"target": TARGET, "subscription": "s", "state": job_state, **of_acme})
    AlertRule.unscoped.update_or_create(id="a1", defaults={"name": "backlog", "kind": "backlog_bytes", **of_acme})
    if row[0] == "DELETE":
        FailureDomain.objects.update_or_create(name="g", defaults={"brokers": ["b1"]})
        isolated = {"namespaces": ["acme/orders"], "primary": ["b1"], "min_limit": 1, "usage_threshold": 80, "unload_scope": "none"}
        IsolationPolicy.objects.update_or_create(name="p", defaults=isolated)
    if row == ("POST", "api:alert-rule-restore"):
        delete_rule(world.admin, "acme", "a1")
    del of_acme["topic"]
    if row[0] == "DELETE" and row[1].endswith("audit-stream"):
        whose = of_acme if row[1] == "api:audit-stream" else {**of_acme, "tenant": "", "tenant_uid": ""}
        AuditStream.unscoped.update_or_create(
            tenant_uid=whose["tenant_uid"], defaults={"url": "https://hook.example/", "next_at": datetime.now(UTC), **whose}
        )
    Budget.unscoped.update_or_create(
        id="b1", defaults={"name": "All", "currency": "EUR", "amount_minor": 1, "thresholds": [50], **of_acme}
    )
    for set_by in ("tenant", "platform") if row[0] == "DELETE" and row[1].endswith("spend-cap") else ():
        cap: dict[str, Any] = {
            "currency": "EUR",
            "amount_minor": 1,
            "action": "stop",
            "changed_at": datetime.now(UTC),
            "changed_by": "admin",
        }
        SpendCap.unscoped.get_or_create(tenant="acme", tenant_uid=of_acme["tenant_uid"], set_by=set_by, defaults=cap)
    report = {"name": "Daily", "every": "day", "by": "topic", "made_until": "2026-03-01", **of_acme}
    ReportSchedule.unscoped.update_or_create(id="s1", defaults=report)


SETTING = "/admin/v2/brokers/configuration/subscribeThrottlingRatePerConsumer"


def route_names() -> dict[tuple[str, str], tuple[str, str]]:
    """(method, path) -> (method, route name)."""
    return {(method, path): (method, resolve(path).view_name) for method, path, _ in addresses()}


def test_every_audited_route_leaves_a_record(world: World, call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the superuser: what is carried out is in the log, under the name of its row, with who, from where and the request."""
    allows = msgspec.structs.replace(django_settings.MAGNETAR, token_issuers_allowed=(f"acme={LOGIN}",))
    monkeypatch.setattr(django_settings, "MAGNETAR", allows)
    names = route_names()
    token_of_k1 = issue_token(django_settings.MAGNETAR, "app@acme", "k1", int(time.time()))
    tried = []
    for method, path, _ in addresses():
        row = names[method, path]
        if (
            row not in AUDITED
            or row in ELSEWHERE
            or row in (("DELETE", "api:tenant"), ("DELETE", "admin_v2:tenant"), ("PUT", "admin_v2:tenant"))
        ):
            continue
        prepare(world, row)
        if row == ("GET", "admin_v2:message"):
            last = call("GET", "/admin/v2/persistent/acme/orders/t/lastMessageId").json()
            path = f"/admin/v2/persistent/acme/orders/t/ledger/{last['ledgerId']}/entry/{last['entryId']}"
        if row[1] in ("api:delayed-message", "api:message"):
            last = call("GET", "/admin/v2/persistent/acme/orders/t/lastMessageId").json()
            path = f"{path.rpartition('/')[0]}/{last['ledgerId']}:{last['entryId']}"
        if row[1] == "admin_v2:brokers-dynamic-value":
            path = f"{SETTING}/7"
        if row[1] == "admin_v2:brokers-dynamic-name":
            assert call("POST", f"{SETTING}/8").status_code == 200
            path = SETTING
        path += "?key=k" if row == ("DELETE", "api:delayed") else ""
        body = {"token": token_of_k1} if row[1] == "api:key-revoke-token" else BODIES.get(row)
        force = "?force=true" if method == "DELETE" and row[1].rpartition(":")[2] in ("namespace", "topic", "partitions") else ""
        before = AuditRecord.unscoped.count()
        answer = call(method, path + force, body if body is not None else _value_of(row))
        if answer.status_code >= 400:
            assert row[1].startswith(POLICIES) or row[1].endswith("backlog-quota"), (row, answer.content)
            continue
        tried.append(row)
        record = AuditRecord.unscoped.latest("id")
        assert AuditRecord.unscoped.count() > before, row
        assert record.action == AUDITED[row], row
        assert (record.role, record.address, record.request_id) == ("admin", "127.0.0.1", answer.headers["X-Request-ID"]), row
        assert record.tenant_uid or row in OF_THE_PLATFORM, row
    assert len(tried) > 55


OF_THE_PLATFORM = {
    ("PUT", "api:platform-audit-stream"), ("DELETE", "api:platform-audit-stream"), ("DELETE", "api:recycled-tenant"),
    ("PUT", "api:platform-notifications"), ("POST", "api:audit-heads"), ("POST", "api:audit-verification"),
    ("POST", "admin_v2:brokers-dynamic-value"), ("DELETE", "admin_v2:brokers-dynamic-name"),
    ("POST", "admin_v2:cluster-domain"), ("DELETE", "admin_v2:cluster-domain"),
    ("POST", "admin_v2:cluster-isolation-policy"), ("DELETE", "admin_v2:cluster-isolation-policy"),
    ("POST", "api:tenants"), ("DELETE", "api:task-run"), ("POST", "api:task-run-requeue"), ("PUT", "billing:issuer"),
    ("PUT", "api:administrator"), ("DELETE", "api:administrator"),
}  # fmt: skip

POLICIES = ("admin_v2:policy-", "admin_v2:topic-policy-")


def _value_of(row: tuple[str, str]) -> Any:
    """Policies are tried with a value that most of them take."""
    return None if row[0] == "DELETE" or not row[1].startswith(POLICIES) else 1


def test_a_large_value_is_told_by_its_hash(world: World) -> None:
    """32 KiB of properties, set again and again, wrote 64 KiB a time into a log that is never deleted."""
    olga = world.actor("olga")
    actions.set_policies(olga, "acme/orders", {"properties": dict.fromkeys("abcd", "x" * 5_000), "message_ttl_s": 7})
    actions.set_policies(olga, "acme/orders", {"properties": dict.fromkeys("abcd", "y" * 5_000)})
    records: list[Any] = list(AuditRecord.unscoped.filter(action="namespace.set_policies").order_by("id"))
    first, second = records
    assert len(msgspec.json.encode([second.before, second.after])) < 2_000
    assert first.after["policies"]["message_ttl_s"] == 7
    told, before, after = (one["policies"]["properties"] for one in (first.after, second.before, second.after))
    assert told.startswith("20") and "bytes, SHA-256" in told
    assert told == before != after


def test_tenants_made_changed_and_deleted_by_either_api(world: World, call: Caller) -> None:
    call("PUT", "/admin/v2/tenants/fresh", {"allowedClusters": ["standalone"]})
    call("DELETE", "/admin/v2/tenants/fresh")
    call("POST", "/api/v1/tenants", {"name": "fresh"})
    call("DELETE", "/api/v1/tenants/fresh")
    seen = AuditRecord.unscoped.filter(tenant="fresh").order_by("id").values_list("action", flat=True)
    assert list(seen) == ["tenant.create", "tenant.delete"] * 2


def test_a_record_says_what_was_asked_for(world: World, caller: Callable[[str], Caller]) -> None:
    world.broker.add(TOPIC, "s")
    world.broker.publish(TOPIC, *(b"%d" % number for number in range(10)))
    olga, before = caller("olga"), world.broker.mark_delete(TOPIC, "s")
    base = "/admin/v2/persistent/acme/orders/t/subscription/s"
    olga("POST", f"{base}/skip/7")
    skipped = world.broker.mark_delete(TOPIC, "s")
    olga("POST", f"{base}/resetcursor", {"ledgerId": 3, "entryId": 4})
    assert olga("GET", f"{base}/position/2").status_code == 200
    found = {record.action: record for record in AuditRecord.unscoped.filter(role="user:olga")}
    assert found["subscription.skip"].before == {TOPIC: before}
    assert found["subscription.skip"].after == {"entries": "7", TOPIC: skipped}
    assert before != skipped
    assert "ledgerId" in found["subscription.reset"].after["body"]  # type: ignore[index]
    assert found["subscription.peek"].after == {"position": "2"}
    assert {found[name].resource for name in ("subscription.skip", "subscription.reset", "subscription.peek")} == {f"{TOPIC}/s"}


def test_many_subscriptions_at_once_are_recorded_one_by_one(world: World, caller: Callable[[str], Caller]) -> None:
    """Those of one topic took each other's place in the record; clearing a namespace's backlog said nothing of where they stood."""
    olga, both = caller("olga"), (f"{TOPIC}/a", f"{TOPIC}/b")

    def places() -> dict[str, str]:
        return {name: world.broker.mark_delete(TOPIC, name.rpartition("/")[2]) for name in both}

    world.broker.add(TOPIC, "a", "b")
    for path, action in (
        ("/admin/v2/persistent/acme/orders/t/all_subscription/expireMessages/60", "topic.expire"),
        ("/admin/v2/namespaces/acme/orders/clearBacklog", "namespace.clear_backlog"),
    ):
        world.broker.publish(TOPIC, b"one", b"two")
        before, world.broker.ahead_s = places(), world.broker.ahead_s + 61
        assert olga("POST", path).status_code == 204
        record = AuditRecord.unscoped.get(action=action)
        assert record.before == before, action
        after = places()
        assert record.after is not None and {name: record.after[name] for name in both} == after, action
        assert len({*before.values(), *after.values()}) == 2, action


def test_what_is_created_or_deleted_says_where_it_stood(world: World, caller: Callable[[str], Caller]) -> None:
    world.broker.add(TOPIC)
    world.broker.publish(TOPIC, b"one")
    olga, path = caller("olga"), "/admin/v2/persistent/acme/orders/t/subscription/s"
    assert olga("PUT", path, "latest").status_code == 204
    place = world.broker.mark_delete(TOPIC, "s")
    assert place != "-1:-1"
    assert olga("DELETE", path).status_code == 204
    world.broker.add(TOPIC, "s")
    assert olga("POST", "/admin/v2/namespaces/acme/orders/unsubscribe/s").status_code == 204
    found = {record.action: record for record in AuditRecord.unscoped.filter(role="user:olga")}
    assert found["subscription.create"].before is None
    assert (found["subscription.create"].after or {})[TOPIC] == place
    for action in ("subscription.delete", "namespace.unsubscribe"):
        assert found[action].before == {TOPIC: place}, action


def test_growing_a_topic_says_from_how_many_partitions(world: World, caller: Callable[[str], Caller]) -> None:
    world.broker.add_partitioned(PARTITIONED, 2)
    assert caller("olga")("POST", "/admin/v2/persistent/acme/orders/p/partitions", 5).status_code == 204
    record = AuditRecord.unscoped.get(action="topic.grow")
    assert (record.before, record.after) == ({"partitions": 2}, {"partitions": 5, "body": "5"})
