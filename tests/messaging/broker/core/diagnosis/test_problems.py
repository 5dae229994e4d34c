"""What is wrong with a subscription or a topic: what lasts is said, and what is true of a moment is not."""

from __future__ import annotations

from typing import Any

from messaging.broker.core.dead_letters.dead_entries import DeadLetterPolicy, DeadLetterRecord, DeadLetters
from messaging.broker.core.diagnosis.delivery_health import STILL_MS, judge_delivery
from messaging.broker.core.diagnosis.explain import DeliveryState
from messaging.broker.core.diagnosis.problems import (
    ABANDONED_MS,
    GROWING_MS,
    REJECTED_TIMES,
    UNACKNOWLEDGED_MS,
    Sign,
    is_quiet,
    signs_of_subscription,
    signs_of_topic,
)
from messaging.broker.core.limits.rate_limits import LevelLimiter, RateLevel, RateLimit
from messaging.broker.core.subscription_type import SubscriptionType
from tests.support.worlds.subscription_world import World

SHARED = SubscriptionType.SHARED
LIMITER = LevelLimiter(RateLevel.TOPIC, "dispatch_rate_messages", RateLimit(10, 0), 0.0)


def signs(world: World, after_ms: int = 0, *, grows: bool = False, idle_since_ms: int = 0, **state: Any) -> list[Sign]:
    world.now_ms += after_ms
    given = DeliveryState(now_ms=world.now_ms)._replace(**state)
    verdict = judge_delivery(world.subscription, given)
    return signs_of_subscription(world.subscription, given, verdict, grows=grows, idle_since_ms=idle_since_ms)


def kinds(found: list[Sign]) -> list[str]:
    return [sign.kind.value for sign in found]


def test_a_subscription_that_is_abandoned_says_since_when_and_how_much_waits() -> None:
    world = World()
    assert is_quiet(world.subscription)
    world.publish([1, 1])
    left_ms = world.now_ms
    assert not is_quiet(world.subscription)
    assert signs(world, ABANDONED_MS - 1, idle_since_ms=left_ms) == []  # who was deployed anew is back by then
    (sign,) = signs(world, 1, idle_since_ms=left_ms)
    assert (sign.kind, sign.since_ms, sign.waiting) == ("no_consumer", left_ms, world.subscription.backlog_entries)
    assert sign.sentence.startswith("No consumer is connected") and "delete the subscription" in sign.remedy


def test_a_blocked_subscription_says_since_when_nothing_moved() -> None:
    world = World(unacked_max=2)
    world.attach(SHARED, permits=10)
    began_ms = world.now_ms
    world.publish([1] * 3)
    assert signs(world, STILL_MS - 1) == []
    (sign,) = signs(world, 1)
    assert (sign.kind, sign.since_ms, sign.waiting) == ("blocked", began_ms, world.subscription.backlog_entries)
    assert "unacknowledged messages" in sign.sentence and "acknowledge messages" in sign.remedy
    assert signs(world, closing=True) == []


def test_a_backlog_that_grows_is_told_only_of_consumers_that_work() -> None:
    world = World(unacked_max=2)
    assert kinds(signs(world, grows=True)) == []
    world.attach(SHARED, permits=10)
    world.publish([1] * 3)
    assert kinds(signs(world, grows=True)) == ["falling_behind"]
    assert kinds(signs(world, STILL_MS, grows=True)) == ["blocked"]


def test_delivery_at_a_limit_names_the_limit() -> None:
    world = World()
    world.attach(SHARED, permits=10)
    world.publish([1])
    (sign,) = signs(world, blocked_by=LIMITER)
    assert sign.kind == "dispatch_throttled"
    assert sign.sentence == "Delivery is at the limit of the topic: dispatch_rate_messages allows 10 messages a second."


def test_failures_of_sending_are_told_once_nothing_moved() -> None:
    world = World()
    world.attach(SHARED, permits=10)
    world.publish([1])
    assert signs(world, failures="3 times") == []
    assert kinds(signs(world, STILL_MS, failures="3 times")) == ["dispatch_failed"]


