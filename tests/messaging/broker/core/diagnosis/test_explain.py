"""`explain`: each thing that may stand in the way of a delivery, as it is found."""

from __future__ import annotations

from messaging.broker.core.dead_letters.dead_entries import DeadLetterPolicy, DeadLetterRecord, DeadLetters
from messaging.broker.core.diagnosis.delivery_health import judge_delivery
from messaging.broker.core.diagnosis.explain import REMEDIES, DeliveryState, Finding, Reason, WaitingKey, explain
from messaging.broker.core.diagnosis.problems import signs_of_subscription
from messaging.broker.core.diagnosis.trace import TraceState, trace_in
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from tests.support.worlds.delayed_world import START_MS, DelayedWorld
from tests.support.worlds.subscription_world import Sink, World, received

SHARED, EXCLUSIVE = SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE


def why(world: World, **state: object) -> list[Finding]:
    return explain(world.subscription, DeliveryState(**state))  # type: ignore[arg-type]


def reasons(findings: list[Finding]) -> list[Reason]:
    return [finding.reason for finding in findings]


def test_every_reason_has_a_remedy_or_needs_none() -> None:
    assert set(REMEDIES) == set(Reason)
    assert {reason for reason, remedy in REMEDIES.items() if not remedy} == {Reason.NOTHING, Reason.DELIVERING}


def test_nothing_to_deliver_and_nobody_to_deliver_to() -> None:
    world = World()
    assert reasons(why(world)) == [Reason.NOTHING]
    world.publish([1, 1])
    (finding,) = why(world)
    assert finding.reason is Reason.NO_CONSUMER and "2 entries are not acknowledged" in finding.sentence
    assert finding.remedy == REMEDIES[Reason.NO_CONSUMER]


def test_a_change_under_way_comes_before_everything() -> None:
    world = World()
    world.publish([1])
    world.subscription.fenced = True
    assert reasons(why(world)) == [Reason.FENCED]
    assert reasons(why(world, closing=True)) == [Reason.CLOSING]


def test_a_consumer_without_permits() -> None:
    world = World()
    consumer = world.attach(SHARED, name="slow")
    (entry,) = world.publish([1])
    (finding,) = why(world)
    assert (finding.reason, finding.consumer, finding.position) == (Reason.NO_PERMITS, "slow", entry)
    world.flow(consumer, 1)
    assert reasons(why(world)) == [Reason.SENT]


def test_figures_have_separators_and_a_consumer_may_have_no_name() -> None:
    world = World()
    world.publish([1] * 1422)
    (finding,) = why(world)
    assert finding.sentence == "No consumer is connected, and 1,422 entries are not acknowledged."
    world.attach(SHARED).name = ""
    (finding,) = why(world)
    assert finding.sentence == "Consumer with no name has not asked for more messages."


def test_a_consumer_that_does_not_read() -> None:
    world = World()
    consumer = world.attach(EXCLUSIVE, name="deaf", permits=5)
    assert isinstance(consumer.sink, Sink)
    consumer.sink.writable = False
    world.publish([1])
    (finding,) = why(world)
    assert (finding.reason, finding.consumer) == (Reason.NOT_READING, "deaf")


def test_a_consumer_at_its_limit() -> None:
    world = World(unacked_max=2)
    world.attach(SHARED, permits=10, name="full")
    world.publish([1] * 3)
    (finding,) = why(world)
    assert finding.reason is Reason.CONSUMER_LIMIT and "holds 2" in finding.sentence and "limit is 2" in finding.sentence


def test_a_subscription_at_its_limit() -> None:
    world = World()
    world.subscription.state.limit_unacked(0, 2)
    world.attach(SHARED, permits=10)
    world.publish([1] * 3)
    findings = why(world)
    assert reasons(findings) == [Reason.SUBSCRIPTION_LIMIT] and "limit of 2" in findings[0].sentence


def test_several_consumers_are_counted_and_named() -> None:
    world = World()
    for name in ("a", "b", "c"):
        world.attach(SHARED, name=name)
    deaf = world.attach(SHARED, permits=1, name="deaf")
    assert isinstance(deaf.sink, Sink)
    deaf.sink.writable = False
    world.publish([1])
    findings = why(world)
    assert findings[0].sentence == "None of the 4 consumers can be sent messages: 3 without permits, 1 not reading the connection."
    assert {finding.consumer for finding in findings[1:]} == {"a", "b", "c", "deaf"}


def test_a_standby_of_failover_is_not_in_the_way() -> None:
    world = World()
    world.attach(SubscriptionType.FAILOVER, name="active", permits=1)
    world.attach(SubscriptionType.FAILOVER, name="standby")
    world.publish([1, 1])
    assert [(finding.reason, finding.consumer) for finding in why(world)] == [(Reason.NO_PERMITS, "active")]


