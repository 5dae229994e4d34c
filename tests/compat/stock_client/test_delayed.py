"""Delayed messages as Apache's own client sends and receives them."""

from __future__ import annotations

import time
from datetime import timedelta

import pulsar
import pytest

from tests.compat.stock import Stock, nothing_more, receive
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

SHARED = pulsar.ConsumerType.Shared
TICK_S = 1.0  # the default: a message may be delivered so much before its time


def test_deliver_after_waits_on_a_shared_subscription_and_others_pass(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "s", SHARED)
    producer = client.create_producer(topic, batching_enabled=True)
    begin = time.time()
    producer.send(b"late", deliver_after=timedelta(seconds=3))
    producer.send(b"now")
    assert [message.data() for message in receive(consumer, 1)] == [b"now"]
    assert time.time() < begin + 3 - TICK_S
    assert [message.data() for message in receive(consumer, 1)] == [b"late"]
    assert begin + 3 - TICK_S <= time.time() < begin + 3 + TICK_S


def test_deliver_at_in_the_past_is_delivered_at_once(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "s", SHARED)
    client.create_producer(topic).send(b"past", deliver_at=int(time.time() * 1000) - 60_000)
    assert [message.data() for message in receive(consumer, 1)] == [b"past"]


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover])
def test_the_types_that_keep_the_order_deliver_at_once(stock: Stock, topic: str, kind: pulsar.ConsumerType) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "s", kind)
    producer = client.create_producer(topic)
    producer.send(b"late", deliver_after=timedelta(hours=1))
    producer.send(b"now")
    assert [message.data() for message in receive(consumer, 2)] == [b"late", b"now"]


def test_two_subscriptions_wait_each_for_itself(stock: Stock, topic: str) -> None:
    client = stock.client()
    first, second = client.subscribe(topic, "a", SHARED), client.subscribe(topic, "b", SHARED)
    producer = client.create_producer(topic)
    for number in range(20):
        producer.send(str(number).encode(), deliver_after=timedelta(milliseconds=1_500 + 50 * number))
    for consumer in (first, second):
        assert sorted(int(message.data()) for message in receive(consumer, 20)) == list(range(20))
        assert nothing_more(consumer, 200)


def test_a_delayed_message_is_cancelled_and_another_rescheduled(stock: Stock, standalone: Standalone, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "s", SHARED)
    producer = client.create_producer(topic)
    cancelled, rescheduled = (producer.send(data, deliver_after=timedelta(hours=1)) for data in (b"cancelled", b"rescheduled"))

    def change(method: str, message: pulsar.MessageId, body: dict[str, int] | None = None) -> int:
        name = f"{message.ledger_id()}:{message.entry_id()}:{message.partition()}:{message.batch_index()}"
        path = f"/api/v1/tenants/public/namespaces/default/topics/{topic.rpartition('/')[2]}/delayed/{name}"
        return standalone.http(method, path, body, standalone.admin_token).status

    assert change("DELETE", cancelled) == 200
    assert change("PATCH", rescheduled, {"delay_ms": 0}) == 200
    (message,) = receive(consumer, 1)
    assert message.data() == b"rescheduled" and message.message_id() == rescheduled
    assert change("PATCH", rescheduled, {"delay_ms": 0}) == 409
    assert change("PATCH", cancelled, {"delay_ms": 0}) == 409
    later = client.subscribe(topic, "later", SHARED, initial_position=pulsar.InitialPosition.Earliest)
    assert [message.data() for message in receive(later, 1)] == [b"rescheduled"] and nothing_more(later, 200)
