"""Dead letters: what a client gives up lands in a topic of its own, with where it came from."""

from __future__ import annotations

import re
from typing import Any

import pulsar

from tests.compat.scenarios.values import PATIENCE, rest, take, text, texts
from tests.compat.scenarios.world import Outcome, World, topic_path


def _giving_up(w: World, topic: Any, after: int, kind: str = "Shared", **options: Any) -> pulsar.Consumer:
    policy = pulsar.ConsumerDeadLetterPolicy(after, **options)
    return w.consumer(topic, kind=kind, dead_letter_policy=policy, negative_ack_redelivery_delay_ms=100)


def _refuse_all(consumer: pulsar.Consumer) -> list[list[Any]]:
    """Refuses until nothing comes any more; what came, with counts."""
    refused: list[list[Any]] = []
    try:
        while len(refused) < 40:
            message = consumer.receive(1500 * PATIENCE.get())
            refused.append([text(message), message.redelivery_count()])
            consumer.negative_acknowledge(message)
    except pulsar.Timeout:
        pass
    return refused


def after_two_redeliveries(w: World) -> Outcome:
    topic = w.topic()
    dead = w.consumer(f"{topic}-s-DLQ", "dead")
    consumer = _giving_up(w, topic, 2)
    w.send(topic, "a")
    return [_refuse_all(consumer), texts(dead, 1), w.settled(lambda: w.backlog(topic), 0)]


def on_key_shared(w: World) -> Outcome:
    topic = w.topic()
    dead = w.consumer(f"{topic}-s-DLQ", "dead")
    consumer = _giving_up(w, topic, 1, "KeyShared")
    w.producer(topic).send(b"a", partition_key="k")
    refused = _refuse_all(consumer)
    message = take(dead, 1)[0]
    return [refused, text(message), message.partition_key()]


def everything_of_the_message_is_kept(w: World) -> Outcome:
    topic = w.topic()
    dead = w.consumer(f"{topic}-s-DLQ", "dead")
    consumer = _giving_up(w, topic, 1)
    identifier = w.producer(topic, producer_name="origin").send(
        b"a", properties={"mine": "1"}, partition_key="k", ordering_key="o", event_timestamp=12345
    )
    _refuse_all(consumer)
    message = take(dead, 1)[0]
    properties = {name: w.plain(value) for name, value in message.properties().items()}
    origin = properties.pop("ORIGIN_MESSAGE_ID", "")
    return [
        [text(message), message.partition_key(), message.ordering_key(), message.event_timestamp()],
        properties,
        origin == re.sub(r"\s", "", str(identifier)),
    ]


def in_a_topic_of_ones_choice(w: World) -> Outcome:
    topic = w.topic()
    dead = w.consumer(w.topic("graves"), "dead")
    consumer = _giving_up(w, topic, 1, dead_letter_topic=w.topic("graves"))
    w.send(topic, "a")
    _refuse_all(consumer)
    return texts(dead, 1)


def a_subscription_made_for_them(w: World) -> Outcome:
    topic = w.topic()
    consumer = _giving_up(w, topic, 1, initial_subscription_name="care")
    w.send(topic, "a")
    _refuse_all(consumer)
    listed = w.settled(lambda: w.admin("GET", f"{topic_path(topic)}-s-DLQ/subscriptions").body, ["care"])
    return [listed, rest(w.consumer(f"{topic}-s-DLQ", "care"))]


def what_is_acknowledged_in_time_does_not_die(w: World) -> Outcome:
    topic = w.topic()
    dead = w.consumer(f"{topic}-s-DLQ", "dead")
    consumer = _giving_up(w, topic, 2)
    w.send(topic, "a", "b")
    for message in take(consumer, 2):
        if text(message) == "a":
            consumer.acknowledge(message)
        else:
            consumer.negative_acknowledge(message)
    consumer.acknowledge(take(consumer, 1)[0])
    return [rest(consumer), rest(dead)]


def messages_of_batches_die_alone(w: World) -> Outcome:
    topic = w.topic()
    dead = w.consumer(f"{topic}-s-DLQ", "dead")
    policy = pulsar.ConsumerDeadLetterPolicy(1)
    consumer = w.consumer(
        topic, kind="Shared", dead_letter_policy=policy, negative_ack_redelivery_delay_ms=100, batch_index_ack_enabled=True
    )
    w.send_batch(topic, *"abc")
    for message in take(consumer, 3):
        if text(message) == "b":
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    return [_refuse_all(consumer), rest(dead, 500)]


def of_partitions(w: World) -> Outcome:
    topic = w.partitioned(2)
    consumer = _giving_up(w, topic, 1, initial_subscription_name="care")
    w.producer(topic, message_router=lambda message, count: 1).send(b"a")
    _refuse_all(consumer)
    topics = w.admin("GET", "persistent/public/default").body
    return sorted(w.plain(name) for name in topics if w.name("") in name and "DLQ" in name)


def by_redelivering_everything(w: World) -> Outcome:
    topic = w.topic()
    dead = w.consumer(f"{topic}-s-DLQ", "dead")
    consumer = _giving_up(w, topic, 1)
    w.send(topic, "a")
    for _ in range(2):
        try:
            consumer.receive(1500)
        except pulsar.Timeout:
            break
        consumer.redeliver_unacknowledged_messages()
    rest(consumer, 500)
    return texts(dead, 1)


def nobody_dies_on_exclusive(w: World) -> Outcome:
    topic = w.topic()
    dead = w.consumer(f"{topic}-s-DLQ", "dead")
    consumer = _giving_up(w, topic, 1, "Exclusive")
    w.send(topic, "a")
    for _ in range(3):
        for message in take(consumer, 1):
            consumer.negative_acknowledge(message)
    return rest(dead)
