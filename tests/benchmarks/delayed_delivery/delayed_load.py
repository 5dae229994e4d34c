"""Publishes delayed messages below the socket, in blocks as large as one read of a fast connection."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from messaging.broker.core.producers.producer import Producer
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import frames, hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.hot import SendFrame
from tests.support.clients.producer_sink import ProducerEnd

BLOCK = 1000  # messages in one read of a socket
IN_FLIGHT = 16  # blocks
PAYLOAD = b"0123456789abcdef"


class Blocks:
    """SEND frames of `BLOCK` messages without a checksum, in one buffer, whose delivery times are written over."""

    def __init__(self, *, delayed: bool) -> None:
        at_ms = 1_790_000_000_000
        metadata = pb.Metadata(producer_name="load", sequence_id=0, publish_time=at_ms)
        if delayed:
            metadata.deliver_at_time = at_ms
        frame = frames.build_send(1, 1, metadata, PAYLOAD)
        size = int.from_bytes(frame[4:8], "big")
        body = frame[8 + size + 6 :]
        rest = frame[4 : 8 + size] + body
        frame = len(rest).to_bytes(4, "big") + rest
        self._octets = np.tile(np.frombuffer(frame, np.uint8), (BLOCK, 1))
        self._at = frame.rindex(_varint(at_ms)) if delayed else -1

    def made(self, times: NDArray[np.int64]) -> bytes:
        if self._at >= 0:
            for index in range(6):
                more = 0x80 if index < 5 else 0
                self._octets[:, self._at + index] = ((times >> (7 * index)) & 0x7F) | more
        return self._octets.tobytes()

    def times(self, data: bytes | memoryview) -> NDArray[np.int64]:
        """Of whole frames."""
        octets = np.frombuffer(data, np.uint8).reshape(-1, self._octets.shape[1])[:, self._at : self._at + 6].astype(np.int64)
        return np.sum([(octets[:, index] & 0x7F) << (7 * index) for index in range(6)], axis=0, dtype=np.int64)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))


class Publishing:
    def __init__(self, topic: Topic, *, delayed: bool) -> None:
        self.topic = topic
        self.producer = Producer(1, "load", ProducerEnd())
        topic.producers.attach(self.producer)
        self.blocks = Blocks(delayed=delayed)
        self._count = 0

    def publish(self, times: NDArray[np.int64]) -> None:
        buf = self.blocks.made(times)
        sent: list[SendFrame] = []
        hot.scan(buf, 0, len(buf), sent)
        self.topic.publisher.publish(self.producer, buf, sent, hot.summarize(sent))
        self._count += 1

    async def pause(self) -> None:
        if self._count % IN_FLIGHT == 0:
            await self.topic.publisher.wait_for_pending()
        else:
            await asyncio.sleep(0)
