"""Publishers with Apache's client for Python, which sends again by itself, and consumers with the SDK, which acknowledge with
receipts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable

import pulsar

from messaging.client import EARLIEST, Client, Message
from messaging.client import Consumer as Receiver
from messaging.errors import MagnetarError
from tests.compat.receipts import Deliveries, Receipts, Sent

KEYS = 5
PAUSE_S = 0.1
ACKNOWLEDGED_AT_ONCE = 100
WAITING_MAX = 50  # messages without a receipt, of a topic
READ_AT_ONCE = 1_000
AGAIN_S = 0.5


class Publisher(Receipts):
    """To one topic, until it is closed. On topics that are not persistent one message waits for its receipt at a time: else one
    that is sent again may come after its successor, which is nobody's fault."""

    def __init__(self, client: pulsar.Client, topic: str, pause_s: float = PAUSE_S) -> None:
        super().__init__(topic)
        self._pause_s = pause_s
        self._name = topic.rpartition("/")[2]
        self._producer = client.create_producer(
            topic, "campaign", send_timeout_millis=0, batching_enabled=self.persistent, batching_max_publish_delay_ms=5
        )
        self._room = threading.Semaphore(WAITING_MAX if self.persistent else 1)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._closed.is_set():
            if not self._room.acquire(timeout=0.2):
                continue
            sent = Sent(f"{self._name}-k{number % KEYS}", number)
            self._producer.send_async(sent.payload, self._answer(sent, time.monotonic()), partition_key=sent.key)
            number += 1
            self._closed.wait(self._pause_s)  # an application with something else to do

    def _answer(self, sent: Sent, published_s: float) -> Callable[[pulsar.Result, object], None]:
        def answered(result: pulsar.Result, message_id: object) -> None:
            if result == pulsar.Result.Ok:
                self.receipt(sent, published_s)
            else:
                self.refused(sent, result)
            self._room.release()

        return answered

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._producer.flush()
        self._producer.close()


class Consumer(Deliveries):
    """Of one topic, of the SDK, on a loop of its own."""

    def __init__(self, client: Client, topic: str) -> None:
        super().__init__(topic, "work")
        self._client = client
        self._room = asyncio.Semaphore(ACKNOWLEDGED_AT_ONCE)
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with (
            self._client.consumer(
                self.topic,
                self.subscription,
                initial="earliest" if self.persistent else "latest",
                ack_receipts=self.persistent,
                kind="key_shared",
            ) as consumer,
            asyncio.TaskGroup() as acknowledging,
        ):
            while True:
                message = await consumer.receive()
                if self.came(message.id.text, message.payload):
                    await self._room.acquire()
                    acknowledging.create_task(self._acknowledge(consumer, message))

    async def _acknowledge(self, consumer: Receiver, message: Message) -> None:
        """Until it is answered, unless the broker is not told: then it comes again."""
        try:
            while True:
                try:
                    told = await consumer.ack(message)
                    break
                except MagnetarError:
                    await asyncio.wait([self.task], timeout=AGAIN_S)
            if told and self.persistent:
                self.was_acknowledged(message.id.text)
        finally:
            self._room.release()


async def messages(client: Client, topic: str) -> AsyncIterator[Message]:
    """All that are there, while nobody publishes."""
    async with client.reader(topic, EARLIEST) as reader:
        while await reader.has_message():
            for _ in range(READ_AT_ONCE):  # asking costs a round trip
                try:
                    yield await reader.read(timeout_s=0.3)
                except TimeoutError:
                    break
