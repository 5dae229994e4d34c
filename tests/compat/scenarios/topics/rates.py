"""Rate limits, as clients meet them."""

from __future__ import annotations

import time
from typing import Any

import pulsar

from tests.compat.scenarios.values import attempt, texts
from tests.compat.scenarios.world import Outcome, World


def _slowly(began_s: float, least_s: float) -> bool:
    return time.monotonic() - began_s >= least_s


def publishing(w: World) -> Outcome:
    """Forty messages at ten a second."""
    topic = f"{w.namespace(publishRate={'publishThrottlingRateInMsg': 10})}t"
    producer = w.producer(topic)
    reader = w.reader(topic)
    began_s, failed = time.monotonic(), []
    for number in range(40):
        producer.send_async(str(number).encode(), lambda result, message_id: failed.append(result) if message_id is None else None)
    producer.flush()
    slow = _slowly(began_s, 1.9)
    numbers = [int(reader.read_next(3_000).data()) for _ in range(40)]
    limited = w.stats(topic)["publishRateLimitedTimes"] > 0
    return [slow, numbers == list(range(40)), failed, limited]


def publishing_in_bytes(w: World) -> Outcome:
    topic = f"{w.namespace(publishRate={'publishThrottlingRateInByte': 10_000})}t"
    producer = w.producer(topic)
    began_s = time.monotonic()
    for _ in range(40):
        producer.send_async(b"x" * 1000, None)
    producer.flush()
    return [_slowly(began_s, 1.9), w.stats(topic)["msgInCounter"]]


def publishing_to_another_topic_of_the_connection(w: World) -> Outcome:
    """Pulsar stops reading the connection for a moment; it goes on in the end."""
    slow_topic = f"{w.namespace(publishRate={'publishThrottlingRateInMsg': 10})}t"
    slow, quick = w.producer(slow_topic), w.producer(w.topic())
    for _ in range(25):
        slow.send_async(b"x", None)
    for _ in range(100):
        quick.send_async(b"x", None)
    quick.flush()
    slow.flush()
    return [w.stats(slow_topic)["msgInCounter"]]


def _delivering(w: World, kind: str, **policies: Any) -> Outcome:
    topic = f"{w.namespace(**policies)}t"
    producer = w.producer(topic)
    consumer = w.consumer(topic, kind=kind, initial_position=pulsar.InitialPosition.Earliest)
    began_s = time.monotonic()
    for number in range(40):
        producer.send_async(str(number).encode(), None, partition_key="k")
    producer.flush()
    payloads = texts(consumer, 40)
    slow = _slowly(began_s, 1.9)
    stats = w.subscription_stats(topic)
    throttled = sorted(name for name, count in stats.items() if name.startswith("dispatchThrottled") and count)
    return [slow, payloads == [str(number) for number in range(40)], throttled]


def delivering_of_a_topic(w: World) -> Outcome:
    rate = {"dispatchThrottlingRateInMsg": 10}
    return {kind: _delivering(w, kind, dispatchRate=rate) for kind in ("Exclusive", "Shared", "Failover", "KeyShared")}


def delivering_of_a_subscription(w: World) -> Outcome:
    rate = {"dispatchThrottlingRateInMsg": 10, "ratePeriodInSecond": 1}
    return {kind: _delivering(w, kind, subscriptionDispatchRate=rate) for kind in ("Exclusive", "Shared", "Failover", "KeyShared")}


def delivering_in_bytes(w: World) -> Outcome:
    return _delivering(w, "Exclusive", dispatchRate={"dispatchThrottlingRateInByte": 500})


def subscribing_too_often(w: World) -> Outcome:
    """A consumer is known by its address, its name and its number on the connection."""
    topic = f"{w.namespace(subscribeRate={'subscribeThrottlingRatePerConsumer': 2, 'ratePeriodInSecond': 600})}t"
    w.send(topic, "a")

    def subscribe(name: str) -> str:
        client = w.new_client(operation_timeout_seconds=3)
        outcome = attempt(client.subscribe, topic, "s", pulsar.ConsumerType.Shared, consumer_name=name)
        client.close()
        return outcome

    return [[subscribe("one") for _ in range(4)], [subscribe("two") for _ in range(3)]]


def values_of_no_limit(w: World) -> Outcome:
    """Zero and less."""
    prefix = w.namespace(
        publishRate={"publishThrottlingRateInMsg": 0, "publishThrottlingRateInByte": 0},
        dispatchRate={"dispatchThrottlingRateInMsg": 0, "dispatchThrottlingRateInByte": 0},
        subscriptionDispatchRate={"dispatchThrottlingRateInMsg": -1, "dispatchThrottlingRateInByte": 0},
        subscribeRate={"subscribeThrottlingRatePerConsumer": 0, "ratePeriodInSecond": 30},
    )
    w.send(f"{prefix}t", *"abc")
    return texts(w.consumer(f"{prefix}t", initial_position=pulsar.InitialPosition.Earliest), 3)


def values_over_rest(w: World) -> Outcome:
    """What is set, and what is read after that."""
    at = "namespaces/" + w.namespace().removeprefix("persistent://").rstrip("/")
    bodies: dict[str, tuple[Any, ...]] = {
        "publishRate": (
            {},
            {"publishThrottlingRateInMsg": 5},
            {"publishThrottlingRateInMsg": 0, "publishThrottlingRateInByte": 0},
            {"publishThrottlingRateInMsg": 2**31 - 1, "publishThrottlingRateInByte": 2**53 - 1},
        ),
        "dispatchRate": (
            {},
            {"dispatchThrottlingRateInMsg": 5, "relativeToPublishRate": True},
            {"dispatchThrottlingRateInMsg": 0, "dispatchThrottlingRateInByte": 0, "ratePeriodInSecond": 60},
            {"dispatchThrottlingRateInByte": 2**53 - 1},
        ),
        "subscriptionDispatchRate": ({}, {"dispatchThrottlingRateInMsg": 5, "ratePeriodInSecond": 2}),
        "subscribeRate": ({}, {"subscribeThrottlingRatePerConsumer": 5}, {"subscribeThrottlingRatePerConsumer": 0}),
    }
    by_path: dict[str, Any] = {}
    for path, values in bodies.items():
        answers = [w.admin("GET", f"{at}/{path}").body]
        for value in values:
            answers += [w.admin("POST", f"{at}/{path}", value).status, w.admin("GET", f"{at}/{path}").body]
        answers += [w.admin("DELETE", f"{at}/{path}").status, w.admin("GET", f"{at}/{path}").body]
        by_path[path] = answers
    return by_path
