"""Dead-letter policies that the broker applies, as Apache's own client sees them: it needs no policy of its own."""

from __future__ import annotations

import pulsar
import pytest

from tests.compat.stock import RECEIVE_MS, Stock, nothing_more, receive
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared


def set_policy(standalone: Standalone, topic: str, redeliveries: int) -> None:
    local = topic.rpartition("/")[2]
    path = f"/api/v1/tenants/public/namespaces/default/topics/{local}/subscriptions/s/dead-letter-policy"
    body = {"max_redeliver_count": redeliveries, "initial_subscription": "graves"}
    answer = standalone.http("PUT", path, body, token=standalone.admin_token)
    assert answer.status == 200, answer.text


def rejecting(stock: Stock, topic: str, **options: object) -> pulsar.Consumer:
    return stock.client().subscribe(topic, "s", SHARED, initial_position=EARLIEST, negative_ack_redelivery_delay_ms=100, **options)


def test_a_message_rejected_too_often_lands_in_the_dead_letter_topic(stock: Stock, standalone: Standalone, topic: str) -> None:
    consumer = rejecting(stock, topic)
    set_policy(standalone, topic, 2)
    producer = stock.client().create_producer(topic)
    sent = producer.send(b"poison", properties={"mine": "1"}, partition_key="k", event_timestamp=77)
    counts = []
    for _ in range(3):
        message = consumer.receive(RECEIVE_MS)
        counts.append(message.redelivery_count())
        consumer.negative_acknowledge(message)
    assert counts == [0, 1, 2]
    (dead,) = receive(stock.client().subscribe(f"{topic}-s-DLQ", "graves", SHARED), 1)
    assert (dead.data(), dead.partition_key(), dead.event_timestamp()) == (b"poison", "k", 77)
    properties = dead.properties()
    assert properties["mine"] == "1"
    assert (properties["REAL_TOPIC"], properties["REAL_SUBSCRIPTION"]) == (topic, "s")
    assert properties["ORIGIN_MESSAGE_ID"] == f"{sent.ledger_id()}:{sent.entry_id()}:-1"
    assert properties["DEAD_LETTER_REDELIVERY_COUNT"] == "3"
    assert nothing_more(consumer)


def test_of_a_batch_only_the_rejected_message_moves(stock: Stock, standalone: Standalone, topic: str) -> None:
    consumer = rejecting(stock, topic, batch_index_ack_enabled=True)
    set_policy(standalone, topic, 1)
    producer = stock.client().create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=100)
    for number in range(5):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    for message in [consumer.receive(RECEIVE_MS) for _ in range(5)]:
        if message.data() != b"3":
            consumer.acknowledge(message)
        else:
            consumer.negative_acknowledge(message)
    again = consumer.receive(RECEIVE_MS)
    assert again.data() == b"3"
    consumer.negative_acknowledge(again)
    (dead,) = receive(stock.client().subscribe(f"{topic}-s-DLQ", "graves", SHARED), 1)
    assert dead.data() == b"3"
    assert dead.properties()["ORIGIN_MESSAGE_ID"].endswith(":3")


def test_a_chunked_message_moves_whole(stock: Stock, standalone: Standalone, topic: str) -> None:
    consumer = rejecting(stock, topic)
    set_policy(standalone, topic, 0)
    large = bytes(range(256)) * (48 << 10)  # three chunks
    stock.client().create_producer(topic, chunking_enabled=True, batching_enabled=False).send(large)
    consumer.negative_acknowledge(consumer.receive(RECEIVE_MS))
    (dead,) = receive(stock.client().subscribe(f"{topic}-s-DLQ", "graves", SHARED), 1)
    assert dead.data() == large


def test_large_messages_of_several_producers_are_whole_for_several_consumers(stock: Stock, topic: str) -> None:
    consumers = [stock.client().subscribe(topic, "s", SHARED, receiver_queue_size=1) for _ in range(2)]
    producers = [stock.client().create_producer(topic, chunking_enabled=True, batching_enabled=False) for _ in range(2)]
    sent = {bytes([65 + number]) * (11 << 20) for number in range(4)}
    for number, payload in enumerate(sorted(sent)):
        producers[number % 2].send_async(payload, lambda *_: None)
    for producer in producers:
        producer.flush()
    received: set[bytes] = set()
    while received != sent:
        for consumer in consumers:
            try:
                message = consumer.receive(300)
            except pulsar.Timeout:
                continue
            assert message.data() in sent - received
            received.add(message.data())
            consumer.acknowledge(message)
    assert all(nothing_more(consumer, 200) for consumer in consumers)
