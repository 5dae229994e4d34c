"""Where each step of a subscription stands: it agrees with what `explain` finds, whatever that is."""

from __future__ import annotations

import string

import pytest

from messaging.broker.core.dead_letters.dead_entries import DeadLetterPolicy, DeadLetterRecord, DeadLetters
from messaging.broker.core.diagnosis.explain import DeliveryState, Reason, explain
from messaging.broker.core.diagnosis.publish_steps import PublishState, publish_steps, publishing_held_at
from messaging.broker.core.diagnosis.steps import STEPS_OF, StepLook, delivery_steps, held_at
from messaging.broker.core.dispatch.key_shared_mode import KeySharedMode
from messaging.broker.core.limits.rate_limits import LevelLimiter, RateLevel, RateLimit
from messaging.broker.core.refused_consumers import KEPT_MS, WHY_LENGTH_MAX
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.problems.steps import TEXTS, Step, StepState, text_of
from tests.support.worlds.subscription_world import Sink, World, received

SHARED, FAILOVER, KEY_SHARED = SubscriptionType.SHARED, SubscriptionType.FAILOVER, SubscriptionType.KEY_SHARED


def looked_at(world: World, idle_since_ms: int | None = None, **given: object) -> tuple[dict[Step, StepLook], str]:
    """Every step by its name, and the one at which messages stop. Each text can be filled in."""
    state = DeliveryState(**given)  # type: ignore[arg-type]
    findings = explain(world.subscription, state)
    looks = delivery_steps(world.subscription, state, findings, idle_since_ms)
    assert [look.step for look in looks] == [step for step in Step if step in {look.step for look in looks}]
    assert all(text_of(look.code, look.facts) for look in looks)
    at = held_at(findings, [])
    held = [look for look in looks if look.step == at]
    assert not held or held[0].state in (StepState.SHUT, StepState.SLOWS) or held[0].code == "backlog.empty"
    return {look.step: look for look in looks}, at


def test_every_reason_has_its_gate_and_every_text_belongs_to_one() -> None:
    assert STEPS_OF.keys() == set(Reason) - {Reason.DELIVERING}
    assert {code.partition(".")[0] for code in TEXTS} == {*Step, "unknown"}


def test_nothing_to_deliver_and_nobody_there() -> None:
    world = World()
    steps, at = looked_at(world)
    assert (at, steps[Step.BACKLOG].state) == (Step.BACKLOG, StepState.NONE)
    world.publish([1, 1])
    steps, at = looked_at(world, idle_since_ms=5_000)
    assert (at, steps[Step.CONSUMER].state, steps[Step.CONSUMER].since_ms) == (Step.CONSUMER, StepState.SHUT, 5_000)
    assert steps[Step.PERMITS].state is steps[Step.KEYS].state is StepState.UNKNOWN
    assert steps[Step.BACKLOG].facts["entries"] == 2


def test_where_nothing_waits_it_may_be_that_nothing_can_be_published() -> None:
    findings = explain(World().subscription, DeliveryState())
    looks = publish_steps(PublishState(terminated=True))
    assert held_at(findings, looks) == Step.TOPIC
    assert held_at(findings, publish_steps(PublishState())) == Step.BACKLOG


def test_some_consumers_hold_and_others_do_not() -> None:
    world = World()
    world.attach(SHARED, name="slow")
    steps, at = looked_at(world)
    world.publish([1])
    steps, at = looked_at(world)
    assert (at, steps[Step.PERMITS].state, list(steps[Step.PERMITS].who)) == (Step.PERMITS, StepState.SHUT, ["slow"])
    quick = world.attach(SHARED, name="quick", permits=5)
    received(quick)
    steps, at = looked_at(world)
    assert steps[Step.PERMITS].state is StepState.SLOWS and steps[Step.PERMITS].facts == {"stuck": 1, "consumers": 2}
    assert (at, list(steps[Step.ACKNOWLEDGEMENT].who)) == (Step.ACKNOWLEDGEMENT, ["quick"])


def test_a_consumer_that_does_not_read_and_limits_of_what_is_held() -> None:
    world = World(unacked_max=2)
    full = world.attach(SHARED, permits=10, name="full")
    world.publish([1] * 3)
    steps, at = looked_at(world)
    assert (at, steps[Step.CONSUMER_UNACKED].facts["most"]) == (Step.CONSUMER_UNACKED, 2)
    assert isinstance(full.sink, Sink)
    full.sink.writable = False
    steps, at = looked_at(world)
    assert at == Step.CONNECTION and steps[Step.CONNECTION].since_ms is None
    together = World()
    together.subscription.state.limit_unacked(0, 2)
    together.attach(SHARED, permits=10)
    together.publish([1] * 3)
    steps, at = looked_at(together)
    assert at == Step.SUBSCRIPTION_UNACKED and steps[Step.SUBSCRIPTION_UNACKED].state is StepState.SHUT


def test_one_lost_message_is_not_said_to_be_lost_since_the_last_that_was_acknowledged() -> None:
    world = World()
    consumer = world.attach(SHARED, permits=9)
    _, other = world.publish([1, 1])
    look = looked_at(world)[0][Step.ACKNOWLEDGEMENT]
    assert (look.code, look.facts, look.since_ms) == ("acknowledgement.never", {"entries": 2}, consumer.connected_ms)
    world.now_ms += 5_000
    world.ack(consumer, other)
    look = looked_at(world)[0][Step.ACKNOWLEDGEMENT]
    assert (look.code, look.since_ms) == ("acknowledgement.held", None)
    assert look.facts == {"entries": 1, "last_ms": world.now_ms}


