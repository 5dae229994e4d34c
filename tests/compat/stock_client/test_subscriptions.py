"""What Apache's own client is promised of subscriptions: who gets which message, what comes again, where reading goes on."""

from __future__ import annotations

from itertools import pairwise

import pulsar
import pytest

from tests.compat.stock import Stock, nothing_more, receive

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

EARLIEST = pulsar.InitialPosition.Earliest


def test_an_exclusive_subscription_takes_one_consumer(stock: Stock, topic: str) -> None:
    stock.client().subscribe(topic, "mine", pulsar.ConsumerType.Exclusive)
    with pytest.raises(pulsar.ConsumerBusy):
        stock.client().subscribe(topic, "mine", pulsar.ConsumerType.Exclusive)


def test_a_shared_subscription_gives_each_message_to_one(stock: Stock, topic: str) -> None:
    consumers = [stock.client().subscribe(topic, "shared", pulsar.ConsumerType.Shared, receiver_queue_size=10) for _ in range(2)]
    producer = stock.client().create_producer(topic)
    for number in range(200):
        producer.send_async(str(number).encode(), None)
    producer.flush()
    got: list[list[int]] = [[], []]
    while sum(map(len, got)) < 200:
        for consumer, mine in zip(consumers, got, strict=True):
            try:
                message = consumer.receive(200)
            except pulsar.Timeout:
                continue
            consumer.acknowledge(message)
            mine.append(int(message.data()))
    assert sorted(got[0] + got[1]) == list(range(200))
    assert got[0] and got[1]


def test_two_subscriptions_each_get_everything_in_order(stock: Stock, topic: str) -> None:
    client = stock.client()
    first, second = client.subscribe(topic, "one"), client.subscribe(topic, "two")
    producer = client.create_producer(topic, batching_enabled=True)
    for number in range(100):
        producer.send_async(str(number).encode(), None)
    producer.flush()
    for consumer in (first, second):
        got = receive(consumer, 100)
        assert [int(message.data()) for message in got] == list(range(100))
        assert all(earlier.message_id() < later.message_id() for earlier, later in pairwise(got))


def test_a_subscription_made_later_may_begin_at_the_start(stock: Stock, topic: str) -> None:
    client = stock.client()
    producer = client.create_producer(topic)
    for number in range(5):
        producer.send(str(number).encode())
    consumer = client.subscribe(topic, "later", initial_position=EARLIEST)
    assert [message.data() for message in receive(consumer, 5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_unacknowledged_messages_come_again_to_the_next_consumer(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "work", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    for number in range(3):
        producer.send(str(number).encode())
    first = consumer.receive(5000)
    consumer.acknowledge(first)
    consumer.receive(5000)
    consumer.close()
    again = client.subscribe(topic, "work", pulsar.ConsumerType.Shared)
    assert [message.data() for message in receive(again, 2)] == [b"1", b"2"]
    assert nothing_more(again)


def test_a_negative_acknowledgement_brings_it_back(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "work", pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=200)
    client.create_producer(topic).send(b"again")
    consumer.negative_acknowledge(consumer.receive(5000))
    message = consumer.receive(10_000)
    assert message.data() == b"again" and message.redelivery_count() == 1


def test_a_failover_subscription_has_one_active_consumer_and_a_successor(stock: Stock, topic: str) -> None:
    """Which one it is follows from their names and that of the topic."""
    clients = [stock.client(), stock.client()]
    consumer_a, other = (
        client.subscribe(topic, "one", pulsar.ConsumerType.Failover, consumer_name=name)
        for client, name in zip(clients, "ab", strict=True)
    )
    producer = stock.client().create_producer(topic)
    for number in range(10):
        producer.send(str(number).encode())
    try:
        first = consumer_a.receive(1000)
        active, waiting = consumer_a, other
    except pulsar.Timeout:
        first = other.receive(10_000)
        active, waiting = other, consumer_a
        clients.reverse()
    active.acknowledge(first)
    assert [int(message.data()) for message in (first, *receive(active, 9))] == list(range(10))
    assert nothing_more(waiting, 300)
    clients[0].close()
    producer.send(b"10")
    assert [message.data() for message in receive(waiting, 1)] == [b"10"]


def test_a_cumulative_acknowledgement_covers_everything_before_it(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "cursor", pulsar.ConsumerType.Failover)
    producer = client.create_producer(topic)
    for number in range(10):
        producer.send(str(number).encode())
    got = [consumer.receive(5000) for _ in range(10)]
    consumer.acknowledge_cumulative(got[6])
    consumer.close()
    again = client.subscribe(topic, "cursor", pulsar.ConsumerType.Failover)
    assert [int(message.data()) for message in receive(again, 3)] == [7, 8, 9]


def test_seeking_back_and_to_a_time(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "replay")
    producer = client.create_producer(topic)
    identifiers = [producer.send(str(number).encode()) for number in range(6)]
    receive(consumer, 6)
    consumer.seek(pulsar.MessageId.earliest)
    assert [int(message.data()) for message in receive(consumer, 6)] == list(range(6))
    consumer.seek(identifiers[3])
    assert int(receive(consumer, 1)[0].data()) in (3, 4)  # the client decides whether the start is included
    consumer.seek(1)  # milliseconds since 1970: everything was published later
    assert [int(message.data()) for message in receive(consumer, 6)] == list(range(6))


def test_unsubscribing_forgets_the_backlog(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "gone")
    client.create_producer(topic).send(b"unread")
    consumer.unsubscribe()
    assert nothing_more(client.subscribe(topic, "gone"), 300)


def test_the_last_message_is_known(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "last")
    producer = client.create_producer(topic)
    identifiers = [producer.send(str(number).encode()) for number in range(3)]
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id()) == (identifiers[-1].ledger_id(), identifiers[-1].entry_id())
