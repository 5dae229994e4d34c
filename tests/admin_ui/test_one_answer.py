"""For every kind of problem: whatever shows the thing that has it says it, and none of them says that all is well."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from admin_ui import platform_view
from controlplane.cli.remote.topics import explained
from messaging.adminrpc.diagnosis import SubscriptionExplain, TopicExplain
from messaging.adminrpc.methods import SUBSCRIPTIONS_EXPLAIN, TOPICS_EXPLAIN, TOPICS_STATS
from messaging.adminrpc.topics import StatsAsked
from messaging.broker.core.diagnosis.problems import Sign
from messaging.broker.runtime.admin import fewer_copies, live
from messaging.broker.runtime.problems import topic_signs
from messaging.broker.runtime.topics.topic import Topic
from messaging.problems.kinds import MARKS, Kind
from messaging.problems.order import Problem
from messaging.storage.ledger_store import EARLIEST
from tenants.models import Tenant
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from workers.alerts.models import AlertRule, PlatformAlert
from workers.models import TaskRun
from workers.schedule import TASKS

NAME = "persistent://acme/orders/placed"
TOPIC = f"{NAMESPACE}/topics/placed"
SUBSCRIPTION = f"{TOPIC}/subscriptions/billing"
OF_SUBSCRIPTION = (
    Kind.BLOCKED, Kind.DISPATCH_FAILED, Kind.DEAD_LETTERS_STUCK, Kind.NO_CONSUMER, Kind.DELAYED_LATE, Kind.DEAD_LETTERS,
    Kind.FALLING_BEHIND, Kind.DISPATCH_THROTTLED, Kind.UNACKNOWLEDGED,
)  # fmt: skip
OF_TOPIC = (Kind.PRODUCERS_HELD, Kind.SCHEMA_REFUSED, Kind.FEWER_COPIES, Kind.DEAD_LETTERS, Kind.PUBLISH_THROTTLED, Kind.UNREAD)
OF_PLATFORM = (Kind.DISK_LOW, Kind.PROCESS_DOWN, Kind.TASK_FAILED)
OF_OTHERS = (Kind.UNSERVED, Kind.ALERT, Kind.NOTICES_UNSENT)
CALM = (
    "Nothing stands in the way",
    "Messages are delivered",
    "Messages are being delivered",
    "Nothing is wrong",
    "Nothing is known to be wrong",
    "Nothing has for longer than",
    "Every backlog has a consumer",
    "no alert fires",
)


CALM_OF_TOPIC = ("Nothing holds producers back", "What is published is stored")


def test_every_kind_is_tried() -> None:
    assert {*OF_SUBSCRIPTION, *OF_TOPIC, *OF_PLATFORM, *OF_OTHERS} == set(Kind)


def shown(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


@pytest.fixture
def says(world: ConsoleBroker, browse: Browse) -> Callable[..., None]:
    """Whether pages say that there is a problem of a kind, and nothing that denies it."""
    client = browse("superuser")
    TaskRun.objects.create(
        name="expire", task_id="1", outcome=TaskRun.Outcome.SUCCEEDED, started_at=timezone.now() - timedelta(seconds=2)
    )

    def check(kind: Kind, *paths: str, sentence: str = "") -> None:
        for path in paths:
            page = shown(text(client, path))
            assert MARKS[kind].text in page, path
            assert not sentence or sentence in page, path
            calm = CALM if kind in OF_SUBSCRIPTION else (*CALM, *CALM_OF_TOPIC)
            assert [words for words in calm if words in page] == [], path

    return check


@pytest.fixture
def topic(world: ConsoleBroker) -> Topic:
    """With a subscription that nothing is the matter with."""
    world.perform(TOPICS_STATS, StatsAsked(topic=NAME))
    loaded = world.real.service.topics.loaded[NAME]
    world.real.run(loaded.subscriptions.create("billing", EARLIEST))
    return loaded


def look(world: ConsoleBroker) -> None:
    """The broker looks at its topics once more, and has looked at everything."""
    watch = world.real.service.problems
    world.real.run(watch.look())
    world.real.run(world.real.service.stored_problems.read())


@pytest.mark.parametrize("kind", OF_SUBSCRIPTION)
def test_what_is_wrong_with_a_subscription(
    world: ConsoleBroker, topic: Topic, says: Callable[..., None], monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """A subscription that fell behind had a page that marked it, and one that said that nothing stood in its way."""
    sign = Sign(kind, f"Sentence of {kind}.", "remedy", 1_700_000_000_000, 3)
    monkeypatch.setattr(topic_signs, "is_quiet", lambda subscription: False)
    monkeypatch.setattr(topic_signs, "signs_of_subscription", lambda subscription, *_, **__: [sign])
    told = world.perform(SUBSCRIPTIONS_EXPLAIN, SubscriptionExplain(topic=NAME, subscription="billing"))
    assert [(each.kind, each.since_ms, each.sentence) for each in told.problems] == [(kind, sign.since_ms, sign.sentence)]
    assert explained({"problems": [{"sentence": told.problems[0].sentence, "remedy": "remedy"}], "sentence": told.sentence}) == [
        f"{sign.sentence} To do: remedy."
    ]
    stats = world.perform(TOPICS_STATS, StatsAsked(topic=NAME)).stats
    assert stats["subscriptions"]["billing"]["problems"] == [kind] and stats["problems"] == []
    look(world)
    assert world.real.service.problems.worst_of(NAME) == kind
    says(kind, TOPIC, SUBSCRIPTION, f"{TOPIC}/why")
    says(kind, "/now", f"{SUBSCRIPTION}/why", sentence=sign.sentence)


@pytest.mark.parametrize("kind", OF_TOPIC)
def test_what_is_wrong_with_a_topic(
    world: ConsoleBroker, topic: Topic, says: Callable[..., None], monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    service = world.real.service
    if kind is Kind.SCHEMA_REFUSED:
        service.problems.refusals.judged(topic.name, "producer app@acme 10.0.0.1", "its schema is another.")
    elif kind is Kind.FEWER_COPIES:
        for module in (fewer_copies, live):
            monkeypatch.setattr(module, "degraded_since_ms", lambda broker: {topic.ledger.writing_to: 1_700_000_000_000})
    else:
        sign = Sign(kind, f"Sentence of {kind}.", "remedy", 1_700_000_000_000)
        monkeypatch.setattr(topic_signs, "signs_of_topic", lambda **_: [sign])
    told = world.perform(TOPICS_EXPLAIN, TopicExplain(topic=NAME))
    assert [each.kind for each in told.problems] == [kind]
    assert world.perform(TOPICS_STATS, StatsAsked(topic=NAME)).stats["problems"] == [kind]
    look(world)
    assert kind is Kind.FEWER_COPIES or service.problems.worst_of(NAME) == kind
    says(kind, "/now")
    says(kind, f"{TOPIC}/why", sentence=told.problems[0].sentence)
    if kind not in (Kind.PRODUCERS_HELD, Kind.UNREAD):  # of which the page tells in words of its own, when they are so
        says(kind, TOPIC)


def test_what_stays_for_a_while_stays_everywhere(
    world: ConsoleBroker, topic: Topic, says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rate limit is reached for parts of a second: Now said so, and the page that its button leads to did not."""
    sign = Sign(Kind.DISPATCH_THROTTLED, "Delivery is at the limit.", "wait")
    monkeypatch.setattr(topic_signs, "is_quiet", lambda subscription: False)
    with monkeypatch.context() as reached:
        reached.setattr(topic_signs, "signs_of_subscription", lambda subscription, *_, **__: [sign])
        look(world)
    monkeypatch.setattr(topic_signs, "signs_of_subscription", lambda subscription, *_, **__: [])
    look(world)
    says(Kind.DISPATCH_THROTTLED, "/now", TOPIC, SUBSCRIPTION, f"{SUBSCRIPTION}/why")


