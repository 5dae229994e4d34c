"""What the simulation found, each in a few steps."""

from __future__ import annotations

from random import Random

import pytest

from messaging.broker.core.cursors.ack_sets import AckSets
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.delayed.delayed_entries import DelayedEntries
from messaging.broker.core.dispatch import key_shared
from messaging.broker.core.subscription_type import SubscriptionType
from tests.simulation.subscriptions import deliveries, dispatched
from tests.simulation.subscriptions.blocks import Draft
from tests.simulation.subscriptions.operations import KEYS
from tests.simulation.subscriptions.topic import Topic

SILENT_MS = 10_000


def key_shared_topic() -> Topic:
    topic = Topic(SubscriptionType.KEY_SHARED, Random(1), deliveries.check)
    topic.limit_redeliveries(None)
    return topic


def test_a_delayed_message_comes_though_no_more_may_be_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_shared, "LOOK_AHEAD_PER_CONSUMER", 5)
    topic = key_shared_topic()
    for consumer in (topic.attach(), topic.attach()):
        topic.flow(consumer, 100)
    topic.publish([Draft("p", key) for key in KEYS])
    owners = {topic.model.entries[position].key: whom for position, whom in topic.model.with_whom.items()}
    fast, slow = KEYS[0], next(key for key in KEYS if owners[key] is not owners[KEYS[0]])
    topic.readable(owners[slow], False)
    topic.publish([Draft("p", fast, due_ms=topic.now_ms + 5_000), *[Draft("p", slow)] * 20])
    delayed = list(topic.model.entries)[len(KEYS)]
    assert delayed not in topic.model.with_whom
    topic.pass_time(10_000)
    assert topic.model.with_whom[delayed] is owners[fast]


def test_a_due_message_set_aside_when_something_raised_takes_no_others_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was in two places. Sent from the one it was known from the other: those beside it were passed over, and came to nobody."""
    topic = key_shared_topic()
    for consumer in (topic.attach(), topic.attach()):
        topic.flow(consumer, 100)
    topic.publish([Draft("p", key) for key in KEYS])
    owners = {topic.model.entries[position].key: whom for position, whom in topic.model.with_whom.items()}
    slow = next(key for key in KEYS if owners[key] is not owners[KEYS[0]])
    topic.readable(owners[slow], False)
    topic.publish([Draft("p", slow, due_ms=topic.now_ms + 5_000)] * 3)
    real = DelayedEntries.advance

    def fail(self: DelayedEntries, ledger_id: int, first: int, stop: int) -> None:
        raise RuntimeError("injected")

    monkeypatch.setattr(dispatched, "FROM_THE_LOG", 0.0)
    monkeypatch.setattr(dispatched, "GATHERED_MAX", 1)  # the first of them alone
    monkeypatch.setattr(DelayedEntries, "advance", fail)
    with pytest.raises(RuntimeError):
        topic.pass_time(10_000)
    monkeypatch.setattr(DelayedEntries, "advance", real)
    monkeypatch.setattr(dispatched, "FROM_THE_LOG", 1.0)  # all of them
    topic.subscription.recover(lambda delta: None)
    topic.dispatch()
    topic.readable(owners[slow], True)
    assert len(topic.model.with_whom) == len(KEYS) + 3


def test_blocks_read_ahead_of_delayed_messages_go_to_the_next_consumer() -> None:
    """Messages of a block that is known, sent as single ones: the others of that block are still found."""
    topic = key_shared_topic()
    leaving = topic.attach()
    topic.flow(leaving, 1_000)
    topic.publish([Draft("p", KEYS[n % 7], due_ms=topic.now_ms + 5_000 if n % 2 else 0) for n in range(20)])
    topic.pass_time(10_000)
    assert topic.counts["blocks read ahead of delayed messages"] and len(topic.model.with_whom) == 20
    staying = topic.attach()
    topic.flow(staying, 1_000)
    topic.redeliver(leaving, None)
    assert set(topic.model.with_whom.values()) == {leaving, staying}
    topic.detach(leaving)
    assert list(topic.model.with_whom.values()) == [staying] * 20


def test_a_message_set_aside_unsent_is_not_said_to_be_delivered() -> None:
    """It was due and is set aside, because its consumer does not read: it may still be changed."""
    topic = key_shared_topic()
    for consumer in (topic.attach(), topic.attach()):
        topic.flow(consumer, 100)
    topic.publish([Draft("p", key) for key in KEYS])
    owners = {topic.model.entries[position].key: whom for position, whom in topic.model.with_whom.items()}
    slow = owners[KEYS[0]]
    topic.readable(slow, False)
    topic.publish([Draft("p", KEYS[0], due_ms=topic.now_ms + 5_000)])
    delayed = list(topic.model.entries)[-1]
    topic.pass_time(10_000)
    assert topic.subscription.state.redeliveries.entries and topic.may_change(delayed)
    topic.readable(slow, True)
    assert topic.model.with_whom[delayed] is slow
    topic.readable(slow, False)
    topic.redeliver(slow, [delayed])
    assert not topic.may_change(delayed), "it came back"


def test_a_message_sent_before_a_restart_may_be_rescheduled_and_comes_then() -> None:
    """Nobody knows any more that it was held. It would come again at once; so it comes at its new time, once."""
    topic = key_shared_topic()
    topic.flow(topic.attach(), 10)
    topic.publish([Draft("p", "key", due_ms=topic.now_ms + 5_000)])
    topic.pass_time(10_000)
    (position,) = topic.model.with_whom
    topic.crash()
    assert topic.may_change(position)
    topic.reschedule(position, topic.now_ms + 60_000)
    topic.flow(topic.attach(), 10)
    topic.pass_time(30_000)
    assert not topic.model.with_whom
    topic.pass_time(40_000)
    assert list(topic.model.with_whom) == [position]


def test_a_key_keeps_its_order_when_the_dead_letter_policy_changes() -> None:
    topic = key_shared_topic()
    consumer = topic.attach()
    topic.flow(consumer, 2)
    topic.publish([Draft("p", "key")] * 2)
    first, second = topic.model.entries
    topic.redeliver(consumer, [first])
    topic.limit_redeliveries(3)
    topic.redeliver(consumer, [second])
    topic.flow(consumer, 10)
    assert list(topic.model.with_whom) == [first, second]


def test_chunks_are_not_given_up_while_the_rest_waits_for_their_consumer() -> None:
    topic = key_shared_topic()
    consumer = topic.attach()
    topic.flow(consumer, 1)
    topic.publish([Draft("p", "key", chunk=(1, chunk, 3)) for chunk in range(3)])
    chunks = list(topic.model.entries)
    assert list(topic.model.with_whom) == chunks[:1]
    topic.pass_time(2 * SILENT_MS)
    topic.publish([Draft("p", "key")])
    assert topic.expire_chunks(SILENT_MS) == []
    topic.flow(consumer, 10)
    assert topic.model.usable(topic.model.held_by(consumer), consumer)[:3] == chunks


def test_a_message_that_expired_while_something_raised_is_expired_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = key_shared_topic()
    topic.publish([Draft("p", "key")])
    (position,) = topic.model.entries
    topic.ttl_ms, topic.now_ms = 1_000, topic.now_ms + 2_000

    def fail(self: AckSets) -> int:
        raise RuntimeError("injected")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(AckSets, "__len__", fail)
        topic.flow(topic.attach(), 1)
    assert topic.subscription.cursor.acknowledged(position)
    restarted = Cursor()
    topic.subscription.recover(lambda delta: restarted.apply(delta, topic.ledger_list))
    assert restarted.acknowledged(position)
