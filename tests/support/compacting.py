"""Publishing keyed messages, compacting, and reading what is left: what tests of compaction share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from messaging.adminrpc.base import Method
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import compress, parts, unpack
from messaging.protocol.frames import build_send, parse_stored
from messaging.protocol.names import parse_topic
from messaging.settings import Settings
from messaging.storage.ledger_store import EARLIEST, Position
from tests.support.clients.batches import store_frame
from tests.support.waiting import eventually
from workers.compaction import compact_topic
from workers.environment import Environment

TOPIC = "persistent://acme/orders/t"
Keyed = tuple[str | None, bytes]  # key and value


class Seen(NamedTuple):
    position: Position
    batch_index: int
    key: str | None
    value: bytes


def keyed(key: str | None, value: bytes, number: int = 0, **fields: object) -> bytes:
    """A message by itself."""
    metadata = pb.Metadata(producer_name="p", sequence_id=number, publish_time=1, partition_key=key, **fields)  # type: ignore[arg-type]
    return build_send(1, number, metadata, value)


def batch(messages: Sequence[Keyed], *, compression: int = pb.NONE, encrypted: bool = False) -> bytes:
    body = b""
    for key, value in messages:
        head = pb.SingleMetadata(payload_size=len(value), partition_key=key).SerializeToString()
        body += len(head).to_bytes(4, "big") + head + value
    metadata = pb.Metadata(
        producer_name="p",
        sequence_id=0,
        publish_time=1,
        num_messages_in_batch=len(messages),
        compression=compression,  # type: ignore[arg-type]
        uncompressed_size=len(body),
    )
    if encrypted:
        metadata.encryption_keys.add(key="k", value=b"v")
    return build_send(1, 0, metadata, compress(compression, body), len(messages))


def messages_of(block: EntryBlock, entry_id: int) -> list[Seen]:
    """What a client makes of an entry: without the messages that are compacted out."""
    stored, position = parse_stored(block.payload(entry_id)), Position(block.ledger_id, entry_id)
    metadata = stored.metadata
    if not metadata.HasField("num_messages_in_batch") or metadata.encryption_keys:
        return [Seen(position, -1, metadata.partition_key if metadata.HasField("partition_key") else None, stored.payload)]
    unpacked = parts(stored, unpack(stored, 1 << 20))
    return [
        Seen(position, index, metadata.partition_key if metadata.HasField("partition_key") else None, payload)
        for index, metadata, payload in unpacked
        if not metadata.compacted_out
    ]


@dataclass
class Reading:
    """A consumer of the compacted topic that takes everything."""

    seen: list[Seen] = field(default_factory=list)
    entries: list[Position] = field(default_factory=list)
    closes: int = 0
    writable = True

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, redelivery_counts: list[int] | None) -> int:
        for index in range(first, last):
            self.entries.append(Position(block.ledger_id, block.first_entry + index))
            self.seen += messages_of(block, block.first_entry + index)
        return block.bytes_in(first, last)

    def deliver_picked(self, consumer: Consumer, block: EntryBlock, picked: list[int], redelivery_counts: list[int] | None) -> int:
        raise AssertionError("one consumer is sent everything")

    def active_changed(self, consumer: Consumer, active: bool) -> None: ...

    def end_of_topic(self, consumer: Consumer) -> None: ...

    def closed(self, consumer: Consumer) -> None:
        self.closes += 1


async def topic_of(service: Broker, text: str = TOPIC) -> Topic:
    return await service.topics.get(parse_topic(text), create=True)


async def publish(service: Broker, *frames: bytes, topic: str = TOPIC) -> list[Position]:
    return [await store_frame(service, topic, frame) for frame in frames]


async def read_all(
    service: Broker, *, topic: str = TOPIC, start: Position = EARLIEST, compacted: bool = True, permits: int = 100_000
) -> list[Seen]:
    """What a new reader is sent until nothing is left."""
    loaded = await topic_of(service, topic)
    reading = Reading()
    subscription = loaded.subscriptions.create_reader("reader", start)
    consumer = Consumer(1, "reader", reading)
    consumer.read_compacted = compacted
    loaded.consumers.attach(subscription, consumer, SubscriptionType.EXCLUSIVE)
    loaded.consumers.flow(subscription, consumer, permits)
    await eventually(lambda: subscription.next_due() is None)
    loaded.consumers.detach(subscription, consumer)
    return reading.seen


class Killed(Exception):
    """The worker ended in the middle."""


class LoopCalls:
    """The admin RPC of a broker in the loop of a test, for workers in other threads. `before_call` may raise."""

    def __init__(self, service: Broker) -> None:
        from messaging.broker.runtime.admin.handlers import AdminHandlers

        self._methods = AdminHandlers(service).methods
        self._loop = asyncio.get_running_loop()
        self.before_call: Callable[[str], None] = lambda method: None

    def call(self, method: Method[Any, Any], request: object) -> object:
        self.before_call(method.name)
        return asyncio.run_coroutine_threadsafe(self._answer(method.name, request), self._loop).result(30)

    async def _answer(self, method: str, request: object) -> object:
        return await self._methods[method](request)


async def compact(service: Broker, folder: Path, *, topic: str = TOPIC, calls: LoopCalls | None = None, **settings: object) -> int:
    """Runs the worker's part in a thread. Returns how many messages were removed."""
    environment = Environment(Settings(data_dir=str(folder), **settings), calls or LoopCalls(service), threading.Event())  # type: ignore[arg-type]
    return await asyncio.to_thread(compact_topic, environment, topic, "task", lambda: None)
