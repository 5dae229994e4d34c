"""Alert rules over our API: a rule that could never say anything is refused when it is made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from messaging.protocol.names import parse_topic
from tenants.models import AuditRecord
from tenants.scoping import tenant_scope
from tests.tenants.world import World
from workers.alerts import actions, rule_actions
from workers.alerts.models import AlertRule, Notice, NotificationTarget
from workers.alerts.patterns import PARTITIONS_MAX

TOPIC = "persistent://acme/orders/t"
RULES = "/api/v1/tenants/acme/alert-rules"


def rule(topic: str = TOPIC) -> dict[str, Any]:
    return {"name": "n", "kind": "backlog_entries", "topic": topic}


def partitioned(world: World, topic: str, partitions: int) -> None:
    world.broker.run(world.broker.service.topics.partitioned.create(parse_topic(topic), partitions, {}))


@pytest.mark.parametrize(
    ("topic", "status", "words"),
    [
        (TOPIC, 404, f"topic {TOPIC} does not exist"),
        (f"{TOPIC}-partition-9", 404, f"{TOPIC}-partition-9"),
        ("persistent://acme/gone/t", 404, "acme/gone"),
        ("persistent://acme/orders/.*[a]", 400, "in a pattern * stands for any characters, and nothing else does"),
        ("persistent://acme/orders/t+", 400, "in a pattern * stands for any characters"),
        ("persistent://acme/orders/" + 40 * "*a", 400, "times *"),
        ("persistent://acme/gone/t*", 404, "acme/gone"),
        ("persistent://acme/.*/t", 400, "namespace name '.*' is not valid"),
        ("persistent://other/things/t", 400, "is not a topic of tenant acme"),
        ("t", 400, "is not a topic of tenant acme"),
    ],
)
def test_a_rule_is_about_a_topic_that_exists(world: World, caller: Any, topic: str, status: int, words: str) -> None:
    response = caller("olga")("POST", RULES, rule(topic))
    assert (response.status_code, words in response.json()["detail"]) == (status, True), response.json()
    assert not AlertRule.unscoped.exists()


def test_a_rule_may_be_about_a_topic_a_partitioned_one_or_a_partition(world: World, caller: Any) -> None:
    world.broker.add(TOPIC, "s")
    world.broker.add("persistent://acme/orders/a+b", "s")  # a name, however much it looks like a pattern
    partitioned(world, "persistent://acme/orders/p", 2)
    world.broker.add("persistent://acme/orders/p-partition-1", "s")
    for topic in (TOPIC, "persistent://acme/orders/a+b", "persistent://acme/orders/p", "persistent://acme/orders/p-partition-1"):
        response = caller("olga")("POST", RULES, rule(topic))
        assert (response.status_code, response.json()["partitions"]) == (201, []), response.json()


def test_a_deleted_rule_is_there_again_with_what_it_said(world: World, caller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world.broker.add(TOPIC, "s")
    olga = caller("olga")
    made = olga("POST", RULES, {**rule(), "threshold": 7, "clear": 3, "runbook_url": "https://example.com/r"}).json()
    at = f"{RULES}/{made['id']}"
    assert olga("POST", f"{at}/restore").status_code == 404, "it is there"
    assert olga("DELETE", at).status_code == 204 and olga("GET", at).status_code == 404
    assert caller("tom")("POST", f"{at}/restore").status_code == 403 and caller("sam")("POST", f"{at}/restore").status_code == 404
    assert caller("sam")("POST", f"/api/v1/tenants/other/alert-rules/{made['id']}/restore").status_code == 404
    monkeypatch.setattr(rule_actions, "RULES_MAX", 0)
    assert olga("POST", f"{at}/restore").status_code in (404, 412), "there are too many"
    monkeypatch.undo()
    again = olga("POST", f"{at}/restore")
    assert again.status_code == 200, again.content
    told = ("id", "name", "kind", "topic", "threshold", "clear", "runbook_url")
    assert {name: again.json()[name] for name in told} == {name: made[name] for name in told} and not again.json()["firing"]
    assert AuditRecord.unscoped.filter(action="alert_rule.restore").count() == 1
    assert olga("POST", f"{at}/restore").status_code == 404, "once"
    assert olga("DELETE", at).status_code == 204
    later = datetime.now(UTC) + timedelta(hours=rule_actions.UNDO_H, minutes=1)
    with tenant_scope("acme"):
        assert [one.id for one in rule_actions.former_rules(datetime.now(UTC), 9)] == [made["id"]]
        assert rule_actions.former_rules(later, 9) == []


def test_who_takes_a_deletion_back_while_somebody_else_does_is_told_so(
    world: World, caller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.broker.add(TOPIC, "s")
    olga = caller("olga")
    at = f"{RULES}/{olga('POST', RULES, rule()).json()['id']}"
    assert olga("DELETE", at).status_code == 204
    looked: list[Any] = []

    def while_another_does(now: datetime, limit: int) -> list[Any]:
        deleted = former_rules(now, limit)
        if not looked:
            looked.append(deleted)
            assert olga("POST", f"{at}/restore").status_code == 200
        return deleted

    former_rules = rule_actions.former_rules
    monkeypatch.setattr(rule_actions, "former_rules", while_another_does)
    late = olga("POST", f"{at}/restore")
    assert late.status_code == 409 and "somebody else" in late.json()["detail"]


def test_partitions_of_a_rule_are_limited(world: World, caller: Any) -> None:
    partitioned(world, TOPIC, PARTITIONS_MAX + 1)
    response = caller("olga")("POST", RULES, rule())
    assert response.status_code == 412
    assert f"{PARTITIONS_MAX + 1} partitions" in response.json()["detail"]


def test_somebody_without_the_right_does_not_learn_whether_a_topic_exists(world: World, caller: Any) -> None:
    world.broker.add(TOPIC, "s")
    for topic in (TOPIC, "persistent://acme/orders/gone"):
        assert caller("tom")("POST", RULES, rule(topic)).status_code == 403


def test_a_rule_may_be_about_a_pattern_and_there_are_few_of_them(
    world: World, caller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    olga = caller("olga")
    given = {**rule("persistent://acme/orders/pay-*"), "runbook_url": "https://books.example/x"}
    made = olga("POST", RULES, given)
    assert made.status_code == 201, made.json()
    assert (made.json()["is_pattern"], made.json()["topics"], made.json()["topics_left_out"]) == (True, [], False)
    assert made.json()["runbook_url"] == "https://books.example/x"
    monkeypatch.setattr(rule_actions, "PATTERNS_MAX", 1)
    refused = olga("POST", RULES, given)
    assert refused.status_code == 412 and "1 alert rules with a pattern" in refused.json()["detail"]
    assert olga("POST", RULES, {**given, "runbook_url": "javascript:alert(1)"}).status_code == 400


def test_a_rule_is_changed_and_silenced_by_those_who_operate(world: World, caller: Any) -> None:
    world.broker.add(TOPIC, "s")
    olga = caller("olga")
    at = f"{RULES}/{olga('POST', RULES, {**rule(), 'threshold': 10}).json()['id']}"
    changed = olga("PATCH", at, {"threshold": 20, "clear": 5, "runbook_url": "https://books.example/"}).json()
    assert (changed["threshold"], changed["clear"], changed["name"]) == (20, 5, "n")
    assert olga("PATCH", at, {"clear": 21}).status_code == 400
    assert olga("PATCH", at, {"runbook_url": "ftp://h/"}).status_code == 400
    silenced = olga("PUT", f"{at}/silence", {"for_s": 3600, "reason": "we move"}).json()
    assert silenced["silenced_until"] and (silenced["silenced_by"], silenced["silence_reason"]) != ("", "")
    for wrong in (0, 30 * 86_400 + 1):
        assert olga("PUT", f"{at}/silence", {"for_s": wrong}).status_code == 400
    assert olga("DELETE", f"{at}/silence").json()["silenced_by"] == ""
    assert olga("GET", f"{at}/notices").json() == {"items": [], "next": None}
    for method, path, body in (
        ("PATCH", at, {"threshold": 1}),
        ("PUT", f"{at}/silence", {"for_s": 60}),
        ("DELETE", f"{at}/silence", None),
    ):
        assert caller("tom")(method, path, body).status_code == 403
        assert caller("sam")(method, path, body).status_code == 404
        assert olga(method, f"{RULES}/gone" + path.removeprefix(at), body).status_code == 404
    assert caller("sam")("GET", f"{at}/notices").status_code == 404
    assert AlertRule.unscoped.get().threshold == 20


def test_notices_go_to_a_topic_of_the_tenant_to_which_one_may_publish(world: World, caller: Any) -> None:
    path = "/api/v1/tenants/acme/notifications"
    olga = caller("olga")
    for topic, status in (
        ("persistent://other/things/t", 400),
        ("t", 400),
        ("non-persistent://acme/orders/t", 400),
        ("persistent://acme/orders/__change_events", 400),
        ("persistent://acme/gone/t", 404),
    ):
        assert olga("PUT", path, {"topic": topic}).status_code == status, topic
    assert not NotificationTarget.unscoped.exists()
    assert olga("PUT", path, {"topic": TOPIC}).json()["topic"] == TOPIC
    assert caller("tom")("PUT", path, {"topic": TOPIC}).status_code == 403


def test_a_test_notice_is_sent_and_there_are_few_of_them(world: World, caller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/api/v1/tenants/acme/notifications"
    olga = caller("olga")
    refused = olga("POST", f"{path}/test")
    assert refused.status_code == 412 and "sent nowhere" in refused.json()["detail"]
    olga("PUT", path, {"topic": TOPIC})
    assert olga("POST", f"{path}/test").json()["kind"] == "test"
    assert caller("tom")("POST", f"{path}/test").status_code == 403
    assert caller("sam")("POST", f"{path}/test").status_code == 404
    monkeypatch.setattr(actions, "TESTS_PER_HOUR_MAX", 1)
    assert olga("POST", f"{path}/test").status_code == 429
    assert Notice.unscoped.count() == 1
