"""What the simulation found, each in a few steps."""

from __future__ import annotations

from random import Random

import pytest

from messaging.broker.core.dispatch import key_shared
from messaging.broker.core.subscription_type import SubscriptionType
from tests.simulation.subscriptions import deliveries
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
