"""What stock clients sent to and received from a real platform, written down with its times; and what of it usage must show.

A broker that is killed loses what it carried since it last wrote its usage: the outage that the platform tells of
(`workers.findings.outages`) says from when to when. Each thing that a client saw happened at some moment between two that are
known; where an outage begins just between them, nobody outside can say whether it was counted, and `expected` says so.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from threading import Condition
from typing import Any, NamedTuple

import pulsar

from tests.compat.stock import RECEIVE_MS, Stock
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync
from workers.findings.outages import Outage

EARLIEST, SHARED = pulsar.InitialPosition.Earliest, pulsar.ConsumerType.Shared
SUBSCRIPTION = "s"
SENT_S = 60.0
QUIET_MS = 700


class Event(NamedTuple):
    """It happened at some time from `earliest_ms` to `latest_ms`."""

    earliest_ms: float
    latest_ms: float


class Expected(NamedTuple):
    """How often something is counted, at least and at most."""

    least: int
    most: int


def now_ms() -> float:
    return time.time() * 1000


class Traffic:
    """`sent` and `received`: topic -> events."""

    def __init__(self, stock: Stock, token: str) -> None:
        self._stock = stock
        self._token = token
        self.sent: dict[str, list[Event]] = defaultdict(list)
        self.received: dict[str, list[Event]] = defaultdict(list)
        self.payload_bytes: dict[str, int] = defaultdict(int)  # sent

    def consumer(self, topic: str, **options: Any) -> pulsar.Consumer:
        client = self._stock.client(self._token)
        options = {"initial_position": EARLIEST, "negative_ack_redelivery_delay_ms": 50, **options}
        return client.subscribe(topic, SUBSCRIPTION, SHARED, **options)

    def publish(self, topic: str, count: int, *, batch: bool = False) -> Publishing:
        """Sends without waiting for receipts: `Publishing.wait` does."""
        options = {"batching_enabled": True, "batching_max_publish_delay_ms": 5} if batch else {"batching_enabled": False}
        return Publishing(
            self, self._stock.client(self._token).create_producer(topic, max_pending_messages=count, **options), topic, count
        )

    def receive(self, consumer: pulsar.Consumer, count: int, since_ms: float, *, reject: int = 0) -> None:
        """`count` messages, all of them sent after `since_ms`; the first `reject` of them come once more, and count again."""
        for number in range(count + reject):
            message = consumer.receive(RECEIVE_MS)
            self.received[topic_of(consumer)].append(Event(since_ms, now_ms()))
            if number < reject:
                consumer.negative_acknowledge(message)
            else:
                consumer.acknowledge(message)

    def take(self, consumer: pulsar.Consumer, since_ms: float) -> Taken:
        """One message, neither acknowledged nor rejected yet."""
        message = consumer.receive(RECEIVE_MS)
        self.received[topic_of(consumer)].append(Event(since_ms, now_ms()))
        return Taken(consumer, message)

    def drain(self, consumer: pulsar.Consumer, since_ms: float) -> None:
        """Everything, until nothing comes for a while."""
        with suppress(pulsar.Timeout):
            while True:
                message = consumer.receive(QUIET_MS)
                self.received[topic_of(consumer)].append(Event(since_ms, now_ms()))
                consumer.acknowledge(message)

    def moved(self, topic: str, count: int, since_ms: float) -> None:
        """Messages that the broker put there on behalf of a client."""
        self.sent[topic] += [Event(since_ms, now_ms())] * count


def settle(platform: Standalone, topics: Iterable[str]) -> None:
    """Waits until the broker has all acknowledgements. The client holds them back for a moment, and a message that comes again
    meanwhile, from another boot, it throws away, so that nobody here sees what the broker sent."""
    for topic in topics:
        eventually_sync(partial(_all, platform, topic, lambda subscription: not subscription["msgBacklog"]), 30)


def reconnected(platform: Standalone, topics: Iterable[str]) -> None:
    """Waits until the consumers of a former boot are connected again. Only then have they thrown away what they had been sent
    before and had not taken yet: nobody could say of these when they were sent."""
    for topic in topics:
        eventually_sync(partial(_all, platform, topic, lambda subscription: bool(subscription["consumers"])), 30)


def _all(platform: Standalone, topic: str, check: Callable[[dict[str, Any]], bool]) -> bool:
    """Whether it is so for all subscriptions."""
    answer = platform.http("GET", f"/admin/v2/{topic.replace('://', '/')}/stats", token=platform.admin_token)
    assert answer.status == 200, answer.text
    return all(map(check, answer.json()["subscriptions"].values()))


class Taken(NamedTuple):
    consumer: pulsar.Consumer
    message: pulsar.Message

    def reject(self) -> None:
        self.consumer.negative_acknowledge(self.message)


def topic_of(consumer: pulsar.Consumer) -> str:
    return str(consumer.topic())


class Publishing:
    """Messages that are on their way."""

    def __init__(self, traffic: Traffic, producer: pulsar.Producer, topic: str, count: int) -> None:
        self._traffic, self._producer, self._topic, self._left = traffic, producer, topic, count
        self._changed = Condition()
        self.failed: list[str] = []
        for number in range(count):
            payload = b"%d" % number + b"." * (number % 7 * 30)
            traffic.payload_bytes[topic] += len(payload)
            started_ms = now_ms()
            producer.send_async(payload, lambda result, message_id, at=started_ms: self._receipt(result, at))

    def _receipt(self, result: pulsar.Result, started_ms: float) -> None:
        with self._changed:
            if result == pulsar.Result.Ok:
                self._traffic.sent[self._topic].append(Event(started_ms, now_ms()))
            else:
                self.failed.append(str(result))
            self._left -= 1
            self._changed.notify_all()

    def wait(self, left: int = 0) -> None:
        """Until no more than `left` receipts are missing."""
        if not left:
            self._producer.flush()
        with self._changed:
            assert self._changed.wait_for(lambda: self._left <= left, SENT_S), f"{self._left} receipts are missing"
            assert not self.failed, self.failed[:3]
        if not left:
            self._producer.close()


def expected(events: Iterable[Event], outages: Iterable[Outage]) -> Expected:
    """How many of `events` the usage of all boots must show together."""
    least = most = 0
    holes = list(outages)
    for event in events:
        low = high = 1
        for hole in holes:
            if event.latest_ms < hole.from_ms or event.earliest_ms > hole.until_ms:
                continue
            begins_inside, ends_inside = event.earliest_ms >= hole.from_ms, event.latest_ms <= hole.until_ms
            if begins_inside and ends_inside:
                low = high = 0
            elif ends_inside:
                low = 0  # before the hole, or in it
            elif not begins_inside:
                high += 1  # before the hole, and once more by the next boot
        least, most = least + low, most + high
    return Expected(least, most)
