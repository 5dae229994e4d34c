"""Deduplication by producer name and sequence id."""

from __future__ import annotations

from typing import Any

import pulsar

from tests.compat.scenarios.values import rest, shapes, texts
from tests.compat.scenarios.world import Outcome, World, topic_path


def _topic(w: World) -> str:
    return f"{w.namespace(deduplication=True)}t"


def _sent(producer: pulsar.Producer, *ids: int) -> list[Any]:
    return [producer.send(str(number).encode(), sequence_id=number) for number in ids]


def a_duplicate_is_stored_once(w: World) -> Outcome:
    topic = _topic(w)
    consumer = w.consumer(topic)
    producer = w.producer(topic, producer_name="p")
    _sent(producer, 1, 2, 2, 1, 3)
    return [producer.last_sequence_id(), rest(consumer)]


def without_the_policy_nothing_is_a_duplicate(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    _sent(w.producer(topic, producer_name="p"), 1, 2, 2, 1)
    return rest(consumer)


def the_ids_of_duplicates(w: World) -> Outcome:
    topic = _topic(w)
    return shapes(_sent(w.producer(topic, producer_name="p"), 1, 2, 1, 2, 3))


def gaps_are_no_matter(w: World) -> Outcome:
    topic = _topic(w)
    consumer = w.consumer(topic)
    _sent(w.producer(topic, producer_name="p"), 5, 10, 7, 11)
    return rest(consumer)


def a_name_used_again_goes_on_counting(w: World) -> Outcome:
    topic = _topic(w)
    consumer = w.consumer(topic)
    first = w.producer(topic, producer_name="p")
    _sent(first, 1, 2, 3)
    first.close()
    second = w.producer(topic, producer_name="p")
    last = second.last_sequence_id()
    _sent(second, 2, 3, 4)
    second.send(b"next")
    return [last, second.last_sequence_id(), texts(consumer, 5), rest(consumer)]


def each_name_counts_for_itself(w: World) -> Outcome:
    topic = _topic(w)
    consumer = w.consumer(topic)
    for name in ("p", "q"):
        _sent(w.producer(topic, producer_name=name), 1, 2, 1)
    return rest(consumer)


def it_survives_unloading(w: World) -> Outcome:
    topic = _topic(w)
    consumer = w.consumer(topic)
    producer = w.producer(topic, producer_name="p")
    _sent(producer, 1, 2)
    w.admin("PUT", f"{topic_path(topic)}/unload")
    _sent(producer, 1, 2, 3)
    return texts(consumer, 3) + rest(consumer)


def batches(w: World) -> Outcome:
    topic = _topic(w)
    consumer = w.consumer(topic)
    producer = w.batching(topic, 3, producer_name="p")
    for ids in ((1, 2, 3), (1, 2, 3), (4, 5, 6)):
        for number in ids:
            producer.send_async(str(number).encode(), lambda *_: None, sequence_id=number)
        producer.flush()
    return [rest(consumer), producer.last_sequence_id()]


def messages_without_ids_of_their_own(w: World) -> Outcome:
    topic = _topic(w)
    consumer = w.consumer(topic)
    producer = w.producer(topic, producer_name="p")
    for text in "abc":
        producer.send(text.encode())
    return [producer.last_sequence_id(), rest(consumer)]


def an_id_to_begin_with(w: World) -> Outcome:
    topic = _topic(w)
    consumer = w.consumer(topic)
    w.send(topic, "a", "b", producer_name="p", initial_sequence_id=9)
    again = w.producer(topic, producer_name="p", initial_sequence_id=9)
    for text in ("a", "b", "c"):
        again.send(text.encode())
    return [again.last_sequence_id(), rest(consumer)]


def chunks(w: World) -> Outcome:
    topic = _topic(w)
    consumer = w.consumer(topic)
    producer = w.producer(topic, producer_name="p", chunking_enabled=True)
    large = b"x" * 11_000_000
    for number in (1, 1, 2):
        producer.send(large, sequence_id=number)
    return [len(text) for text in rest(consumer, 800)]


def partitions_count_for_themselves(w: World) -> Outcome:
    prefix = w.namespace(deduplication=True)
    topic = f"{prefix}parts"
    w.admin("PUT", f"{topic_path(topic)}/partitions", 2)
    consumer = w.consumer(topic)
    producer = w.producer(topic, producer_name="p", message_router=lambda message, count: int(message.data()) % count)
    _sent(producer, 2, 1, 3, 4, 2)
    return [producer.last_sequence_id(), sorted(texts(consumer, 4) + rest(consumer))]
