"""Messages by the SDK. Everything that the command line needs of it is here."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal

from messaging import client as magnetar
from messaging.times import time_text

Kind = Literal["exclusive", "shared", "failover"]


def produce(url: str, token: str, topic: str, lines: Iterator[str], key: str | None, properties: dict[str, str]) -> Iterator[str]:
    """The ids of the messages, each when it is stored."""

    async def ids() -> AsyncIterator[str]:
        async with magnetar.connect(url, token or None) as client, client.producer(topic) as producer:
            for line in lines:
                yield _id(await producer.send(line.encode(), key=key, properties=properties))

    return _each(ids)


def consume(
    url: str,
    token: str,
    topic: str,
    subscription: str,
    count: int | None,
    timeout_s: float | None,
    position: Literal["earliest", "latest"],
    kind: Kind,
) -> Iterator[dict[str, Any]]:
    """Messages; each is acknowledged when the next one is asked for."""

    async def messages() -> AsyncIterator[dict[str, Any]]:
        opening = magnetar.connect(url, token or None)
        async with opening as client, client.consumer(topic, subscription, kind=kind, initial=position) as consumer:
            received = 0
            while count is None or received < count:
                try:
                    message = await consumer.receive(timeout_s)
                except magnetar.errors.ReceiveTimedOut:
                    return
                received += 1
                yield _shown(message)
                await consumer.ack(message)

    return _each(messages)


def tail(url: str, token: str, topic: str, count: int | None) -> Iterator[dict[str, Any]]:
    """Messages as they are published from now on, pushed by the broker to a reader, in the shape of /api/v1."""

    async def messages() -> AsyncIterator[dict[str, Any]]:
        async with magnetar.connect(url, token or None) as client, client.reader(topic, magnetar.LATEST) as reader:
            received = 0
            while count is None or received < count:
                message = await reader.read()
                received += 1
                yield {**_shown(message), "headers": _headers(message)}

    return _each(messages)


def _headers(message: magnetar.Message) -> dict[str, str]:
    key = message.key.decode("utf-8", "replace") if isinstance(message.key, bytes) else message.key
    headers = {"X-Pulsar-publish-time": time_text(message.publish_time_ms)}
    return headers | ({} if key is None else {"X-Pulsar-partition-key": key})


def _id(message_id: magnetar.MessageId) -> str:
    """As /api/v1 writes it."""
    return f"{message_id.ledger_id}:{message_id.entry_id}:{message_id.partition}:{message_id.batch_index}"


def _shown(message: magnetar.Message) -> dict[str, Any]:
    payload = bytes(message.payload)
    try:
        text: str | None = payload.decode()
    except UnicodeDecodeError:
        text = None
    return {
        "message_id": _id(message.id),
        "key": base64.b64encode(message.key).decode() if isinstance(message.key, bytes) else message.key,
        "properties": dict(message.properties),
        "text": text,
        "payload_base64": base64.b64encode(payload).decode(),
    }


def _each(make: Callable[[], AsyncIterator[Any]]) -> Iterator[Any]:
    """An asynchronous iterator as a plain one; what it holds is closed with it."""
    with asyncio.Runner() as runner:
        items = make()
        try:
            while True:
                try:
                    yield runner.run(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            runner.run(items.aclose())  # type: ignore[attr-defined]


async def _next(items: AsyncIterator[Any]) -> Any:
    return await anext(items)
