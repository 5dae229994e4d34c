"""Apache's own client (pulsar-client from PyPI), opened as its users open it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulsar

RECEIVE_MS = 30_000  # only a test that fails waits that long


class Stock:
    def __init__(self, url: str, log_file: Path) -> None:
        self.url = url
        self._logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(log_file))
        self._clients: list[pulsar.Client] = []

    def client(self, token: str | None = None, **options: Any) -> pulsar.Client:
        """A client with a token, or an anonymous one."""
        authentication = None if token is None else pulsar.AuthenticationToken(token)
        options = {"operation_timeout_seconds": 60, **options}
        client = pulsar.Client(options.pop("url", self.url), authentication, logger=self._logger, **options)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            try:
                client.close()
            except pulsar.PulsarException:
                pass  # the test closed it, or broke its broker


def receive(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    """`count` messages, acknowledged. Raises `pulsar.Timeout` when they do not come."""
    messages = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_MS)
        consumer.acknowledge(message)
        messages.append(message)
    return messages


def nothing_more(consumer: pulsar.Consumer, wait_ms: int = 700) -> bool:
    try:
        message = consumer.receive(wait_ms)
    except pulsar.Timeout:
        return True
    raise AssertionError(f"unexpected message {message.data()!r}")


def published(client: pulsar.Client, topic: str, numbers: range, **options: Any) -> list[pulsar.MessageId]:
    producer = client.create_producer(topic, **options)
    ids = [producer.send(b"%d" % number) for number in numbers]
    producer.close()
    return ids


def batched(client: pulsar.Client, topic: str, numbers: range) -> list[pulsar.MessageId]:
    """As one batch."""
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000, batching_max_messages=len(numbers)
    )
    ids: list[pulsar.MessageId] = []
    for number in numbers:
        producer.send_async(b"%d" % number, lambda result, message_id: ids.append(message_id))
    producer.flush()
    producer.close()
    return ids


def read_all(reader: pulsar.Reader) -> list[int]:
    seen = []
    while reader.has_message_available():
        seen.append(int(reader.read_next(RECEIVE_MS).data()))
    return seen


def numbers_of(consumer: pulsar.Consumer, expected: int) -> list[int]:
    return [int(message.data()) for message in receive(consumer, expected)]
