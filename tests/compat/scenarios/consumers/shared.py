"""Shared subscriptions: each message to one consumer, and to another when that one leaves."""

from __future__ import annotations

from typing import Any

import pulsar

from tests.compat.scenarios.values import attempt, in_turns, received, rest, take, take_without_queue
from tests.compat.scenarios.world import Outcome, World


def _consumers(w: World, topic: str, count: int, **options: Any) -> dict[str, pulsar.Consumer]:
    return {
        f"c{n}": w.consumer(topic, kind="Shared", consumer_name=f"c{n}", client=w.new_client(), **options) for n in range(count)
    }


def each_message_to_one(w: World) -> Outcome:
    topic = w.topic()
    consumers = _consumers(w, topic, 3)
    w.send(topic, *map(str, range(30)))
    by_consumer = in_turns(consumers, 30)
    return [sorted(int(text) for texts_ in by_consumer.values() for text in texts_) == list(range(30)), all(by_consumer.values())]


def order_with_one_consumer(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    w.send(topic, *"abcdef")
    return rest(consumer)


def a_full_consumer_gets_no_more(w: World) -> Outcome:
    topic = w.topic()
    consumers = _consumers(w, topic, 2, receiver_queue_size=2)
    w.send(topic, *map(str, range(12)))
    other = rest(consumers["c1"])
    return [len(other), len(rest(consumers["c0"]))]


def what_a_consumer_holds_goes_to_another_when_it_leaves(w: World) -> Outcome:
    topic = w.topic()
    first = w.consumer(topic, kind="Shared", client=w.new_client())
    w.send(topic, "a", "b", "c")
    messages = take(first, 2)
    second = w.consumer(topic, kind="Shared", client=w.new_client())
    first.close()
    return [received(messages), sorted(received(take(second, 3, acknowledge=True))), rest(second)]


def leaving_does_not_count_as_a_redelivery(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic, kind="Shared").close()
    w.send(topic, "a")
    redelivered = []
    for _ in range(3):
        consumer = w.consumer(topic, kind="Shared")
        redelivered += received(take(consumer, 1))
        consumer.close()
    return redelivered


def what_was_acknowledged_in_between_does_not_come_again(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    w.send(topic, *"abcdef")
    for index, message in enumerate(take(consumer, 6)):
        if index % 2:
            consumer.acknowledge(message)
    consumer.close()
    return rest(w.consumer(topic, kind="Shared"))


def one_may_acknowledge_what_another_received(w: World) -> Outcome:
    topic = w.topic()
    first = w.consumer(topic, kind="Shared", receiver_queue_size=1, client=w.new_client())
    w.send(topic, "a")
    message = take(first, 1)[0]
    second = w.consumer(topic, kind="Shared", client=w.new_client())
    second.acknowledge(message.message_id())
    left = w.settled(lambda: w.backlog(topic), 0)
    first.close()
    return [left, rest(second)]


def cumulative_acknowledgements_are_refused(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    w.send(topic, "a", "b")
    messages = take(consumer, 2)
    return [attempt(lambda: consumer.acknowledge_cumulative(messages[1])), w.backlog(topic)]


def no_receiver_queue(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", receiver_queue_size=0)
    w.send(topic, "a", "b")
    return take_without_queue(consumer, 2)


def a_newcomer_takes_part(w: World) -> Outcome:
    topic = w.topic()
    first = w.consumer(topic, kind="Shared", receiver_queue_size=1, client=w.new_client())
    w.send(topic, *map(str, range(10)))
    second = w.consumer(topic, kind="Shared", client=w.new_client())
    by_consumer = in_turns({"first": first, "second": second}, 10)
    return [sum(map(len, by_consumer.values())), bool(by_consumer["second"])]


def all_partitions_of_a_topic(w: World) -> Outcome:
    topic = w.partitioned(2)
    consumers = _consumers(w, topic, 2)
    producer = w.producer(topic)
    for number in range(12):
        producer.send(str(number).encode())
    by_consumer = in_turns(consumers, 12)
    return [sorted(int(text) for texts_ in by_consumer.values() for text in texts_) == list(range(12)), all(by_consumer.values())]


def paused_listeners_hold_what_they_got(w: World) -> Outcome:
    topic = w.topic()
    payloads: list[str] = []

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        payloads.append(message.data().decode())
        consumer.acknowledge(message)

    consumer = w.consumer(topic, kind="Shared", message_listener=listen)
    consumer.pause_message_listener()
    w.send(topic, "a", "b")
    early = w.settled(lambda: len(payloads), 2, 0.3)
    consumer.resume_message_listener()
    return [early <= 1, w.settled(lambda: sorted(payloads), ["a", "b"])]
