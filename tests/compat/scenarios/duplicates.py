"""Messages that are sent again where deduplication is on."""

from __future__ import annotations

from tests.compat.scenarios.values import rest, take, texts
from tests.compat.scenarios.world import Outcome, World


def what_is_sent_again_is_stored_once(w: World) -> Outcome:
    topic = f"{w.namespace(deduplication=True)}t"
    consumer = w.consumer(topic)
    found = []
    for numbers in ([1, 2, 3], [2, 3, 4], [1], [4, 5]):
        producer = w.producer(topic, producer_name="p")
        before = producer.last_sequence_id()
        for number in numbers:
            producer.send(b"%d" % number, sequence_id=number)
        found.append([before, producer.last_sequence_id()])
        producer.close()
    return [found, texts(consumer, 5), rest(consumer)]


def batches_that_are_sent_again(w: World) -> Outcome:
    topic = f"{w.namespace(deduplication=True)}t"
    consumer = w.consumer(topic)
    found = []
    for _ in range(2):
        producer = w.batching(topic, 3, producer_name="p")
        found.append(producer.last_sequence_id())
        for number in (1, 2, 3):
            producer.send_async(b"%d" % number, lambda *_: None, sequence_id=number)
        producer.flush()
        producer.close()
    return [found, texts(consumer, 3), rest(consumer)]


def chunks_that_are_sent_again(w: World) -> Outcome:
    topic = f"{w.namespace(deduplication=True)}t"
    consumer = w.consumer(topic)
    payload = bytes(12 << 20)
    found = []
    for _ in range(2):
        producer = w.producer(topic, producer_name="p", chunking_enabled=True)
        found.append(producer.last_sequence_id())
        producer.send(payload, sequence_id=5)
        producer.send(b"last", sequence_id=6)
        producer.close()
    return [found, [len(message.data()) for message in take(consumer, 3)]]


def other_producers_are_not_duplicates(w: World) -> Outcome:
    topic = f"{w.namespace(deduplication=True)}t"
    consumer = w.consumer(topic)
    for name in "ab":
        producer = w.producer(topic, producer_name=name)
        producer.send(name.encode(), sequence_id=1)
    return [texts(consumer, 2), rest(consumer)]


def a_lower_sequence_id_is_a_duplicate(w: World) -> Outcome:
    topic = f"{w.namespace(deduplication=True)}t"
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    for number in (10, 5, 11):
        producer.send(b"%d" % number, sequence_id=number)
    return [texts(consumer, 2), rest(consumer)]
