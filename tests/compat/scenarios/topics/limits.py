"""Limits of namespaces, as clients meet them."""

from __future__ import annotations

from typing import Any

import pulsar

from tests.compat.scenarios.values import attempt, rest, take, text
from tests.compat.scenarios.world import Outcome, World


def producers_of_a_topic(w: World) -> Outcome:
    topic = f"{w.namespace(maxProducersPerTopic=2)}t"
    return [attempt(w.producer, topic) for _ in range(3)]


def consumers_of_a_topic(w: World) -> Outcome:
    topic = f"{w.namespace(maxConsumersPerTopic=2)}t"
    return [attempt(w.consumer, topic, f"s{number}") for number in range(3)]


def consumers_of_a_subscription(w: World) -> Outcome:
    topic = f"{w.namespace(maxConsumersPerSubscription=2)}t"
    return [attempt(w.consumer, topic, kind="Shared") for _ in range(3)]


def subscriptions_of_a_topic(w: World) -> Outcome:
    topic = f"{w.namespace(maxSubscriptionsPerTopic=2)}t"
    return [attempt(w.consumer, topic, f"s{number}") for number in range(3)]


def topics_of_a_namespace(w: World) -> Outcome:
    prefix = w.namespace(maxTopicsPerNamespace=2)
    client = w.new_client(operation_timeout_seconds=3)
    return [attempt(client.create_producer, f"{prefix}t{number}") for number in range(3)]


def types_of_subscriptions(w: World) -> Outcome:
    topic = f"{w.namespace(subscriptionTypesEnabled=['Exclusive', 'Failover'])}t"
    return {kind: attempt(w.consumer, topic, kind, kind) for kind in ("Exclusive", "Failover", "Shared", "KeyShared")}


def topics_are_not_made(w: World) -> Outcome:
    prefix = w.namespace(autoTopicCreation={"allowAutoTopicCreation": False})
    client = w.new_client(operation_timeout_seconds=3)
    return [attempt(client.create_producer, f"{prefix}t"), attempt(client.subscribe, f"{prefix}t", "s")]


def subscriptions_are_not_made(w: World) -> Outcome:
    prefix = w.namespace(autoSubscriptionCreation={"allowAutoSubscriptionCreation": False})
    topic = f"{prefix}t"
    w.send(topic, "a")
    client = w.new_client(operation_timeout_seconds=3)
    made = w.admin("PUT", f"{topic.replace('://', '/', 1)}/subscription/made").status
    return [attempt(client.subscribe, topic, "s"), made, attempt(client.subscribe, topic, "made"), rest(w.reader(topic))]


def _held(w: World, kind: str, **policies: Any) -> Outcome:
    """How many of ten messages come before one is acknowledged, and how many in all when each is."""
    topic = f"{w.namespace(**policies)}t"
    consumer = w.consumer(topic, kind=kind, receiver_queue_size=1)
    producer = w.producer(topic)
    for number in range(10):
        producer.send(str(number).encode(), partition_key="k")
    messages = []
    for _ in range(10):
        try:
            messages.append(consumer.receive(400))
        except pulsar.Timeout:
            break
    blocked = w.subscription_stats(topic)
    for message in messages:
        consumer.acknowledge(message)
    late = [text(message) for message in take(consumer, 10 - len(messages), acknowledge=True)]
    names = ("blockedSubscriptionOnUnackedMsgs",)
    return [len(messages), [blocked[name] for name in names], blocked["consumers"][0]["blockedConsumerOnUnackedMsgs"], late]


def unacknowledged_of_a_consumer(w: World) -> Outcome:
    return _held(w, "Shared", maxUnackedMessagesPerConsumer=4)


def unacknowledged_of_a_key_shared_consumer(w: World) -> Outcome:
    return _held(w, "KeyShared", maxUnackedMessagesPerConsumer=4)


def unacknowledged_do_not_count_on_exclusive(w: World) -> Outcome:
    return _held(w, "Exclusive", maxUnackedMessagesPerConsumer=4)


def unacknowledged_of_a_subscription(w: World) -> Outcome:
    return _held(w, "Shared", maxUnackedMessagesPerSubscription=4)


def one_that_is_full_does_not_hold_up_the_other(w: World) -> Outcome:
    topic = f"{w.namespace(maxUnackedMessagesPerConsumer=2)}t"
    full = w.consumer(topic, kind="Shared", consumer_name="full", client=w.new_client())
    other = w.consumer(topic, kind="Shared", consumer_name="other", client=w.new_client())
    w.send(topic, *map(str, range(12)))
    got = rest(other, 600)
    return [len(got), len(_take_now(full))]


def _take_now(consumer: Any) -> list[str]:
    payloads = []
    try:
        while True:
            payloads.append(text(consumer.receive(300)))
    except pulsar.Timeout:
        return payloads
