"""Alerts: hysteresis, what the stats say, webhooks that stay outside, notices that are said once."""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from messaging.errors import InvalidValue, NotAllowed
from messaging.protocol.names import parse_topic
from tenants.models import Key, Tenant
from tests.support.brokers.worker_broker import START, Clock, WorkerBroker
from tests.support.webhook_receiver import WebhookReceiver
from workers import mail
from workers.alerts import tasks, webhooks
from workers.alerts.failing import failing_of
from workers.alerts.models import AlertRule, Notice, NotificationTarget
from workers.alerts.rules import Reading, Standing, judge, read, read_partitions, sum_of
from workers.alerts.tasks import evaluate_alerts, notice_expiring_keys, send_notice
from workers.alerts.webhooks import address_of, check_url, networks, signature
from workers.environment import Environment
from workers.runs import run_recorded
from workers.schedule import EVALUATE_ALERTS, NOTICE_KEYS, SEND_NOTICE

TOPIC = "persistent://acme/kept/t"
AT = START


def steps(*values: int, hold_s: int = 0) -> list[bool]:
    """One value a minute, with threshold 100 and clear 80."""
    standing, fired = Standing(False, None), []
    for minute, value in enumerate(values):
        standing = judge(standing, value, AT + timedelta(minutes=minute), threshold=100, clear=80, hold_s=hold_s)
        fired.append(standing.firing)
    return fired


def test_a_value_that_swings_around_the_threshold_fires_once() -> None:
    assert steps(99, 100, 90, 80, 99, 79, 99, 100) == [False, True, True, True, True, False, False, True]


def test_a_value_has_to_hold() -> None:
    assert steps(100, 100, 99, 100, 100, 100, hold_s=120) == [False, False, False, False, False, True]


STATS: dict[str, Any] = {
    "msgInCounter": 70,
    "publishRateLimitedTimes": 4,
    "subscriptions": {
        "a": {
            "msgBacklog": 5,
            "backlogSize": 500,
            "oldestBacklogMessageAgeSeconds": 60,
            "deliveryHealth": "blocked",
            "durable": True,
        },
        "b": {
            "msgBacklog": 7,
            "backlogSize": 300,
            "oldestBacklogMessageAgeSeconds": -1,
            "deliveryHealth": "abandoned",
            "durable": True,
        },
        "reader": {"deliveryHealth": "idle", "durable": False},
    },
}


@pytest.mark.parametrize(
    ("kind", "subscription", "before", "expected"),
    [
        ("backlog_entries", "", None, Reading(7)),
        ("backlog_entries", "a", None, Reading(5)),
        ("backlog_bytes", "", None, Reading(500)),
        ("backlog_age_s", "", None, Reading(60)),
        ("no_consumer", "", None, Reading(1)),
        ("no_consumer", "a", None, Reading(0)),
        ("no_consumer", "reader", None, Reading(0)),  # it ends by itself
        ("blocked", "", None, Reading(1)),
        ("blocked", "b", None, Reading(0)),
        ("backlog_entries", "gone", None, Reading(0)),
        ("messages_grow", "", None, Reading(0, 70)),
        ("messages_grow", "", 50, Reading(20, 70)),
        ("messages_grow", "", 90, Reading(70, 70)),
        ("publish_throttled", "", 1, Reading(3, 4)),
    ],
)
def test_a_rule_reads_its_figure_from_the_stats(kind: str, subscription: str, before: int | None, expected: Reading) -> None:
    assert read(kind, STATS, subscription, before) == expected


PARTS = {
    "0": STATS,
    "2": {
        "msgInCounter": 9,
        "publishRateLimitedTimes": 0,
        "subscriptions": {
            "a": {"msgBacklog": 4, "backlogSize": 40, "oldestBacklogMessageAgeSeconds": 90, "deliveryHealth": "blocked"},
            "b": {"msgBacklog": 1, "backlogSize": 10, "oldestBacklogMessageAgeSeconds": 1, "deliveryHealth": "good"},
        },
    },
}


@pytest.mark.parametrize(
    ("kind", "subscription", "total", "of_each"),
    [
        ("backlog_entries", "a", 9, [5, 4]),
        ("backlog_entries", "", 9, [7, 4]),  # that of one subscription, over all partitions
        ("backlog_bytes", "", 540, [500, 40]),
        ("backlog_age_s", "", 90, [60, 90]),
        ("no_consumer", "b", 1, [1, 0]),
        ("blocked", "", 2, [1, 1]),
        ("messages_grow", "", 20, [20, 0]),  # the second was not seen before
    ],
)
def test_a_rule_reads_the_figure_of_each_partition_and_their_sum(
    kind: str, subscription: str, total: int, of_each: list[int]
) -> None:
    readings = read_partitions(kind, PARTS, subscription, {"0": 50})
    assert [readings[index].value for index in ("0", "2")] == of_each
    assert sum_of(kind, PARTS, subscription, readings) == total