def test_messages_that_were_sent_and_are_not_acknowledged_for_long_are_told_of() -> None:
    """An application that hangs with less than it asked for: nothing is blocked, nothing grows, and nothing is done."""
    world = World()
    consumer = world.attach(SHARED, permits=1_000)
    first, *_ = world.publish([1] * 3)
    began_ms = world.now_ms
    assert signs(world, UNACKNOWLEDGED_MS - 1) == []
    (sign,) = signs(world, 1)
    assert (sign.kind, sign.since_ms, sign.waiting) == ("unacknowledged", began_ms, world.subscription.backlog_entries)
    assert "not acknowledged by the consumers" in sign.sentence and sign.remedy.startswith("acknowledge the messages")
    world.ack(consumer, first)
    assert signs(world) == []


def test_a_topic_tells_of_its_quota_its_publish_rate_and_the_dead_letters_that_clients_send() -> None:
    def of_topic(**given: Any) -> list[str]:
        usual: dict[str, Any] = {
            "held": "",
            "throttled_by": None,
            "name": "t-s-DLQ",
            "last_published_ms": 0,
            "producers": 0,
            "unread": False,
            "now_ms": GROWING_MS,
        }
        return kinds(signs_of_topic(**(usual | given)))

    assert of_topic() == []
    assert of_topic(held="topic t accepts no messages: it is full: raise the quota") == ["producers_held"]
    assert of_topic(throttled_by=LIMITER) == ["publish_throttled"]
    assert of_topic(last_published_ms=1) == []  # moved by the broker: its subscription tells
    assert of_topic(last_published_ms=1, producers=1) == ["dead_letters"]
    assert of_topic(last_published_ms=0, producers=1) == []
    assert of_topic(last_published_ms=1, producers=1, name="t") == []
    assert of_topic(last_published_ms=1, producers=1, name="t", unread=True) == ["unread"]
    assert of_topic(last_published_ms=0, producers=1, name="t", unread=True) == [], "nothing was published yet"
    assert of_topic(last_published_ms=1, producers=0, name="t", unread=True) == ["unread"], "by a job, or moved by a policy"
    assert of_topic(last_published_ms=0, producers=0, name="t", unread=True) == []
    assert of_topic(last_published_ms=1, producers=0, name="t", unread=True, now_ms=GROWING_MS + 1) == []


def test_dead_letters_are_told_while_they_grow_and_while_they_cannot_be_moved() -> None:
    world = World()
    policy = DeadLetterPolicy(policy_id="p", max_redeliver_count=1, target="persistent://t/n/a-s-DLQ", owner="o")
    letters = DeadLetters(DeadLetterRecord(subscription_id=0, policy=policy))
    world.subscription.follow_dead_letters(letters)
    assert signs(world) == [] and is_quiet(world.subscription)
    letters.moved(2, world.now_ms)
    assert not is_quiet(world.subscription)
    (sign,) = signs(world)
    assert sign.kind == "dead_letters"
    assert sign.sentence == "2 messages were moved to persistent://t/n/a-s-DLQ since the topic was loaded."
    assert signs(world, GROWING_MS) == []


def test_messages_that_are_rejected_again_and_again_are_told_of() -> None:
    """A consumer that rejects the same messages for ever moves all the time: nothing was said to be wrong."""
    world = World()
    consumer = world.attach(SHARED, permits=1_000)
    entries = world.publish([1] * 3)
    for _ in range(REJECTED_TIMES - 1):
        world.now_ms += 1_000
        world.nack(consumer, *entries)
    assert signs(world) == []
    world.nack(consumer, *entries)
    (sign,) = signs(world)
    assert sign.kind == "unacknowledged" and "a dead-letter policy" in sign.remedy
    assert sign.sentence == "3 entries were sent again 8 times and more, and no consumer acknowledges that."
    world.ack(consumer, entries[0], entries[1])
    (sign,) = signs(world)
    assert sign.sentence.startswith("1 entry was sent again")
    world.subscription.state.redeliveries.limit_counts(100)
    assert signs(world) == [], "a dead-letter policy ends it"
