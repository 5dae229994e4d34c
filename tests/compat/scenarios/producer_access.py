"""Producers that want a topic for themselves."""

from __future__ import annotations

import threading
from typing import Any

import pulsar

from tests.compat.scenarios.values import attempt, rest, texts
from tests.compat.scenarios.world import Outcome, World, topic_path

MODES = pulsar.ProducerAccessMode


def an_exclusive_producer_is_alone(w: World) -> Outcome:
    topic = w.topic()
    owner = w.producer(topic, access_mode=MODES.Exclusive)
    found = [attempt(w.producer, topic, access_mode=mode) for mode in (MODES.Shared, MODES.Exclusive)]
    owner.close()
    return [found, attempt(w.producer, topic), attempt(w.producer, topic, access_mode=MODES.Exclusive)]


def a_shared_topic_is_not_given_away(w: World) -> Outcome:
    topic = w.topic()
    shares = w.producer(topic)
    found = attempt(w.producer, topic, access_mode=MODES.Exclusive)
    return [found, attempt(lambda: shares.send(b"x")), attempt(w.producer, topic)]


def the_name_of_an_exclusive_producer(w: World) -> Outcome:
    topic = w.topic()
    w.producer(topic, producer_name="p", access_mode=MODES.Exclusive)
    return [
        attempt(w.producer, topic, producer_name="p", access_mode=mode, client=w.new_client())
        for mode in (MODES.Shared, MODES.Exclusive)
    ]


def a_fencing_producer_takes_over(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    old = w.producer(topic, access_mode=MODES.Exclusive)
    old.send(b"old")
    new = w.producer(topic, access_mode=MODES.ExclusiveWithFencing, client=w.new_client())
    late = attempt(lambda: old.send(b"late"))
    new.send(b"new")
    return [late, texts(consumer, 2), rest(consumer), attempt(lambda: old.send(b"later"))]


def producers_that_shared_are_fenced_too(w: World) -> Outcome:
    topic = w.topic()
    shares = w.producer(topic, send_timeout_millis=4_000)
    shares.send(b"a")
    fencing = w.producer(topic, access_mode=MODES.ExclusiveWithFencing, client=w.new_client())
    late = attempt(lambda: shares.send(b"late"))
    fencing.close()
    return [late, attempt(w.producer, topic)]


def fencing_a_fencing_producer(w: World) -> Outcome:
    topic = w.topic()
    producers = [w.producer(topic, access_mode=MODES.ExclusiveWithFencing, client=w.new_client()) for _ in range(3)]
    return [[attempt(lambda p=producer: p.send(b"x")) for producer in reversed(producers)], _epoch(w, topic)]


def epochs_count_owners(w: World) -> Outcome:
    topic = w.topic()
    w.producer(topic).close()
    found = [_epoch(w, topic)]
    for mode in (MODES.Exclusive, MODES.Exclusive, MODES.ExclusiveWithFencing, MODES.WaitForExclusive):
        producer = w.producer(topic, access_mode=mode)
        found.append(_epoch(w, topic))
        producer.close()
    w.producer(topic).close()
    return [*found, _epoch(w, topic)]


def epochs_outlive_an_unload(w: World) -> Outcome:
    topic = w.topic()
    w.producer(topic, access_mode=MODES.Exclusive).close()
    w.producer(topic, access_mode=MODES.Exclusive).close()
    w.admin("PUT", f"{topic_path(topic)}/unload")
    w.producer(topic, access_mode=MODES.Exclusive)
    return _epoch(w, topic)


def an_owner_survives_an_unload(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    owner = w.producer(topic, access_mode=MODES.Exclusive)
    owner.send(b"a")
    w.admin("PUT", f"{topic_path(topic)}/unload")
    return [attempt(lambda: owner.send(b"b")), texts(consumer, 2), _epoch(w, topic)]


def one_that_waits_gets_the_topic_when_its_owner_closes(w: World) -> Outcome:
    topic = w.topic()
    owner = w.producer(topic, access_mode=MODES.Exclusive)
    waiting = _Waiting(w, topic)
    before = [waiting.done, attempt(w.producer, topic), _modes(w, topic)]
    owner.close()
    return [before, waiting.outcome(), attempt(lambda: waiting.producer.send(b"x")), _modes(w, topic), _epoch(w, topic)]


def one_that_waits_gets_the_topic_when_its_owner_disconnects(w: World) -> Outcome:
    topic, client = w.topic(), w.new_client()
    w.producer(topic, access_mode=MODES.ExclusiveWithFencing, client=client)
    waiting = _Waiting(w, topic)
    client.close()
    return [waiting.outcome(), _modes(w, topic)]


def one_that_waits_for_those_that_share(w: World) -> Outcome:
    topic = w.topic()
    shares = [w.producer(topic) for _ in range(2)]
    waiting = _Waiting(w, topic)
    refused = [attempt(w.producer, topic), attempt(w.producer, topic, access_mode=MODES.Exclusive)]
    shares[0].close()
    still = waiting.done
    shares[1].close()
    return [refused, still, waiting.outcome(), _modes(w, topic)]


def those_that_wait_come_in_order(w: World) -> Outcome:
    topic = w.topic()
    owner = w.producer(topic, access_mode=MODES.Exclusive)
    first = _Waiting(w, topic)
    second = _Waiting(w, topic)
    owner.close()
    found = [first.outcome(), second.done]
    first.producer.close()
    return [*found, second.outcome(), _epoch(w, topic)]


def one_that_leaves_the_queue_gets_nothing(w: World) -> Outcome:
    topic = w.topic()
    owner = w.producer(topic, access_mode=MODES.Exclusive)
    leaves = _Waiting(w, topic)
    stays = _Waiting(w, topic)
    leaves.client.close()
    owner.close()
    return [stays.outcome(), _modes(w, topic)]


def fencing_ends_the_waiting(w: World) -> Outcome:
    topic = w.topic()
    w.producer(topic, access_mode=MODES.Exclusive)
    waiting = _Waiting(w, topic)
    w.producer(topic, access_mode=MODES.ExclusiveWithFencing, client=w.new_client())
    return [waiting.outcome(), _modes(w, topic)]


def exclusive_on_partitions(w: World) -> Outcome:
    topic = w.partitioned(3)
    w.producer(topic, access_mode=MODES.Exclusive)
    return [attempt(w.producer, topic), attempt(w.producer, f"{topic}-partition-1")]


# --- helpers


class _Waiting:
    """A producer that waits for a topic; made once the broker says that it does."""

    def __init__(self, w: World, topic: str) -> None:
        self.client = w.new_client(operation_timeout_seconds=4)
        self.producer: Any = None
        self._ended = ""
        before = w.stats(topic)["waitingPublishers"]
        self._thread = threading.Thread(target=self._wait, args=(w, topic), daemon=True)
        self._thread.start()
        w.settled(lambda: w.stats(topic)["waitingPublishers"], before + 1)

    def _wait(self, w: World, topic: str) -> None:
        try:
            self.producer = w.producer(topic, access_mode=MODES.WaitForExclusive, client=self.client)
            self._ended = "ok"
        except pulsar.PulsarException as error:
            self._ended = type(error).__name__

    @property
    def done(self) -> bool:
        return bool(self._ended)

    def outcome(self) -> str:
        self._thread.join(10)
        return self._ended


def _epoch(w: World, topic: str) -> Any:
    return w.stats(topic).get("topicEpoch")


def _modes(w: World, topic: str) -> list[str]:
    return [one["accessMode"] for one in w.stats(topic)["publishers"]]