def test_messages_on_their_way_are_explained() -> None:
    """A consumer could take messages."""
    world = World()
    consumer = world.attach(SHARED, permits=1)
    world.publish([1, 1])
    received(consumer)
    consumer.flow(5, 0)
    assert reasons(why(world)) == [Reason.DELIVERING]
    assert reasons(why(world, reads_under_way=1)) == [Reason.BACKLOG_READ]
    assert reasons(why(world, reads_waiting=1)) == [Reason.MEMORY]
    assert reasons(why(world, no_room=True)) == [Reason.NO_ROOM]
    (finding,) = why(world, draining=[WaitingKey("k", "former", Position(1, 0))])
    assert (finding.reason, finding.key, finding.consumer, finding.position) == (Reason.KEY_DRAINING, "k", "former", Position(1, 0))


def test_a_message_that_waits_for_the_consumer_of_its_key_was_not_sent() -> None:
    world = World()
    slow = world.attach(SubscriptionType.KEY_SHARED, permits=5, name="slow")
    world.publish_keyed([f"k{index}" for index in range(8)])
    (finding,) = why(world)
    assert (finding.reason, finding.consumer) == (Reason.NO_PERMITS, "slow")
    other = world.attach(SubscriptionType.KEY_SHARED, permits=50, name="other")
    assert reasons(why(world)) == [Reason.NO_PERMITS]
    assert "wait for the consumers of their keys: Consumer 'slow' has not" in why(world)[0].sentence
    world.flow(slow, 50)
    world.publish_keyed([f"k{index}" for index in range(8)])
    assert reasons(why(world)) == [Reason.KEY_DRAINING]  # what the new one is to get waits for what `slow` holds
    assert "until the consumers that had their keys before" in why(world)[0].sentence
    world.ack(slow, *[at for at, _ in slow.sink.received])  # type: ignore[attr-defined]
    assert other.messages_out and reasons(why(world)) == [Reason.SENT]


def test_delayed_messages_that_wait_and_those_that_were_sent() -> None:
    world = DelayedWorld()
    world.attach("s", 10)
    world.publish([60_000, 70_000, 80_000])
    (finding,) = explain(world.subscriptions["s"], DeliveryState(next_delayed_ms=START_MS + 60_000))
    assert finding.reason is Reason.DELAYED and finding.until_ms == START_MS + 60_000
    assert finding.sentence.startswith("3 delayed messages wait for their delivery time. The next is not due before 2026-")
    assert finding.sentence.endswith(". No TTL expires them.")
    (finding,) = explain(world.subscriptions["s"], DeliveryState(message_ttl_s=3600, backlog_quota_bytes=1 << 20))
    text = "The TTL expires what was stored 3600 s ago, due or not. They count for the backlog quota of 1,048,576 bytes."
    assert finding.sentence == f"3 delayed messages wait for their delivery time. {text}"
    world.publish([None])
    assert reasons(explain(world.subscriptions["s"], DeliveryState())) == [Reason.DELAYED, Reason.SENT]
    world.publish([None] * 5)
    assert reasons(explain(world.subscriptions["s"], DeliveryState())) == [Reason.SENT, Reason.DELAYED]


def test_where_nothing_is_due_nobody_has_to_be_connected() -> None:
    world = DelayedWorld()
    consumer = world.attach("s", 10)
    world.publish([60_000, 70_000])
    world.detach("s", consumer)
    subscription, next_ms = world.subscriptions["s"], START_MS + 60_000
    early, late = (DeliveryState(now_ms=at_ms, next_delayed_ms=next_ms) for at_ms in (START_MS, next_ms))
    assert reasons(explain(subscription, early)) == [Reason.DELAYED, Reason.NO_CONSUMER]
    verdict = judge_delivery(subscription, early)
    assert "The next is not due before" in verdict.finding.sentence
    assert signs_of_subscription(subscription, early, verdict, grows=False, idle_since_ms=0) == []
    assert reasons(explain(subscription, late)) == [Reason.NO_CONSUMER, Reason.DELAYED]
    (sign,) = signs_of_subscription(subscription, late, judge_delivery(subscription, late), grows=False, idle_since_ms=0)
    assert sign.kind == "no_consumer"
    world.publish([None])
    assert reasons(explain(subscription, early)) == [Reason.NO_CONSUMER, Reason.DELAYED]


def test_dead_letters_that_cannot_be_moved() -> None:
    world = World()
    consumer = world.attach(SHARED, permits=10)
    (entry,) = world.publish([1])
    policy = DeadLetterPolicy("p", 1, "persistent://acme/orders/dead", "owner")
    letters = DeadLetters(DeadLetterRecord(1, policy))
    world.subscription.follow_dead_letters(letters)
    for _ in range(2):
        world.nack(consumer, entry)
    (finding,) = why(world)
    assert finding.reason is Reason.DEAD_LETTERS
    letters.failed("no permission", 0)
    assert "no permission" in why(world)[0].sentence
    assert trace_in(world.subscription, entry, []).where is TraceState.DEAD