def test_a_standby_is_told_who_is_active() -> None:
    world = World()
    world.attach(FAILOVER, name="active", permits=5)
    world.attach(FAILOVER, name="standby", permits=5)
    steps, _ = looked_at(world)
    active = steps[Step.ACTIVE_CONSUMER]
    assert active.facts["name"] == "active" and list(active.who) == ["standby"]
    assert "Only active is sent messages" in text_of(active.code, active.facts)


def test_consumers_that_were_refused_are_told_of_for_a_while() -> None:
    """That another had the subscription, only the client that was refused was told."""
    world, why = World(), "the subscription is Exclusive: close that one."
    subscription = world.subscription
    subscription.refused = subscription.refused.and_one(why, 1_000).and_one(why, 2_000)
    look = looked_at(world, now_ms=2_000)[0][Step.CONSUMER]
    assert (look.state, look.code) == (StepState.SHUT, "consumer.refused")
    world.attach(SHARED, permits=1)
    look = looked_at(world, now_ms=2_000)[0][Step.CONSUMER]
    assert look.state is StepState.SLOWS and look.facts == {
        "consumers": 1, "refused": 2, "first_ms": 1_000, "last_ms": 2_000, "why": "the subscription is Exclusive: close that one",
    }  # fmt: skip
    assert looked_at(world, now_ms=2_000 + KEPT_MS)[0][Step.CONSUMER].code == "consumer.connected"
    assert subscription.refused.and_one("w" * 9_999, 2_000 + KEPT_MS) == (1, 2_000 + KEPT_MS, 2_000 + KEPT_MS, "w" * WHY_LENGTH_MAX)


def test_hash_ranges_that_nobody_has_named() -> None:
    world = World()
    world.attach(KEY_SHARED, permits=10, name="half", key_shared=KeySharedMode(sticky=True, ranges=((0, 9),)))
    world.publish_keyed(["a", "b"])
    steps, at = looked_at(world)
    assert at == Step.KEYS and steps[Step.KEYS].code == "keys.unowned" and steps[Step.KEYS].facts == {"ranges": 1}


def test_rates_delays_reads_and_failures() -> None:
    world = World()
    consumer = world.attach(SHARED, permits=1)
    world.publish([1, 1])
    received(consumer)
    consumer.flow(5, 0)
    limiter = LevelLimiter(RateLevel.TOPIC, "dispatch_rate", RateLimit(messages=10.0), 0.0)
    steps, at = looked_at(world, blocked_by=limiter)
    look = steps[Step.DISPATCH_RATE]
    assert at == Step.DISPATCH_RATE and "dispatch_rate allows 10 messages a second" in text_of(look.code, look.facts)
    assert looked_at(world, reads_under_way=1)[1] == looked_at(world, reads_waiting=1)[1] == Step.READING
    assert looked_at(world, no_room=True)[1] == Step.READING
    assert looked_at(world, failures="3 times, the last time with OSError")[1] == Step.SUBSCRIPTION
    assert looked_at(world)[1] == ""


def test_dead_letters_and_expiry() -> None:
    world = World()
    world.subscription.follow_dead_letters(DeadLetters(DeadLetterRecord(1, DeadLetterPolicy("p", 3, "target", "owner"))))
    steps, _ = looked_at(world, message_ttl_s=60)
    assert steps[Step.DEAD_LETTERS].facts == {"count": 3, "target": "target", "moved": 0}
    assert steps[Step.EXPIRY].code == "expiry.set"
    world.subscription.entries_expired, world.subscription.last_expired_ms = 7, 1_000
    steps, _ = looked_at(world, message_ttl_s=60)
    assert steps[Step.EXPIRY].state is StepState.SLOWS and steps[Step.EXPIRY].facts["expired"] == 7


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (PublishState(closing=True), Step.TOPIC),
        (PublishState(storage_failure="no space", fewer_copies_ms=1), Step.TOPIC),
        (PublishState(spending_stopped="the cap is reached"), Step.SPENDING),
        (PublishState(schema_refused="1 client was refused."), Step.SCHEMA),
        (PublishState(tenant_bytes_max=5, tenant_full="tenant acme is full"), Step.STORED_BYTES),
        (PublishState(waiting=1), Step.PUBLISHED),
        (PublishState(rate_blocked_by=LevelLimiter(RateLevel.TENANT, "rate", RateLimit(1.5, 10.0), 0.0)), Step.PUBLISH_RATE),
        (PublishState(deduplicates=True, dropped_entries=7, last_dropped_ms=1_000), Step.DEDUPLICATION),
        (PublishState(deduplicates=True, dropped_entries=7), ""),  # long ago
        (PublishState(deduplicates=True), ""),
        (PublishState(), ""),
    ],
)
def test_publishing_stops_at_the_gate_that_is_shut(state: PublishState, step: str) -> None:
    looks = publish_steps(state)
    assert [look.step for look in looks] == list(Step)[: len(looks)]
    assert publishing_held_at(looks) == step
    assert all(text_of(look.code, look.facts) for look in looks)


def test_texts_have_no_placeholders_but_names() -> None:
    for text in TEXTS.values():
        assert all(name is None or name.isidentifier() for _, name, _, _ in string.Formatter().parse(text))
