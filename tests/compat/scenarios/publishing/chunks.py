"""Chunked messages: one message to a client, several entries to the broker."""

from __future__ import annotations

from typing import Any

import pulsar

from tests.compat.scenarios.values import PATIENCE, rest, shapes, take, texts
from tests.compat.scenarios.world import Outcome, World, topic_path

_SIZE = 12_000_000
_ENTRIES = 3


def _large(text: str) -> bytes:
    return text.encode() * _SIZE


def _seen(messages: list[pulsar.Message]) -> list[list[Any]]:
    return [[message.data()[:1].decode(), len(message.data()), message.redelivery_count()] for message in messages]


def _chunking(w: World, topic: str) -> pulsar.Producer:
    return w.producer(topic, chunking_enabled=True, send_timeout_millis=30_000)


def _received_on(w: World, kind: str) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind=kind)
    producer = _chunking(w, topic)
    producer.send(_large("a"), partition_key="k")
    producer.send(b"b", partition_key="k")
    return [*_seen(take(consumer, 2, acknowledge=True)), w.settled(lambda: w.backlog(topic), 0)]


def on_exclusive(w: World) -> Outcome:
    return _received_on(w, "Exclusive")


def on_failover(w: World) -> Outcome:
    return _received_on(w, "Failover")


def on_shared(w: World) -> Outcome:
    return _received_on(w, "Shared")


def on_key_shared(w: World) -> Outcome:
    return _received_on(w, "KeyShared")


def their_ids(w: World) -> Outcome:
    producer = _chunking(w, w.topic())
    return shapes([producer.send(_large("a")), producer.send(b"b"), producer.send(_large("c"))])


def they_are_several_entries_of_backlog(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic).close()
    _chunking(w, topic).send(_large("a"))
    return [w.backlog(topic), w.stats(topic)["msgInCounter"]]


def refused_they_come_again_whole(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100)
    _chunking(w, topic).send(_large("a"))
    first = take(consumer, 1)
    consumer.negative_acknowledge(first[0])
    return [_seen(first), _seen(take(consumer, 1))]


def unacknowledged_they_come_again_to_the_next(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    _chunking(w, topic).send(_large("a"))
    first = take(consumer, 1)
    consumer.close()
    return [_seen(first), _seen(take(w.consumer(topic), 1))]


def seek_to_their_beginning(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, start_message_id_inclusive=True)
    producer = _chunking(w, topic)
    producer.send(b"0")
    identifier = producer.send(_large("a"))
    producer.send(b"b")
    take(consumer, 3)
    consumer.seek(identifier)
    return _seen(take(consumer, 2))


def seek_behind_them(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    producer = _chunking(w, topic)
    identifier = producer.send(_large("a"))
    producer.send(b"b")
    take(consumer, 2)
    consumer.seek(identifier)
    return _seen(take(consumer, 1))


def a_reader_from_one(w: World) -> Outcome:
    topic = w.topic()
    producer = _chunking(w, topic)
    identifier = producer.send(_large("a"))
    producer.send(b"b")
    inclusive = w.reader(topic, identifier, start_message_id_inclusive=True)
    return [_seen(take(inclusive, 2)), rest(w.reader(topic, identifier))]


def two_producers_at_a_time(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    producers = [_chunking(w, topic) for _ in range(2)]
    for producer, text in zip(producers, "ab", strict=True):
        producer.send_async(_large(text), lambda *_: None)
    for producer in producers:
        producer.flush()
    return sorted(_seen(take(consumer, 2)))


def compressed_ones(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    producer = w.producer(topic, chunking_enabled=True, compression_type=pulsar.CompressionType.LZ4)
    identifier = producer.send(_large("a"))
    return [shapes([identifier]), _seen(take(consumer, 1))]


def cumulatively_acknowledged(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    producer = _chunking(w, topic)
    producer.send(_large("a"))
    producer.send(b"b")
    messages = take(consumer, 2)
    consumer.acknowledge_cumulative(messages[0])
    consumer.close()
    return rest(w.consumer(topic))


def they_survive_unloading(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic).close()
    _chunking(w, topic).send(_large("a"))
    w.admin("PUT", f"{topic_path(topic)}/unload")
    return _seen(take(w.consumer(topic), 1))


def _two(w: World, topic: str, kind: str, **options: Any) -> dict[str, pulsar.Consumer]:
    return {name: w.consumer(topic, kind=kind, consumer_name=name, client=w.new_client(), **options) for name in ("c0", "c1")}


def _shared_out(consumers: dict[str, pulsar.Consumer]) -> dict[str, list[list[Any]]]:
    """What came whole to each, until nothing comes any more."""
    by_consumer: dict[str, list[list[Any]]] = {name: [] for name in consumers}
    for name, consumer in consumers.items():
        try:
            while True:
                message = consumer.receive(2_000 * PATIENCE.get())
                by_consumer[name] += _seen([message])
                consumer.acknowledge(message)
        except pulsar.Timeout:
            pass
    return by_consumer


def between_two_on_shared(w: World) -> Outcome:
    """Whether each comes whole to one of them."""
    topic = w.topic()
    consumers = _two(w, topic, "Shared")
    producer = _chunking(w, topic)
    for text in "abcd":
        producer.send(_large(text))
    by_consumer = _shared_out(consumers)
    return sorted(row for seen in by_consumer.values() for row in seen)


def between_two_on_key_shared(w: World) -> Outcome:
    """Keys that belong to different consumers."""
    topic = w.topic()
    consumers = _two(w, topic, "KeyShared")
    producer = _chunking(w, topic)
    for text in "abcdef":
        producer.send(_large(text) if text in "ace" else text.encode(), partition_key=f"key-{text}")
    by_consumer = _shared_out(consumers)
    return [
        sorted(row for seen in by_consumer.values() for row in seen),
        {name: [row[0] for row in seen] for name, seen in by_consumer.items()},
    ]


def one_that_is_given_up(w: World) -> Outcome:
    topic = w.topic()
    dead = w.consumer(f"{topic}-s-DLQ", "dead")
    policy = pulsar.ConsumerDeadLetterPolicy(1)
    consumer = w.consumer(topic, kind="Shared", dead_letter_policy=policy, negative_ack_redelivery_delay_ms=100)
    producer = _chunking(w, topic)
    producer.send(b"b")
    refused: list[list[Any]] = []
    try:
        while len(refused) < 10:
            message = consumer.receive(2_000 * PATIENCE.get())
            refused += _seen([message])
            consumer.negative_acknowledge(message)
    except pulsar.Timeout:
        pass
    return [refused, texts(dead, 1)]


def of_one_that_closes_between_them(w: World) -> Outcome:
    """The other consumer gets what the first one had and did not acknowledge."""
    topic = w.topic()
    first = w.consumer(topic, kind="Shared", consumer_name="c0", client=w.new_client())
    producer = _chunking(w, topic)
    producer.send(_large("a"))
    producer.send(_large("b"))
    seen = _seen(take(first, 2))
    second = w.consumer(topic, kind="Shared", consumer_name="c1", client=w.new_client())
    first.close()
    return [seen, sorted(row[:2] for row in _seen(take(second, 2)))]
