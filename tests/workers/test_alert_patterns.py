"""Alert rules with patterns, silence, and notices that go to a topic."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from datetime import date
from typing import Any, NoReturn

import msgspec
import pytest
from django.db import connection

from messaging.adminrpc.messages import MessagesList
from messaging.adminrpc.methods import MESSAGES_LIST, MESSAGES_PUBLISH
from messaging.errors import NotFound, NotReady
from messaging.protocol.names import parse_topic
from tenants.models import Tenant
from tenants.scoping import platform_scope
from tests.support.brokers.worker_broker import Clock, WorkerBroker
from workers.alerts import patterns, tasks, webhooks
from workers.alerts.actions import send_again
from workers.alerts.models import AlertRule, Notice, NotificationTarget
from workers.alerts.notices import NO_RULE, OfRule, TenantRef, say
from workers.alerts.patterns import matching_topics
from workers.alerts.tasks import evaluate_alerts, send_notice
from workers.environment import Environment
from workers.models import TaskRun
from workers.runs import run_recorded
from workers.schedule import EVALUATE_ALERTS, SEND_NOTICE

N = "persistent://acme/kept"


@pytest.fixture(autouse=True)
def asked(db: None) -> None:
    Tenant.unscoped.create(name="acme", uid="u1", admin_roles=[], allowed_clusters=[])


def rule(clock: Clock, **fields: Any) -> AlertRule:
    values: dict[str, Any] = {"topic": f"{N}/pay-*", "is_pattern": True, "threshold": 2, "clear": 1, "tenant_uid": "u1", **fields}
    return AlertRule.unscoped.create(name="backlog", kind="backlog_entries", tenant="acme", created_at=clock(), **values)


def look(environment: Environment, number: int) -> dict[str, Any]:
    return run_recorded(environment, EVALUATE_ALERTS, f"look-{number}", evaluate_alerts)


def said() -> list[str]:
    return [notice.title for notice in Notice.unscoped.order_by("at", "title")]


def test_topics_that_match_are_found_by_name_and_bounded(
    environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("aaa", "pay-a", "pay-b", "pay-ba", "pax", "zzz"):
        broker.real.add(f"{N}/{name}", "s")
    broker.real.run(broker.real.service.topics.partitioned.create(parse_topic(f"{N}/pay-p"), 3, {}))
    everything = [f"{N}/{name}" for name in ("pay-a", "pay-b", "pay-ba", "pay-p")]
    assert matching_topics(environment.rpc, f"{N}/pay-*") == (everything, True)
    assert matching_topics(environment.rpc, f"{N}/*a").topics == [f"{N}/{name}" for name in ("aaa", "pay-a", "pay-ba")]
    monkeypatch.setattr(patterns, "PAGE", 1)
    assert matching_topics(environment.rpc, f"{N}/pay-*") == (everything, True)
    monkeypatch.setattr(patterns, "PAGES_MAX", 4)
    assert matching_topics(environment.rpc, f"{N}/z*") == ([f"{N}/zzz"], True), "names that begin otherwise are not read"
    monkeypatch.setattr(patterns, "PARTITIONS_MAX", 2)
    assert matching_topics(environment.rpc, f"{N}/pay-*") == (everything[:3], False), "so many partitions are not looked at"
    monkeypatch.setattr(patterns, "TOPICS_MAX", 2)
    assert matching_topics(environment.rpc, f"{N}/pay-*") == (everything[:2], False)
    monkeypatch.setattr(patterns, "PAGES_MAX", 1)
    assert matching_topics(environment.rpc, f"{N}/*z").complete is False


def test_each_topic_of_a_pattern_fires_and_is_over_by_itself(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    for name in ("pay-a", "pay-b", "other"):
        broker.real.add(f"{N}/{name}", "s")
        broker.real.publish(f"{N}/{name}", b"m")
    rule(clock, runbook_url="https://books.example/backlog")
    assert look(environment, 0)["fired"] == 0
    broker.real.publish(f"{N}/pay-a", b"m", b"m")
    broker.real.publish(f"{N}/other", b"m", b"m")
    clock.advance(60)
    assert look(environment, 1)["fired"] == 1
    broker.real.publish(f"{N}/pay-b", b"m")
    clock.advance(60)
    look(environment, 2)
    assert said() == ["Alert 'backlog' fired: pay-a", "Alert 'backlog' fired: pay-b"]
    row = AlertRule.unscoped.get()
    assert (row.firing, row.value, [(name, stands.firing) for name, stands in row.by_topic]) == (
        True,
        3,
        [(f"{N}/pay-a", True), (f"{N}/pay-b", True)],
    )
    broker.real.run(broker.real.service.topics.delete(parse_topic(f"{N}/pay-a"), force=True))
    broker.real.add(f"{N}/pay-new", "s")
    clock.advance(60)
    look(environment, 3)
    assert said()[-1] == "Alert 'backlog' is over: pay-a" and AlertRule.unscoped.get().firing
    broker.real.run(broker.real.service.topics.loaded[f"{N}/pay-b"].subscriptions.delete("s"))
    clock.advance(60)
    assert look(environment, 4)["over"] == 1
    assert said()[-1] == "Alert 'backlog' is over: pay-b"
    assert {(notice.rule, notice.runbook_url) for notice in Notice.unscoped.all()} == {(row.id, row.runbook_url)}


def test_of_a_topic_that_is_crowded_out_it_is_not_said_that_it_is_gone(
    environment: Environment, broker: WorkerBroker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "TOPICS_MAX", 1)
    broker.real.add(f"{N}/pay-b", "s")
    broker.real.publish(f"{N}/pay-b", b"m", b"m")
    rule(clock)
    look(environment, 0)
    broker.real.add(f"{N}/pay-a", "s")
    clock.advance(60)
    look(environment, 1)
    row = AlertRule.unscoped.get()
    notice = Notice.unscoped.get(kind="alert_over")
    assert "more topics match than a rule looks at" in notice.text and row.topics_left_out and not row.firing


def test_a_broker_that_is_away_leaves_a_pattern_as_it_was(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    broker.real.add(f"{N}/pay-a", "s")
    broker.real.publish(f"{N}/pay-a", b"m", b"m")
    rule(clock)
    look(environment, 0)
    broker.cut()
    assert look(environment, 1)["problems"] == 1
    row = AlertRule.unscoped.get()
    assert row.firing and row.problem and row.topics
    assert not any(standing.unknown for _, standing in row.by_topic), "not one of them in particular"
    broker.mend()
    look(environment, 2)
    assert AlertRule.unscoped.get().problem == "" and len(said()) == 1


def test_what_a_silenced_rule_says_is_written_and_not_sent(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    NotificationTarget.unscoped.create(tenant="acme", tenant_uid="u1", topic=f"{N}/notices")
    broker.real.add(f"{N}/pay-a", "s")
    row = rule(clock, silenced_until=clock())
    clock.advance(-600)
    broker.real.publish(f"{N}/pay-a", b"m", b"m")
    look(environment, 0)
    assert "silenced until" in Notice.unscoped.get().delivered["silenced"]
    assert not TaskRun.objects.filter(name=SEND_NOTICE).exists()
    clock.advance(300)
    look(environment, 1)
    assert AlertRule.unscoped.get().silenced_until == row.silenced_until
    clock.advance(300)
    look(environment, 2)
    assert AlertRule.unscoped.get().silenced_until is None
    assert said()[-1] == "Alert 'backlog' fires, and was silenced: pay-a"
    assert TaskRun.objects.filter(name=SEND_NOTICE).count() == 1
    clock.advance(60)
    look(environment, 3)
    assert len(said()) == 2, "that is said once"


def noticed(clock: Clock, **target: Any) -> Notice:
    NotificationTarget.unscoped.create(tenant="acme", tenant_uid="u1", **target)
    notice = say(clock(), TenantRef("acme", "u1"), "alert_fired", "s", "title", "text", of=OfRule("r1", "https://books.example/"))
    assert notice is not None
    return notice


def deliver(environment: Environment, notice: Notice, number: int = 0) -> dict[str, Any]:
    return run_recorded(environment, SEND_NOTICE, f"send-{number}", send_notice, notice=notice.id)


def test_a_notice_is_published_to_a_topic_once(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    topic = f"{N}/notices"
    broker.real.add(topic, "s")
    notice = noticed(clock, topic=topic)
    for number in range(2):
        assert deliver(environment, notice, number)["topic"] == f"published to {topic}"
    broker.real.identity = "web"  # a worker may not read
    [message] = broker.real.call(MESSAGES_LIST, MessagesList(topic=topic)).messages
    body = json.loads(base64.b64decode(message.payload))
    assert (body["id"], body["title"], body["rule"], body["runbook_url"]) == (notice.id, "title", "r1", "https://books.example/")


def test_a_topic_that_fails_holds_up_no_other_way_and_is_tried_again(
    environment: Environment, broker: WorkerBroker, clock: Clock
) -> None:
    """The webhook is one that is not allowed: that is said at once, and not tried again."""
    notice = noticed(clock, topic=f"{N}/notices", webhook_url="http://127.0.0.1:9/")
    broker.divert(MESSAGES_PUBLISH, lambda asked: _raise(NotReady("the broker is busy")))
    with pytest.raises(NotReady):
        send_notice(environment, "t", lambda **_: None, notice.id)
    notice.refresh_from_db()
    assert list(notice.delivered) == ["webhook"] and "not public" in notice.delivered["webhook"]
    broker.divert(MESSAGES_PUBLISH, lambda asked: _raise(NotFound("namespace acme/kept does not exist")))
    deliver(environment, notice, 2)
    notice.refresh_from_db()
    assert "does not exist" in notice.delivered["topic"], "trying again would not help"


def test_a_topic_whose_broker_is_away_is_tried_after_every_other_way(
    environment: Environment, broker: WorkerBroker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told of trouble by webhook is not told later because the broker of the topic stands still."""
    order: list[str] = []

    def published(_: object) -> NoReturn:
        order.append("topic")
        raise NotReady("the broker is busy")

    broker.divert(MESSAGES_PUBLISH, published)

    def called(*_: object) -> int:
        order.append("webhook")
        return 200

    monkeypatch.setattr(webhooks, "post", called)
    notice = noticed(clock, topic=f"{N}/notices", webhook_url="https://hook.example/")
    with pytest.raises(NotReady):
        send_notice(environment, "t", lambda **_: None, notice.id)
    assert order == ["webhook", "topic"]