# --- webhooks


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
    ],
)
def test_a_webhook_reaches_no_address_of_the_platform(address: str) -> None:
    with pytest.raises(NotAllowed, match="not public"):
        address_of("hook.example", 443, [], lambda host, port: [address])
    with pytest.raises(NotAllowed):  # one bad address among good ones
        address_of("hook.example", 443, [], lambda host, port: ["93.184.215.14", address])


def test_an_administrator_allows_a_network() -> None:
    allowed = networks("10.1.0.0/16, fd00::/8")
    assert address_of("h", 443, allowed, lambda host, port: ["10.1.2.3"]) == "10.1.2.3"
    assert address_of("h", 443, [], lambda host, port: ["93.184.215.14"]) == "93.184.215.14"
    with pytest.raises(NotAllowed):
        address_of("h", 443, allowed, lambda host, port: ["10.2.0.1"])


@pytest.mark.parametrize(
    "url", ["ftp://h/", "http:///x", "https://user:pw@h/", "h", "https://h:99999/", "https://h/a b", "https://h/\r\nX: y"]
)
def test_a_url_that_is_no_webhook_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue):
        check_url(url)


# --- tasks


@pytest.fixture
def asked(db: None) -> None:
    Tenant.unscoped.create(name="acme", uid="u1", admin_roles=[], allowed_clusters=[])


def rule(clock: Clock, **fields: Any) -> AlertRule:
    values: dict[str, Any] = {"kind": "backlog_entries", "topic": TOPIC, "threshold": 3, "clear": 2, "tenant_uid": "u1", **fields}
    return AlertRule.unscoped.create(name="backlog", tenant="acme", created_at=clock(), **values)


def look(environment: Environment, number: int) -> dict[str, Any]:
    return run_recorded(environment, EVALUATE_ALERTS, f"look-{number}", evaluate_alerts)


def test_a_backlog_fires_once_and_is_over_once(environment: Environment, broker: WorkerBroker, clock: Clock, asked: None) -> None:
    broker.real.add(TOPIC, "s")
    rule(clock)
    fired = []
    for number in range(5):
        broker.real.publish(TOPIC, b"m")
        clock.advance(60)
        fired.append(look(environment, number)["fired"])
    assert fired == [0, 0, 1, 0, 0]
    broker.cut()
    assert look(environment, 9)["problems"] == 1
    assert AlertRule.unscoped.get().firing and AlertRule.unscoped.get().problem
    broker.mend()
    broker.real.run(broker.real.service.topics.loaded[TOPIC].subscriptions.delete("s"))
    assert look(environment, 10)["over"] == 1
    assert [notice.kind for notice in Notice.unscoped.order_by("at", "kind")] == ["alert_fired", "alert_over"]


def test_an_idle_topic_is_looked_at_without_loading_it(
    environment: Environment, broker: WorkerBroker, clock: Clock, asked: None
) -> None:
    """Each look loaded it, and so kept it loaded for ever."""
    broker.real.add(TOPIC, "s")
    broker.real.publish(TOPIC, b"m", b"m", b"m")
    rule(clock)
    rule(clock, kind="backlog_age_s", threshold=100, clear=1)
    rule(clock, kind="no_consumer", threshold=1, clear=1)
    rule(clock, kind="messages_grow", threshold=1, clear=1)
    assert look(environment, 0)["fired"] == 2
    broker.real.unload(TOPIC)
    loaded: list[str] = []
    broker.real.service.topics.on_loaded.append(lambda topic: loaded.append(topic.text))
    for number in range(1, 4):
        clock.advance(60)
        assert look(environment, number)["problems"] == 0
    assert loaded == []
    rules = {rule.kind: (rule.value, rule.firing) for rule in AlertRule.unscoped.all()}
    assert rules == {
        "backlog_entries": (3, True), "backlog_age_s": (180, True), "no_consumer": (1, True), "messages_grow": (0, False),
    }  # fmt: skip
    broker.real.publish(TOPIC, b"m")  # somebody uses it again
    assert loaded == [TOPIC] and look(environment, 4)["problems"] == 0
    assert AlertRule.unscoped.get(kind="backlog_entries").value == 4
    broker.real.run(broker.real.service.topics.delete(parse_topic(TOPIC), force=True))
    assert look(environment, 5)["problems"] == 4


