"""What somebody made, or changed last, and is still there: all of it, once, to whom it may be told, however long the log is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from messaging.adminrpc.methods import TOPICS_FIGURES, TOPICS_TIMES
from messaging.permissions.model import user_role
from messaging.protocol.names import parse_topic
from tenants import actions
from tenants.actions.custom_roles import set_custom_role
from tenants.actions.invitations import invite
from tenants.actions.saved_views import save_view
from tenants.actions.teams import RoleOfTeam, set_team
from tenants.actions.topic_policies import set_topic_policies
from tenants.audit.chain import append
from tenants.models import AuditCheckpoint, AuditRecord, Key, Tenant, User
from tests.tenants.world import World
from workers.alerts import rule_actions
from workers.alerts.actions import set_target
from workers.audit_streams.actions import set_stream
from workers.billing import budget_actions
from workers.made.reading import OLD_MAX, before_the_log, read_made
from workers.spend_caps.actions import set_cap

AT = "/api/v1/tenants/acme/members/tom/made"
TOPIC = "persistent://acme/orders/t"
ALL = {
    ("key", "app"),
    ("role", "auditor"),
    ("team", "night"),
    ("invitation", "new@example.com"),
    ("permission", "app@acme: consume, acme/orders"),
    ("restriction", "acme/orders/s"),
    ("member", "eve: viewer"),
    ("alert_rule", "late"),
    ("notifications", "tom@example.com"),
    ("audit_stream", "hook.example"),
    ("report", "weekly"),
    ("budget", "all"),
    ("spend_cap", "the tenant: 5.00 EUR"),
    ("namespace", "acme/mine"),
    ("policies", "acme/mine"),
    ("topic", "persistent://acme/mine/made"),
    ("subscription", f"{TOPIC}/held"),
    ("view", "my keys"),
}


@pytest.fixture
def tom(world: World) -> Any:
    """An administrator of acme who makes one of everything."""
    olga = world.actor("olga")
    world.broker.add(TOPIC, "held")
    User.objects.create(username="eve")
    actions.set_member(olga, "acme", "tom", "admin")
    return world.actor("tom")


def make_everything(tom: Any) -> None:
    actions.create_key(tom, "acme", "app")
    set_custom_role(tom, "acme", "auditor", ["audit_read"], "")
    set_team(tom, "acme", "night", [RoleOfTeam("viewer")])
    invite(tom, "acme", "new@example.com", "viewer")
    actions.grant_permission(tom, "acme/orders", "app@acme", ["consume"])
    actions.restrict_subscription(tom, "acme/orders", "s", ["app@acme"])
    actions.set_member(tom, "acme", "eve", "viewer")
    rule_actions.create_rule(tom, "acme", {"name": "late", "kind": "backlog_entries", "topic": TOPIC})
    set_target(tom, "acme", "", ["tom@example.com"])
    set_stream(tom, "acme", "https://hook.example/in", oldest=False)
    budget_actions.create_schedule(tom, "acme", "weekly", "week", "namespace")
    budget_actions.create_budget(tom, "acme", "all", "5.00", "EUR")
    set_cap(tom, "acme", "tenant", "5.00", "EUR", "stop")
    actions.create_namespace(tom, "acme/mine")
    actions.set_policies(tom, "acme/mine", {"message_ttl_s": 60})
    actions.create_topic(tom, parse_topic("persistent://acme/mine/made"), None)
    actions.change.record(tom, "subscription.create", "acme", f"{TOPIC}/held")
    actions.change.record(tom, "subscription.create", "acme", f"{TOPIC}/gone")
    save_view(tom, User.objects.get(username="tom"), "my keys", "/tenants/acme/keys", "acme", shared=True)


def listed(caller: Any, path: str = AT) -> set[tuple[str, str]]:
    answer = caller("olga")("GET", path)
    assert answer.status_code == 200, answer.content
    return {(item["kind"], item["name"]) for item in answer.json()["items"]}


def test_all_that_somebody_made_is_told_after_their_membership_too(world: World, caller: Any, tom: Any) -> None:
    make_everything(tom)
    assert listed(caller) == ALL
    actions.remove_member(world.actor("olga"), "acme", "tom")
    items = caller("olga")("GET", AT).json()["items"]
    assert {(item["kind"], item["name"]) for item in items} == ALL and len(items) == len(ALL), "each once"
    how = {item["kind"]: item["how"] for item in items}
    assert {kind for kind in how if how[kind] == "changed"} == {"restriction", "notifications", "spend_cap", "policies"}
    key = next(item for item in items if item["kind"] == "key")
    record = AuditRecord.unscoped.get(id=key["record"])
    assert (key["id"], record.action, record.role) == (Key.unscoped.get(name="app").id, "key.create", "user:tom")
    assert caller("olga")("GET", "/api/v1/tenants/acme/members/nobody/made").json() == {"items": [], "next": None}


def test_what_is_gone_ended_or_made_anew_by_somebody_else_is_not_theirs(world: World, caller: Any, tom: Any) -> None:
    olga = world.actor("olga")
    make_everything(tom)
    actions.revoke_key(olga, "acme", Key.unscoped.get(name="app").id)
    actions.revoke_permission(olga, "acme/orders", "app@acme")
    actions.grant_permission(olga, "acme/orders", "app@acme", ["consume"])
    actions.delete_custom_role(olga, "acme", "auditor")
    set_custom_role(olga, "acme", "auditor", ["audit_read"], "")
    actions.set_policies(olga, "acme/mine", {"message_ttl_s": 61})
    actions.delete_topic(olga, parse_topic(TOPIC))
    missing = ALL - listed(caller)
    assert {kind for kind, _ in missing} == {"key", "permission", "role", "policies", "subscription"}
    assert ("role", "auditor") in missing


def test_what_somebody_else_made_is_theirs_while_they_changed_it_last(world: World, caller: Any, tom: Any) -> None:
    olga = world.actor("olga")
    rule = rule_actions.create_rule(olga, "acme", {"name": "late", "kind": "backlog_entries", "topic": TOPIC})
    mine = rule_actions.create_rule(tom, "acme", {"name": "own", "kind": "backlog_entries", "topic": TOPIC})
    for _ in range(3):
        rule_actions.change_rule(tom, "acme", rule.id, {"threshold": 5})
        rule_actions.change_rule(tom, "acme", mine.id, {"threshold": 5})
    items = caller("olga")("GET", AT).json()["items"]
    assert [(item["name"], item["how"], item["id"]) for item in items] == [("late", "changed", rule.id), ("own", "made", mine.id)]
    rule_actions.change_rule(olga, "acme", rule.id, {"threshold": 6})
    rule_actions.change_rule(olga, "acme", mine.id, {"threshold": 6})
    assert listed(caller) == {("alert_rule", "own")}, "they made it, whoever changed it"


def test_it_comes_in_pages_and_each_thing_once(world: World, caller: Any, tom: Any) -> None:
    make_everything(tom)
    found, path = [], f"{AT}?limit=4"
    while path:
        page = caller("olga")("GET", path).json()
        assert len(page["items"]) <= 4
        found += [(item["kind"], item["name"]) for item in page["items"]]
        path = f"{AT}?limit=4&after={page['next']}" if page["next"] else ""
    assert len(found) == len(ALL) and set(found) == ALL
    assert caller("olga")("GET", f"{AT}?after=x").status_code == 400


def test_who_does_not_administer_the_tenant_is_refused_and_billing_is_told_to_who_may_see_it(
    world: World, caller: Any, tom: Any
) -> None:
    make_everything(tom)
    for username, status in (("eve", 403), ("sam", 404)):
        assert caller(username)("GET", AT).status_code == status
    set_custom_role(world.actor("olga"), "acme", "people", ["tenant_admin"], "")
    actions.set_member(world.actor("olga"), "acme", "eve", "people")
    kinds = {item["kind"] for item in caller("eve")("GET", AT).json()["items"]}
    assert "key" in kinds and not kinds & {"report", "budget", "spend_cap", "redrive", "audit_stream"}


def test_while_no_broker_answers_it_is_not_known_whether_topics_are_there(world: World, caller: Any, tom: Any) -> None:
    make_everything(tom)
    world.line.cut()
    items = caller("olga")("GET", AT).json()["items"]
    assert {item["kind"] for item in items if item["exists"] is None} == {"topic", "subscription"}


def test_the_broker_is_asked_once_which_of_the_topics_there_are(world: World, tom: Any) -> None:
    """Of 1,000 records it was one call for each topic, each of which loaded it."""
    uid, names = Tenant.unscoped.get(name="acme").uid, [f"{TOPIC}-{number}" for number in range(60)]
    for name in names[::2]:
        world.broker.add(name)
    topics = [AuditRecord(role="user:tom", action="topic.create", resource=name, tenant="acme", tenant_uid=uid) for name in names]
    inside = [
        AuditRecord(role="user:tom", action="subscription.create", resource=f"{name}/s", tenant="acme", tenant_uid=uid)
        for name in (TOPIC, names[1])
    ]
    append([*topics, *inside])
    world.broker.add(TOPIC, "s")
    page = read_made(world.actor("olga"), "acme", user_role("tom"), limit=100)
    assert sorted(item.thing.name for item in page.items) == sorted([*names[::2], f"{TOPIC}/s"])
    assert len(world.line.called(TOPICS_TIMES)) == 2  # topics, and topics of subscriptions
    assert [request.topic for request in world.line.called(TOPICS_FIGURES)] == [TOPIC]


def test_a_page_costs_the_same_however_much_they_did_besides(world: World, tom: Any) -> None:
    uid = Tenant.unscoped.get(name="acme").uid
    make_everything(tom)

    def asked() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            read_made(world.actor("olga"), "acme", user_role("tom"), limit=100)
        return len(queries)

    before = asked()
    rows = [
        AuditRecord(role="user:tom", action="message.browse", resource=f"{TOPIC}-{number % 7}", tenant="acme", tenant_uid=uid)
        for number in range(3_000)
    ]
    append(rows)
    assert asked() == before


def test_what_is_older_than_the_log_is_told_as_such(world: World, tom: Any) -> None:
    make_everything(tom)
    assert before_the_log(world.actor("olga"), "acme", "user:tom").since is None
    at = timezone.now() + timedelta(seconds=5)
    AuditCheckpoint.objects.create(sequence=1, hash="x", at=at, records=1, statement="s")
    old = before_the_log(world.actor("olga"), "acme", "user:tom")
    assert old.since == at and {kind for kind, _ in old.made} == {"key", "invitation"}
    assert ("role", "auditor") in {(kind, thing.name) for kind, thing in old.unknown}
    assert ("namespace", "acme/orders") in {(kind, thing.name) for kind, thing in old.unknown}


def many_keys(created_by: str) -> None:
    rows = (Key(id=f"k{n}", name=f"k{n}", tenant_id="acme", role="k@acme", created_by=created_by) for n in range(OLD_MAX + 1))
    Key.unscoped.bulk_create(rows)
    AuditCheckpoint.objects.create(sequence=1, hash="x", at=timezone.now() + timedelta(seconds=5), records=1, statement="s")


def test_what_somebody_made_before_the_log_is_told_however_much_others_made_before_it(world: World, tom: Any) -> None:
    many_keys("user:olga")
    actions.create_key(tom, "acme", "app")
    old = before_the_log(world.actor("olga"), "acme", "user:tom")
    assert [thing.name for _, thing in old.made] == ["app"] and not old.more


def test_that_somebody_made_more_before_the_log_than_is_listed_is_told(world: World, tom: Any) -> None:
    many_keys("user:tom")
    old = before_the_log(world.actor("olga"), "acme", "user:tom")
    assert len(old.made) == OLD_MAX and old.more


def test_policies_of_a_topic_and_of_each_of_its_subscriptions_are_told_apart(world: World, caller: Any, tom: Any) -> None:
    topic = parse_topic(TOPIC)
    set_topic_policies(tom, topic, {"message_ttl_s": 60})
    for subscription in ("a", "b"):
        set_topic_policies(tom, topic, {"subscription_dispatch_rate_messages": 5}, subscription)
    assert listed(caller) == {("policies", TOPIC), ("policies", f"{TOPIC}/a"), ("policies", f"{TOPIC}/b")}
