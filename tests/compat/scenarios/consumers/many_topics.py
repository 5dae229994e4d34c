"""Consumers of several topics: named, matched by a pattern, and made later."""

from __future__ import annotations

import re
from typing import Any

import pulsar

from tests.compat.scenarios.values import attempt, rest, take, texts
from tests.compat.scenarios.world import Outcome, World, topic_path


def _pattern(w: World, suffix: str = ".*") -> Any:
    return re.compile(f"persistent://public/default/{w.name(suffix)}")


def several_by_name(w: World) -> Outcome:
    topics = [w.topic(f"t{number}") for number in range(3)]
    consumer = w.consumer(topics)
    for number, topic in enumerate(topics):
        w.send(topic, str(number))
    messages = take(consumer, 3, acknowledge=True)
    return sorted([message.data().decode(), w.plain(message.topic_name())] for message in messages)


def several_in_order_of_each(w: World) -> Outcome:
    topics = [w.topic(f"t{number}") for number in range(2)]
    consumer = w.consumer(topics)
    for topic, letters in zip(topics, ("abc", "xyz"), strict=True):
        w.send(topic, *letters)
    payloads = texts(consumer, 6)
    return [[payload for payload in payloads if payload in letters] for letters in ("abc", "xyz")]


def one_that_is_taken(w: World) -> Outcome:
    topics = [w.topic(f"t{number}") for number in range(2)]
    w.consumer(topics[1])
    return attempt(w.consumer, topics, client=w.new_client(operation_timeout_seconds=4))


def partitioned_and_not(w: World) -> Outcome:
    plain, parts = w.topic("plain"), w.partitioned(2)
    consumer = w.consumer([plain, parts])
    w.send(plain, "a")
    w.send(parts, "b", "c")
    return sorted(texts(consumer, 3))


def a_pattern(w: World) -> Outcome:
    for name in ("match-a", "match-b", "other"):
        w.send(w.topic(name), "early")
    consumer = w.consumer(_pattern(w, "match-.*"))
    for name in ("match-a", "match-b", "other"):
        w.send(w.topic(name), name)
    return sorted(texts(consumer, 2) + rest(consumer))


def a_pattern_from_the_start(w: World) -> Outcome:
    for name in ("match-a", "match-b"):
        w.send(w.topic(name), name)
    consumer = w.consumer(_pattern(w, "match-.*"), initial_position=pulsar.InitialPosition.Earliest)
    return sorted(texts(consumer, 2))


def _later(w: World, position: pulsar.InitialPosition) -> Outcome:
    consumer = w.consumer(_pattern(w, "later-.*"), pattern_auto_discovery_period=1, initial_position=position)
    producer = w.producer(w.topic("later-a"))
    producer.send(b"before it was found")
    payloads = rest(consumer, 2500)
    producer.send(b"afterwards")
    return payloads + texts(consumer, 1)


def a_topic_that_comes_later(w: World) -> Outcome:
    return _later(w, pulsar.InitialPosition.Latest)


def a_topic_that_comes_later_from_its_start(w: World) -> Outcome:
    return _later(w, pulsar.InitialPosition.Earliest)


def a_partitioned_topic_that_comes_later(w: World) -> Outcome:
    earliest = pulsar.InitialPosition.Earliest
    consumer = w.consumer(_pattern(w, "later-.*"), pattern_auto_discovery_period=1, initial_position=earliest)
    topic = w.partitioned(2, "later-parts")
    producer = w.producer(topic, message_router=lambda message, count: int(message.data()))
    for number in range(2):
        producer.send(str(number).encode())
    return sorted(texts(consumer, 2))


def a_topic_that_goes(w: World) -> Outcome:
    for name in ("match-a", "match-b"):
        w.send(w.topic(name), "x")
    consumer = w.consumer(_pattern(w, "match-.*"), pattern_auto_discovery_period=1)
    status = w.admin("DELETE", f"{topic_path(w.topic('match-a'))}?force=true").status
    w.send(w.topic("match-b"), "still")
    return [status, texts(consumer, 1)]


def a_pattern_and_partitions(w: World) -> Outcome:
    topic = w.partitioned(2, "match-parts")
    consumer = w.consumer(_pattern(w, "match-.*"))
    producer = w.producer(topic)
    for number in range(4):
        producer.send(str(number).encode())
    return sorted(texts(consumer, 4))


def acknowledging_by_topic(w: World) -> Outcome:
    topics = [w.topic(f"t{number}") for number in range(2)]
    consumer = w.consumer(topics)
    for topic in topics:
        w.send(topic, "x", "y")
    for message in take(consumer, 4):
        if message.topic_name() == topics[0]:
            consumer.acknowledge(message)
    return [w.settled(lambda: w.backlog(topics[0]), 0), w.backlog(topics[1])]


def unsubscribing_from_all(w: World) -> Outcome:
    topics = [w.topic(f"t{number}") for number in range(2)]
    w.consumer(topics).unsubscribe()
    return [w.admin("GET", f"{topic_path(topic)}/subscriptions").body for topic in topics]


def the_last_ids_of_several(w: World) -> Outcome:
    topics = [w.topic(f"t{number}") for number in range(2)]
    consumer = w.consumer(topics)
    return attempt(consumer.get_last_message_id)


def seek_on_several(w: World) -> Outcome:
    topics = [w.topic(f"t{number}") for number in range(2)]
    consumer = w.consumer(topics)
    for topic in topics:
        w.send(topic, "x")
    texts(consumer, 2)
    by_id = attempt(consumer.seek, pulsar.MessageId.earliest)
    payloads = rest(consumer, 600)
    return [by_id, payloads, attempt(consumer.seek, 1), rest(consumer, 600)]


def shared_by_two(w: World) -> Outcome:
    topics = [w.topic(f"t{number}") for number in range(2)]
    consumers = [w.consumer(topics, kind="Shared", client=w.new_client()) for _ in range(2)]
    for topic in topics:
        w.send(topic, *map(str, range(6)))
    by_consumer = [rest(consumer) for consumer in consumers]
    return [sorted(by_consumer[0] + by_consumer[1]) == sorted([*map(str, range(6))] * 2), all(by_consumer)]