def test_a_rule_on_a_partitioned_topic_is_about_all_partitions(
    environment: Environment, broker: WorkerBroker, clock: Clock, asked: None
) -> None:
    broker.real.run(broker.real.service.topics.partitioned.create(parse_topic(TOPIC), 3, {}))
    for index, count in ((0, 1), (2, 4)):
        broker.real.add(f"{TOPIC}-partition-{index}", "s")
        broker.real.publish(f"{TOPIC}-partition-{index}", *[b"m"] * count)
    rule(clock, threshold=5)
    looked = look(environment, 0)
    assert (looked["looked_at"], looked["fired"], looked["problems"]) == (1, 1, 0)
    looked_at = AlertRule.unscoped.get()
    assert (looked_at.value, looked_at.by_partition) == (5, [(2, 4), (0, 1), (1, 0)])
    assert Notice.unscoped.get().text.endswith(
        "is 5; the threshold is 5, and it is over below 2. Of its partitions, partition 2: 4, partition 0: 1."
    )


def test_growth_is_told_by_partition(environment: Environment, broker: WorkerBroker, clock: Clock, asked: None) -> None:
    """A partition that was loaded anew counts from 0: it does not hide what the others rose by."""
    broker.real.run(broker.real.service.topics.partitioned.create(parse_topic(TOPIC), 2, {}))
    parts = [f"{TOPIC}-partition-{index}" for index in range(2)]
    for part in parts:
        broker.real.add(part, "s")
    broker.real.publish(parts[0], *[b"m"] * 10)
    rule(clock, kind="messages_grow", threshold=100, clear=1)
    look(environment, 0)
    assert AlertRule.unscoped.get().value == 0
    broker.real.unload(parts[0])
    broker.real.publish(parts[0], b"m")
    broker.real.publish(parts[1], *[b"m"] * 7)
    look(environment, 1)
    assert AlertRule.unscoped.get().value == 8


