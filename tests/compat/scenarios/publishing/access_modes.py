"""Access modes of producers: who may publish beside whom, who waits, who is pushed out."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pulsar

from tests.compat.scenarios.values import attempt, texts
from tests.compat.scenarios.world import Outcome, World, topic_path

_MODE = pulsar.ProducerAccessMode
_MODES = {"Shared": _MODE.Shared, "Exclusive": _MODE.Exclusive, "Fencing": _MODE.ExclusiveWithFencing}


def _open(w: World, topic: str, mode: Any, **options: Any) -> pulsar.Producer:
    return w.producer(topic, access_mode=mode, client=w.new_client(operation_timeout_seconds=4), **options)


def _wait(w: World, pool: ThreadPoolExecutor, topic: str) -> Future[pulsar.Producer]:
    return pool.submit(_open, w, topic, _MODE.WaitForExclusive)


def _publishers(w: World, topic: str) -> int:
    return len(w.stats(topic)["publishers"])


def _beside(w: World, first: str) -> Outcome:
    outcomes = {}
    for name, mode in _MODES.items():
        topic = w.topic(name)
        producer = _open(w, topic, _MODES[first], send_timeout_millis=2000)
        outcomes[name] = [attempt(_open, w, topic, mode), attempt(producer.send, b"x")]
    return outcomes


def beside_shared(w: World) -> Outcome:
    return _beside(w, "Shared")


def beside_exclusive(w: World) -> Outcome:
    return _beside(w, "Exclusive")


def beside_one_that_fenced(w: World) -> Outcome:
    return _beside(w, "Fencing")


def exclusive_again_after_closing(w: World) -> Outcome:
    topic = w.topic()
    outcomes = []
    for mode in (_MODE.Exclusive, _MODE.Exclusive, _MODE.Shared, _MODE.Exclusive):
        client = w.new_client()
        outcomes.append(attempt(w.producer, topic, access_mode=mode, client=client))
        client.close()
    return outcomes


def waiting_until_the_first_one_closes(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    first = _open(w, topic, _MODE.Exclusive)
    with ThreadPoolExecutor(1) as pool:
        waiting = _wait(w, pool, topic)
        early = w.settled(waiting.done, True, 0.3)
        first.send(b"first")
        first.close()
        waiting.result(5).send(b"second")
    return [early, texts(consumer, 2)]


def waiting_on_a_free_topic(w: World) -> Outcome:
    return attempt(_open, w, w.topic(), _MODE.WaitForExclusive)


def waiting_behind_shared_producers(w: World) -> Outcome:
    topic = w.topic()
    shared = [_open(w, topic, _MODE.Shared) for _ in range(2)]
    with ThreadPoolExecutor(1) as pool:
        waiting = _wait(w, pool, topic)
        outcomes = [w.settled(waiting.done, True, 0.3)]
        shared[0].close()
        outcomes.append(w.settled(waiting.done, True, 0.3))
        shared[1].close()
        outcomes.append(attempt(waiting.result(5).send, b"x"))
    return outcomes


def a_shared_one_while_another_waits(w: World) -> Outcome:
    topic = w.topic()
    first = _open(w, topic, _MODE.Exclusive)
    with ThreadPoolExecutor(1) as pool:
        waiting = _wait(w, pool, topic)
        w.settled(waiting.done, True, 0.3)
        outcomes = [attempt(_open, w, topic, _MODE.Shared), attempt(_open, w, topic, _MODE.Exclusive)]
        first.close()
        waiting.result(5)
    return outcomes


def those_who_wait_take_turns(w: World) -> Outcome:
    topic = w.topic()
    owner = _open(w, topic, _MODE.Exclusive)
    with ThreadPoolExecutor(2) as pool:
        first = _wait(w, pool, topic)
        w.settled(first.done, True, 0.4)
        second = _wait(w, pool, topic)
        w.settled(second.done, True, 0.4)
        owner.close()
        outcomes = [w.settled(first.done, True, 3), second.done()]
        first.result(5).close()
        outcomes.append(attempt(second.result(5).send, b"x"))
    return outcomes


def fencing_pushes_out(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    old = _open(w, topic, _MODE.Exclusive, send_timeout_millis=3000)
    old.send(b"old")
    new = _open(w, topic, _MODE.ExclusiveWithFencing)
    new.send(b"new")
    return [attempt(old.send, b"late"), attempt(new.send, b"newer"), texts(consumer, 3)]


def fencing_those_who_wait(w: World) -> Outcome:
    topic = w.topic()
    _open(w, topic, _MODE.Exclusive)
    with ThreadPoolExecutor(1) as pool:
        waiting = _wait(w, pool, topic)
        w.settled(waiting.done, True, 0.4)
        fencing = attempt(_open, w, topic, _MODE.ExclusiveWithFencing)
        return [fencing, attempt(waiting.result, 6)]


def fencing_shared_producers(w: World) -> Outcome:
    topic = w.topic()
    shared = [_open(w, topic, _MODE.Shared, send_timeout_millis=2000) for _ in range(2)]
    fencing = attempt(_open, w, topic, _MODE.ExclusiveWithFencing)
    return [fencing, [attempt(producer.send, b"x") for producer in shared]]


def fencing_twice(w: World) -> Outcome:
    topic = w.topic()
    first = _open(w, topic, _MODE.ExclusiveWithFencing, send_timeout_millis=2000)
    second = _open(w, topic, _MODE.ExclusiveWithFencing, send_timeout_millis=2000)
    return [attempt(first.send, b"x"), attempt(second.send, b"x")]


def exclusive_goes_on_after_unloading(w: World) -> Outcome:
    topic = w.topic()
    producer = _open(w, topic, _MODE.Exclusive)
    producer.send(b"a")
    w.admin("PUT", f"{topic_path(topic)}/unload")
    return [attempt(producer.send, b"b"), attempt(_open, w, topic, _MODE.Shared)]


def fenced_stays_fenced_after_unloading(w: World) -> Outcome:
    topic = w.topic()
    old = _open(w, topic, _MODE.Exclusive, send_timeout_millis=2000)
    new = _open(w, topic, _MODE.ExclusiveWithFencing)
    w.admin("PUT", f"{topic_path(topic)}/unload")
    return [attempt(new.send, b"new"), attempt(old.send, b"old")]


def the_mode_is_told(w: World) -> Outcome:
    topic = w.topic()
    _open(w, topic, _MODE.Exclusive)
    return [publisher["accessMode"] for publisher in w.stats(topic)["publishers"]]


def exclusive_on_partitions(w: World) -> Outcome:
    topic = w.partitioned(2)
    producer = _open(w, topic, _MODE.Exclusive)
    return [attempt(producer.send, b"x"), attempt(_open, w, topic, _MODE.Exclusive), attempt(_open, w, topic, _MODE.Shared)]
