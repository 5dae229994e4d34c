"""The pages that say why nothing arrives, and why nothing is published."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from admin_ui.now import facts
from messaging.adminrpc.diagnosis import ExplainStep, SubscriptionExplained, TopicExplained
from messaging.adminrpc.methods import SUBSCRIPTIONS_EXPLAIN, TOPICS_EXPLAIN
from messaging.problems.steps import Step, StepState, text_of
from tenants.access import platform_actor
from tenants.actions import set_policies
from tenants.models import Tenant
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from workers.alerts.models import AlertRule

TOPIC = f"{NAMESPACE}/topics/placed"
SUBSCRIPTION = f"{TOPIC}/subscriptions/billing"


def step(which: Step, state: StepState, code: str, who: list[str] | None = None, **facts: str | float) -> ExplainStep:
    return ExplainStep(
        step=which, state=state, sentence=text_of(code, facts), code=code, facts=facts, who=who or [], since_ms=1_700_000_000_000
    )


def explains(world: ConsoleBroker, *steps: ExplainStep, held_at: str = "") -> None:
    """The broker says this of every subscription."""
    figures = {"health": "good", "sentence": "", "remedy": "", "findings": [], "backlog_entries": 0, "delayed_entries": 0}
    places = {"next_delayed_ms": None, "message_ttl_s": 0, "mark_delete": "1:0", "read_position": "1:0"}
    told = SubscriptionExplained(steps=list(steps), held_at=held_at, **figures, **places)  # type: ignore[arg-type]
    world.divert(SUBSCRIPTIONS_EXPLAIN, lambda _: told)


def verdict(page: str) -> str:
    (found,) = re.findall(r'<div class="notice[^"]*">.*?<p>(.*?)</p>', page, re.DOTALL)[:1]
    return re.sub(r"<[^>]+>", "", found)


def test_the_verdict_comes_first_and_every_gate_after_it(world: ConsoleBroker, browse: Browse) -> None:
    explains(
        world,
        step(Step.CONSUMER, StepState.OPEN, "consumer.connected", ["<c>"], consumers=1),
        step(Step.PERMITS, StepState.SHUT, "permits.some", ["<c>"], stuck=1, consumers=1),
        held_at=Step.PERMITS,
    )
    page = text(browse("owner"), f"{SUBSCRIPTION}/why")
    assert verdict(page).startswith("Permits: Consumers that have not asked for more messages: 1 of 1. Since")
    assert re.findall(r'<span class="badge[^"]*">([^<]*)</span></td>', page) == ["passes", "holds all", "nothing here"]
    assert "&lt;c&gt;" in page and "<c>" not in page
    assert f'id="fix-permits" href="{TOPIC}/disconnect?kind=consumer&amp;subscription=billing"' in page


def test_clients_that_are_refused_are_told_with_the_button_that_makes_room(world: ConsoleBroker, browse: Browse) -> None:
    facts: dict[str, str | float] = {
        "consumers": 1,
        "refused": 1422,
        "first_ms": 1_000,
        "last_ms": 2_000,
        "why": "the subscription is Exclusive",
    }
    explains(world, step(Step.CONSUMER, StepState.SLOWS, "consumer.refused", ["c"], **facts))
    page = text(browse("owner"), f"{SUBSCRIPTION}/why")
    assert "Others that came and were refused: 1,422, the first" in page and ": the subscription is Exclusive." in page
    assert "refused some" in page and "holds some" not in page
    assert f'id="fix-consumer" href="{TOPIC}/disconnect?kind=consumer&amp;subscription=billing"' in page


def test_a_consumer_is_told_what_stops_at_it_alone(world: ConsoleBroker, browse: Browse) -> None:
    standby = step(Step.ACTIVE_CONSUMER, StepState.OPEN, "active_consumer.standby", ["late"], name="early", standby=1)
    explains(world, standby)
    page = text(browse("owner"), f"{SUBSCRIPTION}/why", consumer="late")
    assert "Nothing stands in the way." in verdict(page)
    assert "<strong>Consumer late</strong> stops at “Active consumer”: Only early is sent messages." in page
    assert "is held by no step of its own" in text(browse("owner"), f"{SUBSCRIPTION}/why", consumer="early")


@pytest.mark.parametrize("who", ["owner", "teammate"])
def test_who_set_a_policy_is_told_to_whom_may_know(world: ConsoleBroker, browse: Browse, who: str) -> None:
    set_policies(platform_actor("test"), "acme/orders", {"message_ttl_s": 60})
    explains(world, step(Step.EXPIRY, StepState.SLOWS, "expiry.set", ttl_s=60))
    page = text(browse(who), f"{SUBSCRIPTION}/why")
    assert f'<a href="{NAMESPACE}/policies?policy=message_ttl_s#policy">' in page
    assert ("platform:test" in page or "· test" in page) is (who == "owner")
    assert "Messages expire after 1 min" in page


def test_a_gate_of_a_later_release_is_shown_as_the_broker_says_it(world: ConsoleBroker, browse: Browse) -> None:
    new = ExplainStep(step="tides", state="wet", sentence="The tide is high.", code="tides.high", facts={}, who=[])
    explains(world, new, held_at="tides")
    page = text(browse("owner"), f"{SUBSCRIPTION}/why")
    assert verdict(page) == "tides: The tide is high."


def test_in_german(world: ConsoleBroker, browse: Browse) -> None:
    explains(world, step(Step.CONSUMER, StepState.SHUT, "consumer.nobody"), held_at=Step.CONSUMER)
    client = browse("owner")
    page = client.get(f"{SUBSCRIPTION}/why", headers={"Accept-Language": "de"}).content.decode()
    assert verdict(page).startswith("Consumer: Kein Consumer ist verbunden.") and "hält alles auf" in page


def test_the_topic_says_what_is_published_and_lists_its_subscriptions(world: ConsoleBroker, browse: Browse) -> None:
    world.stats["persistent://acme/orders/placed"] = {"subscriptions": {"s": {"msgBacklog": 3}}}
    held = step(Step.BACKLOG_QUOTA, StepState.SHUT, "backlog_quota.held", why="Full.")
    world.divert(TOPICS_EXPLAIN, lambda _: TopicExplained(steps=[held], held_at=Step.BACKLOG_QUOTA))
    page = text(browse("owner"), f"{TOPIC}/why")
    assert verdict(page).startswith("Backlog quota: Full.") and f'href="{TOPIC}/subscriptions/s/why"' in page
    assert "?policy=backlog_quota_size#policy" in page


def test_a_list_denies_nothing_that_another_page_marks(world: ConsoleBroker, browse: Browse) -> None:
    behind, still = {"msgBacklog": 3, "problems": ["falling_behind"]}, {"msgBacklog": 2}
    world.stats["persistent://acme/orders/placed"] = {"subscriptions": {"a": still, "b": behind, "c": {}}}
    world.divert(TOPICS_EXPLAIN, lambda _: TopicExplained(steps=[], held_at=""))
    shown = text(browse("owner"), f"{TOPIC}/why").partition('id="subscriptions-title"')[2]
    rows = [re.sub(r"<[^>]+>", "|", row) for row in shown.split("<tr>")[2:]]
    assert "FALLING BEHIND" in rows[0] and "messages arrive faster" in rows[0], "what is held comes first"
    assert "Nothing has for longer than 10 seconds." in rows[1] and "unknown" in rows[2]
    assert "Nothing stands in the way" not in shown


def test_what_a_real_broker_says_is_shown(browse: Browse, world: ConsoleBroker) -> None:
    page = text(browse("owner"), f"{TOPIC}/why")
    assert "Published" in page and "The topic takes messages." in page


def test_a_broker_that_is_away_is_said_and_a_subscription_that_is_not_there_is_not_found(
    world: ConsoleBroker, browse: Browse
) -> None:
    assert browse("owner").get(f"{TOPIC}/subscriptions/nothing/why").status_code == 404
    world.cut()
    for path in (f"{SUBSCRIPTION}/why", f"{TOPIC}/why"):
        assert "Where messages stop is unknown." in verdict(text(browse("owner"), path))


def test_a_stranger_sees_neither(browse: Browse) -> None:
    assert browse("stranger").get(f"{TOPIC}/why").status_code == 404
    assert browse("stranger").get(f"{SUBSCRIPTION}/why").status_code == 404


def test_alerts_of_a_topic_are_told_however_many_others_fire(
    world: ConsoleBroker, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a tenant only the rules that had fired first were looked at."""
    explains(world, step(Step.CONSUMER, StepState.OPEN, "consumer.connected", consumers=1))
    monkeypatch.setattr(facts, "ALERTS_MAX", 3)
    now, uid = timezone.now(), Tenant.unscoped.get(name="acme").uid
    topic = "persistent://acme/orders/placed"
    standing: dict[str, object] = {"value": 12, "counter": None, "partitions": {}, "above_since_ms": 1, "firing": True}

    def rule(name: str, minutes_ago: int, **given: object) -> AlertRule:
        fields = {"tenant": "acme", "tenant_uid": uid, "kind": "backlog_entries", "threshold": 10, "value": 12, "firing": True}
        times = {"above_since": now - timedelta(minutes=minutes_ago), "created_at": now, "looked_at": now}
        return AlertRule(name=name, **(fields | times | given))

    AlertRule.unscoped.bulk_create(
        [
            *(rule(f"Other {number}", 50, topic=f"persistent://acme/orders/other-{number}") for number in range(5)),
            rule("Other pattern", 50, topic="persistent://acme/orders/o*", is_pattern=True, topics={f"{topic}-2": standing}),
            rule("Of this", 1, topic=topic),
            rule("Of a pattern", 1, topic="persistent://acme/orders/p*", is_pattern=True, topics={topic: standing}),
        ]
    )
    for page in (f"{TOPIC}/why", f"{SUBSCRIPTION}/why"):
        shown = text(browse("owner"), page)
        assert "Of this: 12 entries wait" in shown and "Of a pattern: 12 entries wait" in shown and "Other " not in shown