def test_a_topic_is_looked_at_once_for_all_its_rules(
    environment: Environment, broker: WorkerBroker, clock: Clock, asked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 rules on one topic asked for its whole stats 100 times."""
    other = f"{TOPIC}-other"
    for topic in (TOPIC, other):
        broker.real.add(topic, "s")
    for _ in range(3):
        for topic in (TOPIC, other, f"{TOPIC}-gone"):
            rule(clock, topic=topic, kind="no_consumer", threshold=1, clear=1)
    calls: list[tuple[str, str]] = []
    call = environment.rpc.call

    def counted(method: Any, request: Any) -> Any:
        if method.name.startswith("topics."):
            calls.append((method.name, request.topic))
        return call(method, request)

    monkeypatch.setattr(environment.rpc, "call", counted)
    outcome = look(environment, 0)
    assert (outcome["fired"], outcome["problems"]) == (6, 3)
    assert sorted(calls) == [("topics.figures", topic) for topic in (TOPIC, f"{TOPIC}-gone", other)]


def test_a_rule_that_cannot_be_looked_at_holds_up_no_other(
    environment: Environment, broker: WorkerBroker, clock: Clock, asked: None
) -> None:
    """Whatever is raised for one tenant's rule; the next run looks at it again."""
    Tenant.unscoped.create(name="other", uid="u2", admin_roles=[], allowed_clusters=[])
    broken = rule(clock, kind="no_such_kind")
    broken.tenant, broken.tenant_uid, broken.id = "other", "u2", "0" * 32
    broken.save()
    broker.real.add(TOPIC, "s")
    broker.real.publish(TOPIC, *[b"m"] * 3)
    AlertRule.unscoped.exclude(id=broken.id).update(kind="backlog_entries")
    assert [(done["fired"], done["problems"]) for done in (look(environment, 1), look(environment, 2))] == [(1, 1), (0, 1)]
    assert AlertRule.unscoped.get(id=broken.id).problem == "KeyError: 'no_such_kind'"


def test_a_rule_of_a_former_tenant_says_nothing_to_the_new_one(
    environment: Environment, broker: WorkerBroker, clock: Clock, asked: None
) -> None:
    broker.real.add(TOPIC, "s")
    broker.real.publish(TOPIC, *[b"m"] * 5)
    rule(clock, tenant_uid="of the former one")
    assert look(environment, 1)["looked_at"] == 0
    assert not AlertRule.unscoped.exists() and not Notice.unscoped.exists()


def key(expires_at: datetime, **fields: Any) -> None:
    Key.unscoped.create(
        id=f"k{Key.unscoped.count()}", tenant_id="acme", name="app", role="app@acme", expires_at=expires_at, **fields
    )


def test_a_key_that_expires_is_said_two_weeks_one_week_and_one_day_before(
    environment: Environment, clock: Clock, asked: None
) -> None:
    key(clock() + timedelta(days=20))
    key(clock() + timedelta(days=3), revoked_at=clock())
    key(clock() + timedelta(hours=5))
    said = []
    for day in range(22):
        outcome = run_recorded(environment, NOTICE_KEYS, f"day-{day}", notice_expiring_keys)
        outcome = run_recorded(environment, NOTICE_KEYS, f"again-{day}", notice_expiring_keys) if not outcome["said"] else outcome
        said.append((day, outcome["said"]))
        clock.advance(86_400)
    assert [(day, count) for day, count in said if count] == [(0, 1), (6, 1), (13, 1), (19, 1)]


def noticed(clock: Clock, hook: WebhookReceiver, **target: Any) -> Notice:
    url = f"http://hook.example:{hook.port}/in?x=1"
    fields = {"webhook_url": url, "secret": "s3cret", **target}
    NotificationTarget.unscoped.create(tenant="acme", tenant_uid="u1", **fields)
    return Notice.unscoped.create(tenant="acme", tenant_uid="u1", subject="s", kind="alert_fired", title="T", text="X", at=clock())


def deliver(environment: Environment, notice: Notice) -> dict[str, Any]:
    return run_recorded(environment, SEND_NOTICE, "d1", send_notice, notice=notice.id)


def failing() -> dict[str, tuple[int, str]]:
    found = failing_of(NotificationTarget.unscoped.get())
    return {channel: (each.since_ms, each.why) for channel, each in found.items()}


def test_where_notices_do_not_arrive_is_known_since_the_first_until_one_does(
    environment: Environment, clock: Clock, asked: None, hook: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "resolved", lambda host, port: ["127.0.0.1"])
    answers = iter(["mail failed: TimeoutError", "no mail was sent: smtp_url is not set", "mailed to 1"])
    monkeypatch.setattr(mail, "send", lambda settings, to, subject, text, files: next(answers))
    allowed = Environment(
        msgspec.structs.replace(environment.settings, webhook_allowed_networks="127.0.0.0/8"), environment.rpc, now=clock
    )
    notice, began_ms = noticed(clock, hook, mail_to=["ops@example.com"]), int(clock().timestamp() * 1000)
    hook.statuses = [500, 500]
    refused = {"webhook": (began_ms, "the webhook at hook.example answered 500")}
    failed_mail = {"mail": (began_ms, "mail failed: TimeoutError")}
    for number, expected in enumerate((refused | failed_mail, refused | failed_mail, {})):
        run_recorded(allowed, SEND_NOTICE, f"d{number}", send_notice, notice=notice.id)
        assert failing() == expected
        clock.advance(3600)
        Notice.unscoped.update(delivered={})
    assert NotificationTarget.unscoped.get().failing is None


def test_a_notice_is_sent_signed_and_again_until_it_is_taken(
    environment: Environment, clock: Clock, asked: None, hook: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "resolved", lambda host, port: ["127.0.0.1"])
    mailed: list[str] = []
    monkeypatch.setattr(mail, "send", lambda settings, to, subject, text, files: mailed.extend(to) or "mailed to 1")
    notice = noticed(clock, hook, mail_to=["ops@example.com"])
    assert deliver(environment, notice)["webhook"].startswith("the webhook's host 'hook.example' has the address 127.0.0.1")
    assert not hook.requests and mailed == ["ops@example.com"]
    allowed = Environment(
        msgspec.structs.replace(environment.settings, webhook_allowed_networks="127.0.0.0/8"), environment.rpc, now=clock
    )
    Notice.unscoped.update(delivered={"mail": "mailed to 1"})
    hook.statuses = [500, 302]
    for outcome in ("retrying", "retrying", "succeeded"):
        assert run_recorded(allowed, SEND_NOTICE, "d2", send_notice, notice=notice.id)["outcome"] == outcome
        clock.advance(3600)
    assert len(hook.requests) == 3 and mailed == ["ops@example.com"]
    headers, body = hook.requests[-1]
    at, _, given = headers["X-Magnetar-Signature"].partition(",v1=")
    assert given == hmac.new(b"s3cret", at.removeprefix("t=").encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["X-Magnetar-Signature"] == signature("s3cret", int(at.removeprefix("t=")), body)
    assert msgspec.json.decode(body)["title"] == "T" and headers["X-Magnetar-Notice"] == notice.id
    assert tasks.DAYS_BEFORE == (14, 7, 1)
