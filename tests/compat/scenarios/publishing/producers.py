"""Producers: names, what they send, what they are told."""

from __future__ import annotations

from typing import Any

import pulsar

from tests.compat.scenarios.values import attempt, rest, shapes, take, texts
from tests.compat.scenarios.world import Outcome, World, send_together, topic_path


def names_are_invented(w: World) -> Outcome:
    topic = w.topic()
    names = [w.producer(topic).producer_name() for _ in range(3)]
    return [all(names), len(set(names))]


def a_given_name_is_kept(w: World) -> Outcome:
    return w.plain(w.producer(w.topic(), producer_name=w.name("p")).producer_name())


def a_name_is_taken_while_its_producer_lives(w: World) -> Outcome:
    topic = w.topic()
    first = w.producer(topic, producer_name="p")
    taken = attempt(lambda: w.producer(topic, producer_name="p", client=w.new_client()))
    first.close()
    return [taken, attempt(lambda: w.producer(topic, producer_name="p", client=w.new_client()))]


def a_name_is_free_on_another_topic(w: World) -> Outcome:
    return [attempt(w.producer, w.topic(f"t{number}"), producer_name="p") for number in range(2)]


def messages_carry_the_producers_name(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, "a", producer_name="somebody")
    return [message.producer_name() for message in take(consumer, 1)]


def sequence_ids_count_from_zero(w: World) -> Outcome:
    producer = w.producer(w.topic())
    sequence_ids = [producer.last_sequence_id()]
    for _ in range(3):
        producer.send(b"x")
        sequence_ids.append(producer.last_sequence_id())
    return sequence_ids


def sequence_ids_count_from_where_one_says(w: World) -> Outcome:
    producer = w.producer(w.topic(), initial_sequence_id=41)
    producer.send(b"x")
    return producer.last_sequence_id()


