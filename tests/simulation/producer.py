"""A scripted producer: sends blocks of messages and batches, and keeps account of their receipts."""

from __future__ import annotations

from collections import deque

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.simulation.client import Client, World
from tests.simulation.entries import place_of
from tests.simulation.model import Chunk, Message
from tests.support.clients.chunking import chunk_frame
from tests.support.clients.raw_client import Received, batch_frame, send_frame

KEYS = 5  # of each topic


class ProducerClient(Client):
    """Numbers its messages over all its connections. Where the broker deduplicates, what has no receipt is sent again."""

    def __init__(self, world: World, name: str, topic: str) -> None:
        self._sent: dict[int, deque[tuple[list[str], bytes]]] = {}  # without a receipt, by sequence id: messages and frame
        self._number = 0
        super().__init__(world, name, topic)

    def _open(self) -> None:
        self.say(pb.Command.PRODUCER, producer=pb.Producer(topic=self.topic, producer_id=1, request_id=1, producer_name=self.name))

    def publish(self, sizes: list[int], padding_bytes: int = 0) -> None:
        """One write of several entries, of so many messages each."""
        data = b""
        for size in sizes:
            sequence_id = self._number
            key = f"key{self._number % KEYS}"
            texts, payloads = [], []
            for _ in range(size):
                texts.append(f"<{self.name}.{self._number}>")
                payloads.append(texts[-1].encode() + b"." * padding_bytes)
                self.world.checker.sent(Message(texts[-1], payloads[-1], self.name, self._number, self.topic, key=key))
                self._number += 1
            frame = send_frame(sequence_id, payloads[0], key=key) if size == 1 else batch_frame(sequence_id, payloads, key=key)
            data += self._keep(sequence_id, texts, frame)
        self._send(data)

    def publish_later(self, delays_ms: list[int]) -> None:
        """Messages for later delivery, or at once where that is 0."""
        data = b""
        for delay_ms in delays_ms:
            due_ms = self.world.checker.now_ms() + delay_ms if delay_ms else 0
            message = self._message(f"key{self._number % KEYS}", due_ms=due_ms)
            metadata = pb.Metadata(
                producer_name=self.name,
                sequence_id=message.number,
                publish_time=1_000,
                partition_key=message.key,
                deliver_at_time=due_ms,
            )
            if not due_ms:
                metadata.ClearField("deliver_at_time")
            frame = frames.build_send(1, message.number, metadata, message.payload)
            data += self._keep(message.number, [message.text], frame)
        self._send(data)

    def publish_chunks(self, count: int, padding_bytes: int, sent: int) -> None:
        """A message of so many chunks, of which it sends only the first `sent`."""
        sequence_id, data = self._number, b""
        whole, key = f"{self.name}/{sequence_id}", f"key{sequence_id % KEYS}"
        for number in range(sent):
            message = self._message(key, chunk=Chunk(whole, count), padding_bytes=padding_bytes)
            frame = chunk_frame(sequence_id, message.payload, number, count, uuid=whole, key=key)
            data += self._keep(sequence_id, [message.text], frame)
        self._number += count - sent
        self._send(data)

    def _message(self, key: str, *, chunk: Chunk | None = None, due_ms: int = 0, padding_bytes: int = 0) -> Message:
        text = f"<{self.name}.{self._number}>"
        payload = text.encode() + b"." * padding_bytes
        made = Message(text, payload, self.name, self._number, self.topic, key=key, chunk=chunk, due_ms=due_ms)
        self.world.checker.sent(made)
        self._number += 1
        return made

    def _keep(self, sequence_id: int, texts: list[str], frame: bytes) -> bytes:
        self._sent.setdefault(sequence_id, deque()).append((texts, frame))
        return frame

    def _send(self, data: bytes) -> None:
        assert self.link is not None
        self.link.send(data)

    def _written(self, received: Received) -> None:
        if received.name == "PRODUCER_SUCCESS" and not self.world.deduplicates:
            self._sent.clear()
        elif received.name == "SEND_RECEIPT":
            place = place_of(received.body.message_id)
            texts, _ = self._sent[received.body.sequence_id].popleft()
            if not self._sent[received.body.sequence_id]:
                del self._sent[received.body.sequence_id]
            self.world.note(f"receipt {' '.join(texts)} {place}")
            self.world.checker.receipted(texts, place)
        elif received.name == "SEND_ERROR":
            self.world.note(f"send error {received.body.sequence_id} {received.body.error}")
            self._sent.pop(received.body.sequence_id, None)
            self.world.checker.count("refused messages")
        elif received.name == "CLOSE_PRODUCER":
            self.world.note(f"{self.name} closed")
            self.world.checker.count("producers closed")
        elif received.name == "ERROR":
            self.world.note(f"{self.name} refused: {received.body.message}")
            self.world.checker.count("producers refused")

    def _send_again(self) -> None:
        if self._sent and self.link is not None:
            frames_again = [frame for waiting in self._sent.values() for _, frame in waiting]
            self.world.note(f"{self.name} sends {len(frames_again)} entries again")
            self.world.checker.count("entries sent again", len(frames_again))
            self.link.send(b"".join(frames_again))

    def _received(self, received: Received) -> None:
        if received.name == "PRODUCER_SUCCESS":
            self.ready = True
            self._send_again()
        elif received.name == "CLOSE_PRODUCER":
            self._closed()
        super()._received(received)
