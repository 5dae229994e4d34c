"""Redelivery: which messages come again, when, and with which redelivery count."""

from __future__ import annotations

from itertools import count

import pulsar

from tests.compat.scenarios.values import received, rest, take
from tests.compat.scenarios.world import Outcome, World


def _rounds(w: World, kind: str, rounds: int = 3) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind=kind, negative_ack_redelivery_delay_ms=100)
    w.send(topic, "a")
    counts = []
    for _ in range(rounds):
        message = take(consumer, 1)[0]
        counts.append(message.redelivery_count())
        consumer.negative_acknowledge(message)
    return counts


def counts_on_shared(w: World) -> Outcome:
    return _rounds(w, "Shared")


def counts_on_key_shared(w: World) -> Outcome:
    return _rounds(w, "KeyShared")


def counts_on_exclusive(w: World) -> Outcome:
    return _rounds(w, "Exclusive")


def counts_on_failover(w: World) -> Outcome:
    return _rounds(w, "Failover")


def only_what_was_refused_comes_again(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100)
    w.send(topic, *"abcd")
    messages = take(consumer, 4)
    consumer.negative_acknowledge(messages[1])
    consumer.negative_acknowledge(messages[3])
    return [sorted(received(take(consumer, 2, acknowledge=True))), rest(consumer), w.settled(lambda: w.backlog(topic), 2)]


def refusing_on_exclusive_brings_all_back(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, negative_ack_redelivery_delay_ms=100)
    w.send(topic, *"abcd")
    messages = take(consumer, 4)
    consumer.acknowledge(messages[0])
    consumer.negative_acknowledge(messages[2])
    return rest(consumer, 600)


def refused_and_then_acknowledged(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=300)
    w.send(topic, "a")
    message = take(consumer, 1)[0]
    consumer.negative_acknowledge(message)
    consumer.acknowledge(message)
    return rest(consumer, 700)


def refused_by_id(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100)
    ids = w.send(topic, "a", "b")
    take(consumer, 2)
    consumer.negative_acknowledge(ids[0])
    return received(take(consumer, 1))


def all_at_once_on_shared(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    w.send(topic, *"abc")
    messages = take(consumer, 3)
    consumer.acknowledge(messages[1])
    w.settled(lambda: w.backlog(topic), 2)
    consumer.redeliver_unacknowledged_messages()
    return [received(take(consumer, 2, acknowledge=True)), rest(consumer)]


def all_at_once_on_exclusive(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    w.send(topic, *"abc")
    messages = take(consumer, 3)
    consumer.acknowledge(messages[1])
    w.settled(lambda: w.backlog(topic), 2)
    consumer.redeliver_unacknowledged_messages()
    return [received(take(consumer, 2, acknowledge=True)), rest(consumer)]


def counts_go_on_with_another_consumer(w: World) -> Outcome:
    topic = w.topic()
    first = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100, client=w.new_client())
    w.send(topic, "a")
    first.negative_acknowledge(take(first, 1)[0])
    again = take(first, 1)
    second = w.consumer(topic, kind="Shared", client=w.new_client())
    first.close()
    return [received(again), received(take(second, 1))]


def counts_are_forgotten_by_unloading(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100)
    w.send(topic, "a")
    consumer.negative_acknowledge(take(consumer, 1)[0])
    again = received(take(consumer, 1))
    w.admin("PUT", f"{topic.replace('://', '/', 1)}/unload")
    return [again, received(take(consumer, 1))]


def what_comes_again_comes_before_what_is_new(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", receiver_queue_size=1)
    w.send(topic, *"abcde")
    take(consumer, 1)
    consumer.close()
    return rest(w.consumer(topic, kind="Shared"))


def a_batch_comes_again_whole(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100)
    w.send_batch(topic, *"abc")
    messages = take(consumer, 3)
    for message in messages:
        consumer.negative_acknowledge(message)
    return received(take(consumer, 3))


def one_of_a_batch_is_refused(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100)
    w.send_batch(topic, *"abc")
    messages = take(consumer, 3)
    consumer.acknowledge(messages[0])
    consumer.acknowledge(messages[2])
    consumer.negative_acknowledge(messages[1])
    return sorted(set(rest(consumer, 600)) & {"b"})


def one_refuses_another_gets_it(w: World) -> Outcome:
    topic = w.topic()
    first = w.consumer(topic, kind="Shared", receiver_queue_size=1, negative_ack_redelivery_delay_ms=100, client=w.new_client())
    w.send(topic, "a")
    message = take(first, 1)[0]
    second = w.consumer(topic, kind="Shared", client=w.new_client())
    first.negative_acknowledge(message)
    seen = []
    for _ in count():
        for name, consumer in (("one", first), ("two", second)):
            try:
                again = consumer.receive(100)
            except pulsar.Timeout:
                continue
            consumer.acknowledge(again)
            seen.append([name in ("one", "two"), again.redelivery_count()])
        if seen:
            return seen
    return seen


def partitions_count_for_themselves(w: World) -> Outcome:
    topic = w.partitioned(2)
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100)
    producer = w.producer(topic, message_router=lambda message, _: int(message.data()))
    for number in range(2):
        producer.send(str(number).encode())
    for message in take(consumer, 2):
        if message.data() == b"0":
            consumer.negative_acknowledge(message)
    return received(take(consumer, 1))
