"""Non-persistent topics as administrators see them, and the policies that apply to them."""

from __future__ import annotations

import re
from typing import Any

import pulsar

from tests.compat.scenarios.values import attempt, rest, texts
from tests.compat.scenarios.world import Outcome, World, topic_path


def a_pattern_of_non_persistent_topics(w: World) -> Outcome:
    producers = [w.producer(w.unstored_topic(name)) for name in ("match-a", "match-b", "other")]
    pattern: Any = re.compile(f"non-persistent://public/default/{w.name('match-.*')}")
    stored = w.producer(w.topic("match-c"))
    consumer = w.consumer(pattern, regex_subscription_mode=pulsar.RegexSubscriptionMode.NonPersistentOnly)
    for producer, text in zip((*producers, stored), ("a", "b", "other", "stored"), strict=True):
        producer.send(text.encode())
    return sorted(texts(consumer, 2) + rest(consumer))


def a_pattern_of_all_topics(w: World) -> Outcome:
    pattern: Any = re.compile(f"persistent://public/default/{w.name('match-.*')}")
    producers = [w.producer(w.unstored_topic("match-a")), w.producer(w.topic("match-b"))]
    consumer = w.consumer(pattern, regex_subscription_mode=pulsar.RegexSubscriptionMode.AllTopics)
    for producer, text in zip(producers, "ab", strict=True):
        producer.send(text.encode())
    return sorted(texts(consumer, 2))


def a_persistent_topic_of_the_same_name_is_another(w: World) -> Outcome:
    stored, unstored = w.topic(), w.unstored_topic()
    persistent, other = w.consumer(stored), w.consumer(unstored)
    w.send(stored, "stored")
    w.send(unstored, "unstored")
    return [rest(persistent), rest(other)]


def making_one(w: World) -> Outcome:
    path = topic_path(w.unstored_topic())
    namespace = "non-persistent/public/default"
    made = [w.admin("PUT", path).status for _ in range(2)]
    listed = f"non-persistent://{path.partition('/')[2]}" in w.admin("GET", namespace).body
    deleted = [w.admin("DELETE", path).status for _ in range(2)]
    return [made, listed, deleted, f"non-persistent://{path.partition('/')[2]}" in w.admin("GET", namespace).body]


def lists(w: World) -> Outcome:
    prefix = w.namespace()
    unstored = prefix.replace("persistent://", "non-persistent://")
    w.producer(f"{prefix}a")
    w.producer(f"{unstored}b")
    namespace = prefix.split("://")[1].rstrip("/")
    asked = [f"{kind}/{namespace}" for kind in ("persistent", "non-persistent")]
    asked += [f"namespaces/{namespace}/topics?mode={mode}" for mode in ("PERSISTENT", "NON_PERSISTENT", "ALL")]
    asked += [f"{kind}/{namespace}/partitioned" for kind in ("persistent", "non-persistent")]
    return [sorted(w.plain(name) for name in w.admin("GET", path).body) for path in asked]


def partitions_are_listed_while_they_are_used(w: World) -> Outcome:
    prefix = w.namespace().replace("persistent://", "non-persistent://")
    topic, namespace = f"{prefix}p", prefix.split("://")[1].rstrip("/")
    path = topic_path(topic)
    answers = [w.admin("PUT", f"{path}/partitions", 2).status, w.admin("GET", f"{path}/partitions").body["partitions"]]
    answers.append(w.admin("GET", f"non-persistent/{namespace}").body)
    consumer = w.consumer(topic)
    answers.append(sorted(w.plain(name) for name in w.admin("GET", f"non-persistent/{namespace}").body))
    answers.append([w.plain(name) for name in w.admin("GET", f"non-persistent/{namespace}/partitioned").body])
    answers.append(w.admin("POST", f"{path}/partitions", 3).status)
    consumer.close()
    answers.append(w.admin("DELETE", f"{path}/partitions").status)
    return [*answers, w.admin("GET", f"non-persistent/{namespace}").body]


def stats(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic, receiver_queue_size=2, consumer_name="me")
    producer = w.producer(topic, producer_name="p")
    for number in range(5):
        producer.send(str(number).encode())
    topic_stats = w.stats(topic)
    subscription, publisher = topic_stats["subscriptions"]["s"], topic_stats["publishers"][0]
    del consumer
    return [
        [topic_stats[name] for name in ("msgInCounter", "msgOutCounter", "storageSize", "backlogSize")],
        "msgDropRate" in topic_stats,
        [subscription[name] for name in ("type", "msgBacklog", "unackedMessages", "isDurable", "durable", "msgOutCounter")],
        "msgDropRate" in subscription,
        [subscription["consumers"][0][name] for name in ("consumerName", "availablePermits", "unackedMessages")],
        [publisher["producerName"], publisher["accessMode"], "msgDropRate" in publisher],
    ]


