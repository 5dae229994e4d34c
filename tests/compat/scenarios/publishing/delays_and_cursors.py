"""Delayed messages, and what moves a cursor past them or back: seeks, expiry, skipping, other types, dead letters, policies."""

from __future__ import annotations

import time
from datetime import timedelta

import pulsar

from tests.compat.scenarios.values import attempt, rest, take, text, texts
from tests.compat.scenarios.world import Outcome, World, topic_path

_SOON, _LATE = timedelta(seconds=1.5), timedelta(seconds=60)
_FAR_MS = 1 << 52


def _counts(w: World, topic: str, wanted: list[int]) -> list[int]:
    def look() -> list[int]:
        stats = w.subscription_stats(topic)
        return [stats["msgBacklog"], stats["msgDelayed"]]

    counts: list[int] = w.settled(look, wanted)
    return counts


def _waiting(w: World, topic: str) -> pulsar.Consumer:
    """A Shared consumer that was sent "a" and "b", and not "late", which was published between them."""
    consumer = w.consumer(topic, kind="Shared")
    producer = w.producer(topic)
    producer.send(b"a")
    producer.send(b"late", deliver_after=_LATE)
    producer.send(b"b")
    assert sorted(texts(consumer, 2)) == ["a", "b"]
    return consumer


def a_seek_to_the_beginning_waits_again(w: World) -> Outcome:
    consumer = _waiting(w, w.topic())
    consumer.seek(pulsar.MessageId.earliest)
    return [sorted(texts(consumer, 2)), rest(consumer)]


def a_seek_to_a_time_waits_again(w: World) -> Outcome:
    consumer = _waiting(w, w.topic())
    consumer.seek(int(time.time() * 1000) - 3_600_000)
    return [sorted(texts(consumer, 2)), rest(consumer)]


def a_seek_to_the_end_forgets_them(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    producer = w.producer(topic)
    producer.send(b"late", deliver_after=_SOON)
    consumer.seek(pulsar.MessageId.latest)
    producer.send(b"last", deliver_after=2 * _SOON)
    return texts(consumer, 1)


def a_seek_after_its_time_brings_it_at_once(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    w.producer(topic).send(b"late", deliver_after=_SOON)
    first = texts(consumer, 1)
    consumer.seek(pulsar.MessageId.earliest)
    return [first, texts(consumer, 1)]


def an_unsubscription_forgets_them(w: World) -> Outcome:
    topic = w.topic()
    consumer = _waiting(w, topic)
    return [attempt(consumer.unsubscribe), rest(w.consumer(topic, kind="Shared"))]


def they_expire(w: World) -> Outcome:
    topic = w.topic()
    consumer = _waiting(w, topic)

    def left() -> int:
        assert w.admin("POST", f"{topic_path(topic)}/subscription/s/expireMessages/1").status in (204, 409)
        return w.backlog(topic)

    return [w.settled(left, 0, 10.0), rest(consumer)]


def they_are_skipped_with_the_backlog(w: World) -> Outcome:
    topic = w.topic()
    consumer = _waiting(w, topic)
    answer = w.admin("POST", f"{topic_path(topic)}/subscription/s/skip_all")
    return [answer.status, _counts(w, topic, [0, 0]), rest(consumer)]


def they_are_skipped_one_by_one(w: World) -> Outcome:
    topic = w.topic()
    consumer = _waiting(w, topic)
    assert _counts(w, topic, [1, 1]) == [1, 1]
    answer = w.admin("POST", f"{topic_path(topic)}/subscription/s/skip/1")
    return [answer.status, _counts(w, topic, [0, 0])[0], rest(consumer)]


def they_can_be_peeked_at(w: World) -> Outcome:
    topic = w.topic()
    _waiting(w, topic)
    assert _counts(w, topic, [1, 1]) == [1, 1]
    return w.admin("GET", f"{topic_path(topic)}/subscription/s/position/1").status


def another_type_of_the_same_subscription_gets_them_at_once(w: World) -> Outcome:
    topic = w.topic()
    _waiting(w, topic).close()
    exclusive = w.consumer(topic)
    payloads = texts(exclusive, 1, acknowledge=False)
    exclusive.close()
    return [payloads, rest(w.consumer(topic, kind="KeyShared"))]


def what_an_exclusive_consumer_acknowledged_is_gone(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    producer.send(b"late", deliver_after=_SOON)
    producer.send(b"now")
    consumer.acknowledge_cumulative(take(consumer, 2)[-1])
    consumer.close()
    shared = w.consumer(topic, kind="Shared")
    producer.send(b"last", deliver_after=2 * _SOON)
    return texts(shared, 1)


def keys_do_not_wait_for_what_is_delayed(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="KeyShared")
    producer = w.producer(topic)
    producer.send(b"late", partition_key="k", deliver_after=_SOON)
    producer.send(b"now", partition_key="k")
    return texts(consumer, 2)


def on_partitions(w: World) -> Outcome:
    topic = w.partitioned(2)
    consumer = w.consumer(topic, kind="Shared")
    producer = w.producer(topic)
    for number in range(4):
        producer.send(str(number).encode(), deliver_after=_SOON)
    return [rest(consumer), sorted(texts(consumer, 4))]


def without_storage_nothing_waits(w: World) -> Outcome:
    topic = w.unstored_topic()
    consumer = w.consumer(topic, kind="Shared")
    w.producer(topic).send(b"x", deliver_after=_LATE)
    return texts(consumer, 1)


def times_that_make_no_sense(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    producer = w.producer(topic)
    producer.send(b"1970", deliver_at=1)
    producer.send(b"never", deliver_at=_FAR_MS)
    return [texts(consumer, 1), rest(consumer), _counts(w, topic, [1, 1])]


def asked_for_again_they_come_at_once(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    w.producer(topic).send(b"late", deliver_after=_SOON)
    first = take(consumer, 1)[0]
    consumer.redeliver_unacknowledged_messages()
    start = time.monotonic()
    again = take(consumer, 1)[0]
    return [text(first), text(again), time.monotonic() - start < 1.0]


def a_consumer_that_leaves_gives_them_to_the_next(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    w.producer(topic).send(b"late", deliver_after=_SOON)
    payload = text(take(consumer, 1)[0])
    consumer.close()
    return [payload, texts(w.consumer(topic, kind="Shared"), 1)]


def rejected_they_become_dead_letters_at_once(w: World) -> Outcome:
    topic = w.topic()
    policy = pulsar.ConsumerDeadLetterPolicy(1, w.topic("dead"), "care")
    consumer = w.consumer(topic, kind="Shared", dead_letter_policy=policy, negative_ack_redelivery_delay_ms=100)
    w.producer(topic).send(b"late", deliver_after=_SOON)
    for _ in range(2):
        consumer.negative_acknowledge(take(consumer, 1)[0])
    rest(consumer)
    return texts(w.consumer(w.topic("dead"), "care", "Shared"), 1)
