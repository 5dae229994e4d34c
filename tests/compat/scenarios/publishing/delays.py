"""Delayed delivery: on Shared and Key_Shared a message waits, elsewhere it does not."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from tests.compat.scenarios.values import rest, take, text, texts
from tests.compat.scenarios.world import Outcome, World

_SECOND = timedelta(seconds=1)


def _waits(w: World, kind: str, at_least_s: float = 0.5, **options: Any) -> Outcome:
    """Whether a message that is to wait for a second and a half waited, and what came in the end."""
    topic = w.topic()
    consumer = w.consumer(topic, kind=kind)
    options = options or {"deliver_after": 1.5 * _SECOND}
    start = time.monotonic()
    w.producer(topic).send(b"x", partition_key="k", **options)
    message = take(consumer, 1)[0]
    return [time.monotonic() - start > at_least_s, text(message), message.redelivery_count()]


def on_shared(w: World) -> Outcome:
    return _waits(w, "Shared")


def on_key_shared(w: World) -> Outcome:
    return _waits(w, "KeyShared")


def on_exclusive(w: World) -> Outcome:
    return _waits(w, "Exclusive")


def on_failover(w: World) -> Outcome:
    """A Failover subscription takes a second to begin, with or without delays."""
    return _waits(w, "Failover", at_least_s=2.0, deliver_after=3 * _SECOND)


def until_a_time(w: World) -> Outcome:
    return _waits(w, "Shared", deliver_at=int(time.time() * 1000) + 4000)


def until_a_time_that_is_over(w: World) -> Outcome:
    return _waits(w, "Shared", deliver_at=int(time.time() * 1000) - 5000)


def the_others_do_not_wait(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    producer = w.producer(topic)
    producer.send(b"late", deliver_after=1.5 * _SECOND)
    producer.send(b"now")
    return [texts(consumer, 1), texts(consumer, 1)]


def in_the_order_of_their_times(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    producer = w.producer(topic)
    producer.send(b"second", deliver_after=4 * _SECOND)
    producer.send(b"first", deliver_after=1 * _SECOND)
    return texts(consumer, 2)


def a_reader_does_not_wait(w: World) -> Outcome:
    topic = w.topic()
    w.producer(topic).send(b"x", deliver_after=60 * _SECOND)
    return rest(w.reader(topic), 600)


def they_wait_without_consumers(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic, kind="Shared").close()
    w.producer(topic).send(b"x", deliver_after=2 * _SECOND)
    consumer = w.consumer(topic, kind="Shared")
    return [rest(consumer), texts(consumer, 1)]


def they_are_backlog(w: World) -> Outcome:
    topic = w.topic()
    w.consumer(topic, kind="Shared")
    w.producer(topic).send(b"x", deliver_after=60 * _SECOND)

    def look() -> list[int]:
        stats = w.subscription_stats(topic)
        return [stats["msgBacklog"], stats["msgDelayed"], stats["unackedMessages"], stats["msgBacklogNoDelayed"]]

    return w.settled(look, [1, 1, 0, 0])


def in_batches_they_are_sent_alone(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared")
    producer = w.batching(topic, 3)
    producer.send_async(b"late", lambda *_: None, deliver_after=1.5 * _SECOND)
    producer.send_async(b"now", lambda *_: None)
    producer.flush()
    return [[text(message), message.message_id().batch_index()] for message in take(consumer, 2)]


def refused_messages_come_at_once(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="Shared", negative_ack_redelivery_delay_ms=100)
    w.producer(topic).send(b"x", deliver_after=_SECOND)
    consumer.negative_acknowledge(take(consumer, 1)[0])
    start = time.monotonic()
    message = take(consumer, 1)[0]
    return [time.monotonic() - start < 1.0, message.redelivery_count()]


def switched_off_nothing_waits(w: World) -> Outcome:
    topic = f"{w.namespace(delayedDelivery={'active': False, 'tickTime': 1000})}t"
    consumer = w.consumer(topic, kind="Shared")
    w.producer(topic).send(b"x", deliver_after=60 * _SECOND)
    return rest(consumer, 600)


def each_subscription_for_itself(w: World) -> Outcome:
    topic = w.topic()
    shared, exclusive = w.consumer(topic, "shared", "Shared"), w.consumer(topic, "exclusive")
    w.producer(topic).send(b"x", deliver_after=1.5 * _SECOND)
    return [texts(exclusive, 1), rest(shared), texts(shared, 1)]