def internal_stats(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    for _ in range(3):
        producer.send(b"x")
    texts(consumer, 3)
    internal = w.admin("GET", f"{topic_path(topic)}/internalStats").body
    names = ("entriesAddedCounter", "numberOfEntries", "totalSize", "currentLedgerEntries", "currentLedgerSize")
    return [[internal[name] for name in names], sorted(internal["cursors"])]


def what_needs_storage_is_refused(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer, path = w.consumer(topic), topic_path(topic)
    asked = [
        ("PUT", "subscription/new", None),
        ("POST", "subscription/s/expireMessages/10", None),
        ("GET", "subscription/s/position/1", None),
        ("GET", "lastMessageId", None),
        ("POST", "terminate", None),
        ("DELETE", "truncate", None),
        ("POST", "subscription/s/resetcursor/1", None),
        ("GET", "partitions", None),
        ("GET", "permissions", None),
        ("GET", "partitioned-stats", None),
    ]
    statuses = [w.admin(method, f"{path}/{what}", body).status for method, what, body in asked]
    return [statuses, w.admin("DELETE", path).status, attempt(consumer.close)]


def deleting_a_subscription_that_has_a_consumer(w: World) -> Outcome:
    topic = w.unstored_topic()
    w.producer(topic)
    w.consumer(topic)
    return [w.admin("DELETE", f"{topic_path(topic)}/subscription/{name}").status for name in ("absent", "s")]


def unloading_is_not_noticed(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer, producer = w.consumer(topic), w.producer(topic)
    producer.send(b"a")
    first = texts(consumer, 1)
    status = w.admin("PUT", f"{topic_path(topic)}/unload").status
    w.settled(lambda: _in_use(w, topic), True)
    producer.send(b"b")
    return [first, status, texts(consumer, 1)]


def _in_use(w: World, topic: str) -> bool:
    answer = w.admin("GET", f"{topic_path(topic)}/stats")
    return answer.status == 200 and len(answer.body["subscriptions"]) == len(answer.body["publishers"]) == 1


def a_namespace_with_one_is_not_deleted(w: World) -> Outcome:
    prefix = w.namespace().replace("persistent://", "non-persistent://")
    producer = w.producer(f"{prefix}t")
    status = w.admin("DELETE", f"namespaces/{prefix.split('://')[1].rstrip('/')}").status
    producer.close()
    return status


def limits_apply(w: World) -> Outcome:
    prefix = w.namespace(maxProducersPerTopic=1, maxConsumersPerTopic=1).replace("persistent://", "non-persistent://")
    topic = f"{prefix}t"
    w.producer(topic)
    w.consumer(topic, kind="Shared")
    client = w.new_client(operation_timeout_seconds=3)
    return [attempt(w.producer, topic, client=client), attempt(w.consumer, topic, kind="Shared", client=client)]


def without_auto_creation(w: World) -> Outcome:
    prefix = w.namespace(autoTopicCreation={"allowAutoTopicCreation": False}).replace("persistent://", "non-persistent://")
    return attempt(w.producer, f"{prefix}t", client=w.new_client(operation_timeout_seconds=3))


def without_auto_subscription_creation(w: World) -> Outcome:
    prefix = w.namespace(autoSubscriptionCreation={"allowAutoSubscriptionCreation": False})
    return attempt(w.consumer, f"{prefix.replace('persistent://', 'non-persistent://')}t")


def subscriptions_per_topic(w: World) -> Outcome:
    prefix = w.namespace(maxSubscriptionsPerTopic=1).replace("persistent://", "non-persistent://")
    w.consumer(f"{prefix}t", "a")
    return attempt(w.consumer, f"{prefix}t", "b", client=w.new_client(operation_timeout_seconds=3))


def topics_per_namespace(w: World) -> Outcome:
    prefix = w.namespace(maxTopicsPerNamespace=1)
    w.producer(f"{prefix}t")
    topic = f"{prefix}t".replace("persistent://", "non-persistent://")
    return attempt(w.producer, topic, client=w.new_client(operation_timeout_seconds=3))
