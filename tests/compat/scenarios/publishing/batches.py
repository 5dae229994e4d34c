"""Batches: what is in them arrives as if it had been sent alone."""

from __future__ import annotations

from typing import Any

import pulsar

from tests.compat.scenarios.values import received, rest, shapes, take, texts
from tests.compat.scenarios.world import Outcome, World, send_together

_LETTERS = [chr(ord("a") + number) for number in range(10)]


def _compressed(w: World, compression: str, size: int) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    options: dict[str, Any] = {"compression_type": getattr(pulsar.CompressionType, compression)}
    producer = w.batching(topic, size, **options) if size > 1 else w.producer(topic, **options)
    ids = send_together(producer, *(letter * 100 for letter in _LETTERS[:size]), properties={"k": "v"}, partition_key="key")
    messages = take(consumer, size)
    return [shapes(ids), [[len(message.data()), message.properties(), message.partition_key()] for message in messages]]


def plain_messages(w: World) -> Outcome:
    return _compressed(w, "NONE", 1)


def plain_batches(w: World) -> Outcome:
    return _compressed(w, "NONE", 4)


def lz4_messages(w: World) -> Outcome:
    return _compressed(w, "LZ4", 1)


def lz4_batches(w: World) -> Outcome:
    return _compressed(w, "LZ4", 4)


def zlib_messages(w: World) -> Outcome:
    return _compressed(w, "ZLib", 1)


def zlib_batches(w: World) -> Outcome:
    return _compressed(w, "ZLib", 4)


def zstd_messages(w: World) -> Outcome:
    return _compressed(w, "ZSTD", 1)


def zstd_batches(w: World) -> Outcome:
    return _compressed(w, "ZSTD", 4)


def snappy_messages(w: World) -> Outcome:
    return _compressed(w, "SNAPPY", 1)


def snappy_batches(w: World) -> Outcome:
    return _compressed(w, "SNAPPY", 4)


def each_message_keeps_its_own_properties(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    producer = w.batching(topic, 3)
    for number in range(3):
        producer.send_async(
            b"x",
            lambda *_: None,
            properties={"n": str(number)},
            partition_key=f"k{number}",
            ordering_key=f"o{number}",
            event_timestamp=number + 1,
        )
    producer.flush()
    return [[m.properties(), m.partition_key(), m.ordering_key(), m.event_timestamp()] for m in take(consumer, 3)]


def batches_by_key(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    producer = w.batching(topic, 6, batching_type=pulsar.BatchingType.KeyBased)
    for number in range(6):
        producer.send_async(str(number).encode(), lambda *_: None, partition_key=f"k{number % 2}")
    producer.flush()
    messages = take(consumer, 6)
    return sorted([m.partition_key(), m.data().decode(), m.message_id().batch_index()] for m in messages)


def a_batch_is_full_by_bytes(w: World) -> Outcome:
    topic = w.topic()
    producer = w.batching(topic, 100, batching_max_allowed_size_in_bytes=1000)
    return [entry for _, entry, _, _ in shapes(send_together(producer, *(["x" * 400] * 6)))]


def half_of_a_batch_is_acknowledged(w: World) -> Outcome:
    """Without acknowledgements by index the whole batch comes again."""
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send_batch(topic, "a", "b", "c", "d")
    messages = take(consumer, 4)
    for message in messages[:2]:
        consumer.acknowledge(message)
    consumer.close()
    return rest(w.consumer(topic))


def _by_index(w: World, kind: str, acknowledged: tuple[int, ...]) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind=kind, batch_index_ack_enabled=True)
    w.send_batch(topic, "a", "b", "c", "d", key="k")
    messages = take(consumer, 4)
    for index in acknowledged:
        consumer.acknowledge(messages[index])
    consumer.close()
    return received(take(w.consumer(topic, kind=kind, batch_index_ack_enabled=True), 4 - len(acknowledged)))


def by_index_on_exclusive(w: World) -> Outcome:
    return _by_index(w, "Exclusive", (1, 3))


def by_index_on_failover(w: World) -> Outcome:
    return _by_index(w, "Failover", (0, 2))


def by_index_on_shared(w: World) -> Outcome:
    return _by_index(w, "Shared", (1, 2))


def by_index_on_key_shared(w: World) -> Outcome:
    return _by_index(w, "KeyShared", (0, 3))


def by_index_cumulatively(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, batch_index_ack_enabled=True)
    w.send(topic, "0")
    w.send_batch(topic, "a", "b", "c", "d")
    messages = take(consumer, 5)
    consumer.acknowledge_cumulative(messages[2])
    consumer.close()
    return texts(w.consumer(topic, batch_index_ack_enabled=True), 2)


def by_index_until_nothing_is_left(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, batch_index_ack_enabled=True)
    w.send_batch(topic, "a", "b", "c")
    for message in reversed(take(consumer, 3)):
        consumer.acknowledge(message)
    left = w.settled(lambda: w.backlog(topic), 0)
    consumer.close()
    return [left, rest(w.consumer(topic, batch_index_ack_enabled=True))]


def by_index_survives_unloading(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, batch_index_ack_enabled=True)
    w.send_batch(topic, "a", "b", "c", "d")
    messages = take(consumer, 4)
    for index in (0, 2):
        consumer.acknowledge(messages[index])
    w.settled(lambda: w.backlog(topic), 2)
    consumer.close()
    w.admin("PUT", f"{topic.replace('://', '/', 1)}/unload")
    return texts(w.consumer(topic, batch_index_ack_enabled=True), 2)


def a_batch_goes_to_one_consumer(w: World) -> Outcome:
    topic = w.topic()
    consumers = [w.consumer(topic, kind="Shared", receiver_queue_size=1, client=w.new_client()) for _ in range(2)]
    w.send_batch(topic, *_LETTERS[:6])
    payloads = [rest(consumer) for consumer in consumers]
    return sorted(payloads)


def a_negative_acknowledgement_brings_back_what_was_not_acknowledged(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", batch_index_ack_enabled=True, negative_ack_redelivery_delay_ms=100)
    w.send_batch(topic, "a", "b", "c")
    messages = take(consumer, 3)
    consumer.acknowledge(messages[0])
    consumer.acknowledge(messages[2])
    consumer.negative_acknowledge(messages[1])
    return received(take(consumer, 1)) + [[text, -1] for text in rest(consumer)]
