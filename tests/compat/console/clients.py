"""What clients of one platform do, written down as they see it: the pages of the console are held against it.

Everything is done with Apache's client for Python. `steady` goes on until the end, so that rates are of something: a message every
`PAUSE_S`, which a consumer takes and acknowledges. The rest is done once, and stays as it is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any

import pulsar
from pulsar.schema import JsonSchema, Record, String

from tests.compat.stock import RECEIVE_MS, Stock
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

TENANT, NAMESPACE = "truth", "orders"
PLACED, PARTS, FAILING, JOBS, TYPED, STEADY = (
    f"persistent://{TENANT}/{NAMESPACE}/{name}" for name in ("placed", "parts", "failing", "jobs", "typed", "steady")
)
LETTERS = f"{FAILING}-work-DLQ"
PAUSE_S = 0.05
PAYLOAD_BYTES = 1_000
QUEUE = 10  # messages that the consumer of `billing` is sent before it asks
SHARED = pulsar.ConsumerType.Shared
EARLIEST = pulsar.InitialPosition.Earliest


class Order(Record):  # type: ignore[misc]
    number = String()


class World:
    """By topic, or by topic and subscription: messages with a receipt, messages received, messages acknowledged."""

    def __init__(self, platform: Standalone, stock: Stock) -> None:
        self.platform = platform
        self.sent: Counter[str] = Counter()
        self.received: Counter[tuple[str, str]] = Counter()
        self.acknowledged: Counter[tuple[str, str]] = Counter()
        self.consumers: Counter[str] = Counter()
        self.producers: Counter[str] = Counter()
        self.began_s = time.time()
        self.done_s = 0.0  # with all that is done once
        self.ids: dict[str, list[pulsar.MessageId]] = defaultdict(list)
        self.restarted = False  # the broker, since the clients did what they did once
        self.stood_still = 0  # how often the broker did for so long that clients may have connected anew
        self._open: list[pulsar.Producer | pulsar.Consumer] = []  # what nobody refers to does not connect again
        self._stopping = threading.Event()
        self._steady: list[threading.Thread] = []
        self._token = self._prepare()
        self._stock = stock
        self._client = stock.client(self._token)

    def _prepare(self) -> str:
        def ask(method: str, path: str, body: Any) -> Any:
            answer = self.platform.http(method, f"/api/v1/tenants{path}", body, self.platform.admin_token)
            assert answer.status < 300, answer.text
            return answer.json()

        ask("POST", "", {"name": TENANT})
        ask("POST", f"/{TENANT}/namespaces", {"name": NAMESPACE})
        ask("POST", f"/{TENANT}/namespaces/{NAMESPACE}/topics", {"name": "parts", "partitions": 2})
        key = ask("POST", f"/{TENANT}/keys", {"name": "app"})
        ask("PUT", f"/{TENANT}/namespaces/{NAMESPACE}/permissions/app@{TENANT}", {"actions": ["produce", "consume"]})
        return str(key["token"])

    # --- what clients do

    def producer(self, topic: str, **options: Any) -> pulsar.Producer:
        self.producers[topic] += 1
        self._open.append(self._client.create_producer(topic, batching_enabled=False, **options))
        return self._open[-1]

    def consumer(self, topic: str, subscription: str, **options: Any) -> pulsar.Consumer:
        self.consumers[topic] += 1
        self._open.append(self._client.subscribe(topic, subscription, SHARED, initial_position=EARLIEST, **options))
        return self._open[-1]

    def send(self, producer: pulsar.Producer, topic: str, count: int, **options: Any) -> None:
        for _ in range(count):
            self.ids[topic].append(producer.send(b"x" * PAYLOAD_BYTES, **options))
            self.sent[topic] += 1

    def receive(self, consumer: pulsar.Consumer, where: tuple[str, str], count: int, acknowledged: int) -> None:
        for number in range(count):
            message = consumer.receive(RECEIVE_MS)
            self.received[where] += 1
            if number < acknowledged:
                consumer.acknowledge(message)
                self.acknowledged[where] += 1

    def subscription_without_consumer(self, topic: str, subscription: str) -> None:
        self._client.subscribe(topic, subscription, SHARED, initial_position=EARLIEST).close()

    def _letters_moved(self) -> bool:
        """All are published as letters, and acknowledged where they come from."""

        def stats(topic: str) -> Any:
            path = topic.replace("://", "/")
            return self.platform.http("GET", f"/admin/v2/{path}/stats", None, self.platform.admin_token).json()

        letters, failing = stats(LETTERS), stats(FAILING)  # an error without figures until there is a letter
        return letters.get("msgInCounter") == 3 and failing["subscriptions"]["work"]["msgBacklog"] == 0

    def begin(self) -> None:
        self.subscription_without_consumer(PLACED, "audit")
        billing = self.consumer(PLACED, "billing", consumer_name="biller", receiver_queue_size=QUEUE)
        placed = self.producer(PLACED, producer_name="shop")
        self.send(placed, PLACED, 40)
        self.receive(billing, (PLACED, "billing"), 40, 25)

        self.subscription_without_consumer(PARTS, "all")
        self.producers[PARTS] = 1  # and one more for the second partition
        self.send(self.producer(PARTS, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution), PARTS, 10)

        policy = pulsar.ConsumerDeadLetterPolicy(1, LETTERS, "letters")
        failing = self.consumer(FAILING, "work", negative_ack_redelivery_delay_ms=100, dead_letter_policy=policy)
        self.send(self.producer(FAILING), FAILING, 3)
        for _ in range(6):
            failing.negative_acknowledge(failing.receive(RECEIVE_MS))
        eventually_sync(self._letters_moved, timeout_s=60)  # which the client does when they come for the third time
        self.received[FAILING, "work"], self.acknowledged[FAILING, "work"] = 6, 3  # the client acknowledges what it moves
        self.producers[LETTERS], self.sent[LETTERS] = 1, 3

        self.subscription_without_consumer(JOBS, "runner")
        self.send(self.producer(JOBS), JOBS, 4, deliver_after=timedelta(hours=20))

        self.producer(TYPED, schema=JsonSchema(Order)).send(Order(number="4711"))
        self.sent[TYPED] += 1
        self.done_s = time.time()
        self._begin_steady()

    def _begin_steady(self) -> None:
        consumer = self.consumer(STEADY, "keeps-up")
        producer = self.producer(STEADY, send_timeout_millis=0)

        def publish() -> None:
            while not self._stopping.wait(PAUSE_S):
                with contextlib.suppress(pulsar.PulsarException):
                    producer.send(b"x" * PAYLOAD_BYTES)
                    self.sent[STEADY] += 1

        def take() -> None:
            while not self._stopping.is_set():
                with contextlib.suppress(pulsar.PulsarException):
                    consumer.acknowledge(consumer.receive(500))
                    self.acknowledged[STEADY, "keeps-up"] += 1

        self._steady = [threading.Thread(target=publish), threading.Thread(target=take)]
        for thread in self._steady:
            thread.start()

    def end(self) -> None:
        self._stopping.set()
        for thread in self._steady:
            thread.join(20)

    # --- what follows from it

    def backlog(self, topic: str, subscription: str) -> int:
        return self.sent[topic] - self.acknowledged[topic, subscription]

    def left_over(self, topic: str) -> int:
        """What waits in a topic that has no subscription of ours: dead letters, in the one that comes with them."""
        return 3 if topic == LETTERS else 0

    def subscriptions(self, topic: str) -> int:
        return {PLACED: 2, TYPED: 0}.get(topic, 1)

    def connected(self, where: tuple[str, str]) -> int:
        return 0 if where[1] in ("audit", "all", "runner") else 1

    def address(self, topic: str) -> str:
        """Of its first message: ledger:entry."""
        return f"{self.ids[topic][0].ledger_id()}:{self.ids[topic][0].entry_id()}"

    def ledger(self, topic: str) -> str:
        return str(self.ids[topic][0].ledger_id())

    def in_partition(self, number: int) -> int:
        return sum(each.partition() == number for each in self.ids[PARTS])