def test_a_namespace_that_nobody_serves(world: ConsoleBroker, says: Callable[..., None]) -> None:
    world.set_problems(Problem(kind=Kind.UNSERVED, sentence="No broker may.", tenant="acme", namespace="acme/orders"))
    says(Kind.UNSERVED, "/now", NAMESPACE, sentence="No broker may.")


def test_an_alert_that_fires(world: ConsoleBroker, topic: Topic, says: Callable[..., None]) -> None:
    now, uid = timezone.now(), Tenant.unscoped.get(name="acme").uid
    rule = AlertRule(tenant="acme", tenant_uid=uid, name="Too much", kind="backlog_entries", topic=NAME, subscription="billing")
    rule.threshold, rule.value, rule.firing = 10, 12, True
    rule.created_at = rule.above_since = rule.looked_at = now
    rule.save()
    look(world)
    says(Kind.ALERT, "/now", f"{TOPIC}/why", f"{SUBSCRIPTION}/why", sentence="Too much: 12 entries wait")


@pytest.mark.parametrize("kind", OF_PLATFORM)
def test_what_is_wrong_with_the_platform(
    world: ConsoleBroker, says: Callable[..., None], monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    now = timezone.now()
    if kind is Kind.DISK_LOW:
        PlatformAlert.objects.create(name="disk", firing=True, value=91, above_since=now, looked_at=now)
    elif kind is Kind.TASK_FAILED:
        TaskRun.objects.create(name=TASKS[0].name, task_id="2", outcome=TaskRun.Outcome.QUARANTINED, started_at=now)
    else:
        down = platform_view.ChildRow("broker-2", "failed", "badge-bad", None, 3, "exit status 1", now)
        monkeypatch.setattr(platform_view, "children", lambda away: ([down], ""))
    world.set_problems()
    says(kind, "/now")
