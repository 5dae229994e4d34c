"""Whatever raises while entries are shared out or sent, nothing is lost, and nothing comes twice: instead of each call in turn."""

from __future__ import annotations

from random import Random

import pytest

from messaging.broker.core.subscription_type import SubscriptionType
from tests.simulation.small_runs import small_sizes
from tests.simulation.subscriptions import deliveries, invariants
from tests.simulation.subscriptions.blocks import Draft
from tests.simulation.subscriptions.client import sink_of
from tests.simulation.subscriptions.operations import KEYS
from tests.simulation.subscriptions.run import read_all
from tests.simulation.subscriptions.topic import Topic

EXCLUSIVE = SubscriptionType.EXCLUSIVE


def with_work(kind: SubscriptionType) -> Topic:
    """Of each kind something is due: what came back, batches, chunks, what was delayed, what has expired."""
    topic = Topic(kind, Random(4), deliveries.check)
    topic.limit_redeliveries(3)
    first = topic.attach()
    topic.publish([Draft("pa", key, size) for key in KEYS[:3] for size in (1, 3)])
    topic.ttl_ms = 30_000
    topic.flow(first, 7)
    topic.pass_time(29_000)
    topic.publish([Draft("pb", key) for key in KEYS])
    topic.publish([Draft("pb", KEYS[n % 7], due_ms=topic.now_ms + 3_000 if n % 2 else 0) for n in range(6)])
    topic.publish([Draft("pa", KEYS[1], chunk=(1, chunk, 3)) for chunk in range(3)])
    topic.flow(first, 8)
    topic.redeliver(first, topic.model.held_by(first)[-3:])
    if kind is not EXCLUSIVE:
        topic.attach()
    topic.pass_time(2_500)  # what came first has expired
    topic.publish([Draft("pb", key) for key in KEYS])
    topic.now_ms += 2_000
    topic.look_at_delays()
    for consumer in topic.consumers:
        sink_of(consumer).permits += 50
        consumer.flow(50, topic.now_ms)
    return topic


@pytest.mark.parametrize("kind", SubscriptionType)
def test_nothing_is_lost_whatever_raises_in_a_dispatch(kind: SubscriptionType) -> None:
    with small_sizes():
        for number in range(2_000):
            topic = with_work(kind)
            topic.throw_at = number
            topic.dispatch()
            invariants.require(topic, invariants.AFTER_EVERY_STEP)
            invariants.require(topic, invariants.NOW_AND_THEN)
            thrown = topic.counts["exceptions"]
            read_all(topic)
            if not thrown:
                break
    assert 50 < number < 1_999, "each call of a dispatch raised once"