def _raise(error: Exception) -> None:
    raise error


def test_rules_with_patterns_call_the_webhook_so_often_a_day_and_others_always(
    environment: Environment, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    monkeypatch.setattr(webhooks, "post", lambda url, secret, notice_id, *rest: called.append(notice_id) or 200)
    NotificationTarget.unscoped.create(tenant="acme", tenant_uid="u1", webhook_url="https://hook.example/in", secret="s")
    settings = msgspec.structs.replace(environment.settings, pattern_webhooks_per_day_max=2)
    limited = Environment(settings, environment.rpc, now=clock)
    pattern, alone = rule(clock), rule(clock, topic=f"{N}/pay-a", is_pattern=False)

    def send(number: int, of: AlertRule | None) -> str:
        whose = OfRule(of.id) if of is not None else NO_RULE
        notice = say(clock(), TenantRef("acme", "u1"), "alert_fired", f"s{number}", f"T{number}", "X", of=whose)
        assert notice is not None
        how: str = run_recorded(limited, SEND_NOTICE, f"d{number}", send_notice, notice=notice.id)["webhook"]
        return how

    assert [send(number, pattern) for number in range(2)] == ["answered 200"] * 2
    assert send(2, pattern).startswith("not called: the limit of 2 calls a day")
    assert send(3, pattern).startswith("not called") and len(called) == 2
    assert (send(4, alone), send(5, None)) == ("answered 200", "answered 200")
    assert Notice.unscoped.filter(kind="webhook_limit").count() == 1, "it is said once a day"
    pattern_id = OfRule(pattern.id)
    pattern.delete()
    again = rule(clock)
    assert send(6, again).startswith("not called"), "a rule that is deleted and made again calls no more often"
    left = say(clock(), TenantRef("acme", "u1"), "alert_fired", "left", "left", "X", of=pattern_id)
    assert left is not None and run_recorded(limited, SEND_NOTICE, "left", send_notice, notice=left.id)["webhook"].startswith("not")
    clock.advance(86_400)
    assert send(7, again) == "answered 200"


def test_calls_of_a_webhook_that_does_not_answer_count_too(
    environment: Environment, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who answers nothing was called without end, a thousand topics and all tries of each."""
    called: list[str] = []

    def post(url: str, secret: str, notice_id: str, *rest: Any) -> int:
        called.append(notice_id)
        raise NotReady("the webhook did not answer")

    monkeypatch.setattr(webhooks, "post", post)
    NotificationTarget.unscoped.create(tenant="acme", tenant_uid="u1", webhook_url="https://hook.example/in", secret="s")
    limited = Environment(msgspec.structs.replace(environment.settings, pattern_webhooks_per_day_max=3), environment.rpc, now=clock)
    pattern = OfRule(rule(clock).id)
    notices = [say(clock(), TenantRef("acme", "u1"), "alert_fired", f"s{number}", "T", "X", of=pattern) for number in range(3)]
    for notice in notices[:2] * 4:
        assert notice is not None
        with suppress(NotReady):
            send_notice(limited, "t", lambda **_: None, notice.id)
    assert len(called) == 3
    assert notices[2] is not None
    assert send_notice(limited, "t", lambda **_: None, notices[2].id)["webhook"].startswith("not called")


def test_notices_that_are_sent_again_count_for_the_same_limit(
    environment: Environment, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of days before: replays called the webhook as often as somebody asked."""
    called: list[str] = []
    monkeypatch.setattr(webhooks, "post", lambda url, secret, notice_id, *rest: called.append(notice_id) or 200)
    NotificationTarget.unscoped.create(tenant="acme", tenant_uid="u1", webhook_url="https://hook.example/in", secret="s")
    limited = Environment(msgspec.structs.replace(environment.settings, pattern_webhooks_per_day_max=3), environment.rpc, now=clock)
    notice = say(clock(), TenantRef("acme", "u1"), "alert_fired", "s", "T", "X", of=OfRule(rule(clock).id))
    assert notice is not None
    said: list[str] = []
    for _ in range(2):
        for _ in range(4):
            said.append(send_notice(limited, "t", lambda **_: None, notice.id)["webhook"])
            notice.refresh_from_db()
            send_again(notice)
        clock.advance(86_400)
    assert len(called) == 6 and [how.startswith("not called") for how in said] == ([False] * 3 + [True]) * 2


def test_the_first_calls_of_a_day_are_counted_at_the_same_time(db: None) -> None:
    """One of two workers was told that the limit was reached, because the other had begun the day in between."""
    target = NotificationTarget.unscoped.create(tenant="acme", tenant_uid="u1", webhook_url="https://hook.example/in", secret="s")
    found: list[bool] = []

    def another_first(execute: Any, sql: str, *more: Any) -> Any:
        if not found and sql.startswith("UPDATE") and "pattern_calls_on" in sql.partition("WHERE")[0]:
            found.append(False)
            found[0] = tasks.counted(target, date(2026, 3, 4), 2)
        return execute(sql, *more)

    with platform_scope(), connection.execute_wrapper(another_first):
        found.append(tasks.counted(target, date(2026, 3, 4), 2))
        assert found == [True, True] and not tasks.counted(target, date(2026, 3, 4), 2)


def test_a_worker_whose_clock_is_behind_midnight_does_not_begin_the_limit_anew(db: None) -> None:
    target = NotificationTarget.unscoped.create(tenant="acme", tenant_uid="u1", webhook_url="https://hook.example/in", secret="s")
    days = (date(2026, 3, 5), date(2026, 3, 4), date(2026, 3, 5), date(2026, 3, 4), date(2026, 3, 6))
    with platform_scope():
        assert [tasks.counted(target, day, 2) for day in days] == [True, True, False, False, True]
        assert not tasks.counted(target, date(2026, 3, 7), 0), "none are allowed"
