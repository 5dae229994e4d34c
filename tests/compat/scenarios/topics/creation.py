"""How topics come to be: by use, plain and partitioned, and under names that look like partitions."""

from __future__ import annotations

from typing import Any

from tests.compat.scenarios.values import attempt, texts
from tests.compat.scenarios.world import Outcome, World, topic_path

PARTITIONED = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}


def _listed(w: World, prefix: str) -> list[Any]:
    """The topics of a namespace without partitions, and its partitioned topics."""
    path = f"persistent/{prefix.split('://')[1].rstrip('/')}"
    bodies = [w.admin("GET", f"{path}{what}").body for what in ("", "/partitioned")]
    return [sorted(name.rpartition("/")[2] for name in body) for body in bodies]


def _partitions(w: World, topic: str) -> list[Any]:
    answer = w.admin("GET", f"{topic_path(topic)}/partitions")
    return [answer.status, answer.body.get("partitions")]


def called_like_a_partition(w: World) -> Outcome:
    prefix = w.namespace()
    topic = f"{prefix}t-partition-3"
    producer, consumer = w.producer(topic), w.consumer(topic)
    sent = producer.send(b"a")
    return [
        sent.partition(),
        texts(consumer, 1),
        _listed(w, prefix),
        _partitions(w, topic),
        _partitions(w, f"{prefix}t"),
        w.admin("PUT", f"{topic_path(prefix)}t/partitions", 2).status,
        w.admin("PUT", f"{topic_path(prefix)}t-partition-0").status,
        w.admin("PUT", f"{topic_path(prefix)}t").status,
        _listed(w, prefix),
    ]


def partitions_beside_a_plain_topic(w: World) -> Outcome:
    prefix = w.namespace()
    w.send(f"{prefix}t", "x")
    w.send(f"{prefix}t-partition-0", "y")
    return [_listed(w, prefix), w.admin("DELETE", f"{topic_path(prefix)}t-partition-0").status, _listed(w, prefix)]


def partitioned_by_producing(w: World) -> Outcome:
    prefix = w.namespace(autoTopicCreation=PARTITIONED)
    producer = w.producer(f"{prefix}t")
    partitions = {producer.send(b"x").partition() for _ in range(9)}
    return [sorted(partitions), _listed(w, prefix), _partitions(w, f"{prefix}t")]


def partitioned_by_consuming(w: World) -> Outcome:
    prefix = w.namespace(autoTopicCreation=PARTITIONED)
    consumer = w.consumer(f"{prefix}t")
    w.send(f"{prefix}t", "a", "b", "c")
    return [sorted(texts(consumer, 3)), _listed(w, prefix)]


def partitioned_by_reading(w: World) -> Outcome:
    prefix = w.namespace(autoTopicCreation=PARTITIONED)
    return [attempt(w.reader, f"{prefix}t"), _listed(w, prefix)]


def partitioned_by_a_subscription(w: World) -> Outcome:
    prefix = w.namespace(autoTopicCreation=PARTITIONED)
    return [w.admin("PUT", f"{topic_path(prefix)}t/subscription/s").status, _listed(w, prefix)]


def plain_by_a_subscription(w: World) -> Outcome:
    prefix = w.namespace()
    return [w.admin("PUT", f"{topic_path(prefix)}t/subscription/s").status, _listed(w, prefix)]


def partitions_are_not_asked_for(w: World) -> Outcome:
    prefix = w.namespace(autoTopicCreation=PARTITIONED)
    asked = _partitions(w, f"{prefix}t")
    checked = w.admin("GET", f"{topic_path(prefix)}t/partitions?checkAllowAutoCreation=true")
    return [asked, [checked.status, checked.body["partitions"]], _listed(w, prefix)[1]]


def a_partition_where_topics_are_partitioned(w: World) -> Outcome:
    prefix = w.namespace(autoTopicCreation=PARTITIONED)
    return [attempt(w.producer, f"{prefix}t-partition-1"), _listed(w, prefix)]


def a_plain_topic_stays_plain(w: World) -> Outcome:
    prefix = w.namespace(autoTopicCreation=PARTITIONED)
    return [w.admin("PUT", f"{topic_path(prefix)}t").status, attempt(w.producer, f"{prefix}t"), _listed(w, prefix)]


def partitioned_beyond_the_limit(w: World) -> Outcome:
    prefix = w.namespace(maxTopicsPerNamespace=4, autoTopicCreation=PARTITIONED)
    w.producer(f"{prefix}t")
    ended = attempt(w.new_client(operation_timeout_seconds=3).create_producer, f"{prefix}u")
    return [ended == "ok", _listed(w, prefix)]


def how_the_policy_reads(w: World) -> Outcome:
    path = f"namespaces/{w.namespace().split('://')[1].rstrip('/')}/autoTopicCreation"
    answers = []
    for value in (
        PARTITIONED,
        {**PARTITIONED, "defaultNumPartitions": 0},
        {**PARTITIONED, "topicType": "bad"},
        {**PARTITIONED, "topicType": "non-partitioned"},
        {"allowAutoTopicCreation": True, "topicType": "non-partitioned"},
        {"allowAutoTopicCreation": False},
        {"allowAutoTopicCreation": True},
    ):
        answers.append([w.admin("POST", path, value).status, w.admin("GET", path).body])
    return [answers, w.admin("DELETE", path).status, w.admin("GET", path).body]