def sequence_ids_of_ones_own(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    sequence_ids: list[Any] = []
    for number in (7, 3, 9):
        producer.send(str(number).encode(), sequence_id=number)
        sequence_ids.append(producer.last_sequence_id())
    return [sequence_ids, texts(consumer, 3)]


def a_name_used_again_does_not_go_on_counting(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a", "b", producer_name="p")
    return w.producer(topic, producer_name="p").last_sequence_id()


def everything_of_a_message_arrives(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.producer(topic).send(
        bytes(range(256)),
        properties={"a": "1", "ü": "ß", "empty": ""},
        partition_key="Schlüssel",
        ordering_key="order",
        event_timestamp=1_700_000_000_123,
    )
    message = take(consumer, 1)[0]
    return [
        message.data() == bytes(range(256)),
        message.properties(),
        message.partition_key(),
        message.ordering_key(),
        message.event_timestamp(),
        message.redelivery_count(),
        w.plain(message.topic_name()),
        message.schema_version(),
    ]


def an_empty_message_is_a_message(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, "", "x", "")
    return texts(consumer, 3)


def a_null_value_is_not_an_empty_one(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    producer.send(None, partition_key="k")
    producer.send(b"", partition_key="k")
    return [[message.has_null_value(), len(message.data()), message.partition_key()] for message in take(consumer, 2)]


def null_values_in_a_batch(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    producer = w.batching(topic, 3)
    for value in (b"x", None, b""):
        producer.send_async(value, lambda *_: None, partition_key="k")
    producer.flush()
    return [[message.has_null_value(), len(message.data())] for message in take(consumer, 3)]


def a_message_too_large_is_refused(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    outcomes = [attempt(lambda: producer.send(bytes(5 * 1024 * 1024 + 1))), attempt(lambda: producer.send(b"small"))]
    return [outcomes, rest(consumer)]


def the_largest_message_arrives(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.producer(topic).send(bytes(5 * 1024 * 1024 - 200))
    return [len(message.data()) for message in take(consumer, 1)]


def large_properties_count_too(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.producer(topic).send(b"x", properties={f"p{number}": "v" * 1000 for number in range(200)})
    return [len(message.properties()) for message in take(consumer, 1)]


def a_closed_producer_sends_nothing(w: World) -> Outcome:
    producer = w.producer(w.topic())
    producer.close()
    return [attempt(lambda: producer.send(b"x")), attempt(producer.close), producer.is_connected()]


def flush_without_messages(w: World) -> Outcome:
    producer = w.producer(w.topic())
    return [attempt(producer.flush), producer.is_connected()]


def receipts_come_in_order(w: World) -> Outcome:
    producer = w.producer(w.topic())
    results: list[Any] = []
    for number in range(50):
        producer.send_async(b"x", lambda result, _, n=number: results.append([n, result == pulsar.Result.Ok]))
    producer.flush()
    return results == [[number, True] for number in range(50)]


def topics_that_cannot_be(w: World) -> Outcome:
    client = w.new_client(operation_timeout_seconds=3)
    names = ("persistent://public/default", "persistent://public//x", "file://public/default/x", "persistent://public/default/")
    return [attempt(client.create_producer, name) for name in names]


def a_namespace_that_is_not_there(w: World) -> Outcome:
    client = w.new_client(operation_timeout_seconds=3)
    return attempt(lambda: client.create_producer(f"persistent://public/{w.name('nowhere')}/t"))


def a_tenant_that_is_not_there(w: World) -> Outcome:
    client = w.new_client(operation_timeout_seconds=3)
    return attempt(lambda: client.create_producer(f"persistent://{w.name('nobody')}/default/t"))


def short_names_are_of_public_default(w: World) -> Outcome:
    short = w.name("short")
    consumer = w.consumer(short)
    w.send(f"persistent://public/default/{short}", "a")
    return [w.plain(consumer.topic()), texts(consumer, 1)]


def a_terminated_topic_takes_no_producer(w: World) -> Outcome:
    topic = w.topic()
    w.send(topic, "a")
    w.admin("POST", f"{topic_path(topic)}/terminate")
    return attempt(lambda: w.producer(topic))


def a_terminated_topic_takes_no_message(w: World) -> Outcome:
    topic = w.topic()
    producer = w.producer(topic, send_timeout_millis=3000)
    producer.send(b"a")
    w.admin("POST", f"{topic_path(topic)}/terminate")
    return attempt(lambda: producer.send(b"b"))


def round_robin_over_partitions(w: World) -> Outcome:
    producer = w.producer(w.partitioned(3))
    ids = shapes(producer.send(b"x") for _ in range(9))
    return sorted([partition, entry] for _, entry, partition, _ in ids)


def one_partition_for_all(w: World) -> Outcome:
    mode = pulsar.PartitionsRoutingMode.UseSinglePartition
    producer = w.producer(w.partitioned(3), message_routing_mode=mode)
    return len({producer.send(b"x").partition() for _ in range(6)})


def one_key_one_partition(w: World) -> Outcome:
    producer = w.producer(w.partitioned(4))
    by_key = {key: {producer.send(b"x", partition_key=key).partition() for _ in range(4)} for key in "abcdef"}
    return sorted({len(partitions) for partitions in by_key.values()})


def a_router_of_ones_own(w: World) -> Outcome:
    producer = w.producer(w.partitioned(3), message_router=lambda message, count: int(message.data()) % count)
    return [producer.send(str(number).encode()).partition() for number in range(6)]


def partitions_are_told(w: World) -> Outcome:
    topic, plain = w.partitioned(3), w.topic("plain")
    w.send(plain, "a")
    return [[w.plain(name) for name in sorted(w.client.get_topic_partitions(name))] for name in (topic, plain)]


def a_partition_that_is_not_there(w: World) -> Outcome:
    topic = w.partitioned(2)
    client = w.new_client(operation_timeout_seconds=3)
    return [attempt(client.create_producer, f"{topic}-partition-{number}") for number in (1, 2)]


def producers_that_start_late(w: World) -> Outcome:
    topic = w.partitioned(3)
    consumer = w.consumer(topic)
    producer = w.producer(topic, lazy_start_partitioned_producers=True)
    send_together(producer, "a", "b", "c")
    return sorted(texts(consumer, 3))
