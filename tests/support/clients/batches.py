"""Batches as a producer packs them, and as a hostile one would, stored as if they had come over the binary protocol."""

from __future__ import annotations

import asyncio

from messaging.broker.core.producers.producer import Producer
from messaging.broker.runtime.broker import Broker
from messaging.protocol import hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import compress
from messaging.protocol.frames import build_send
from messaging.protocol.hot import SendFrame
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import Position
from tests.support.clients.producer_sink import ProducerEnd


class _Receipts(ProducerEnd):
    def __init__(self) -> None:
        super().__init__()
        self.first: asyncio.Future[Position] = asyncio.get_running_loop().create_future()

    def receipts(self, producer: Producer, sent: list[SendFrame], first: Position) -> None:
        self.first.set_result(first)


def single(payload: bytes, *, null_value: bool = False) -> bytes:
    head = pb.SingleMetadata(payload_size=len(payload), null_value=null_value or None).SerializeToString()
    return len(head).to_bytes(4, "big") + head + payload


async def store(
    service: Broker,
    topic_text: str,
    body: bytes,
    messages: int,
    *,
    compression: int = pb.NONE,
    declared_bytes: int | None = None,
) -> Position:
    """Stores `body` as a batch of `messages`; `declared_bytes` is what it says to have uncompressed, if not the truth."""
    metadata = pb.Metadata(
        producer_name="batcher",
        sequence_id=0,
        publish_time=1,
        num_messages_in_batch=messages,
        compression=compression,  # type: ignore[arg-type]
        uncompressed_size=len(body) if declared_bytes is None else declared_bytes,
    )
    frame = build_send(0, 0, metadata, compress(compression, body), messages)
    return await store_frame(service, topic_text, frame)


async def store_frame(service: Broker, topic_text: str, frame: bytes) -> Position:
    """Stores a SEND as it is."""
    sent: list[SendFrame] = []
    assert hot.scan(frame, 0, len(frame), sent) == len(frame)
    topic = await service.topics.get(parse_topic(topic_text), create=True)
    await topic.ledger.writable()
    receipts = _Receipts()
    topic.publisher.publish(Producer(0, "batcher", receipts), frame, sent, hot.summarize(sent))
    return await receipts.first
