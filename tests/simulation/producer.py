"""A scripted producer: sends blocks of messages and batches, and keeps account of their receipts."""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb
from tests.simulation.checker import Message
from tests.simulation.client import Client, World
from tests.simulation.entries import place_of
from tests.support.raw_client import Received, batch_frame, send_frame

KEYS = 5  # of each topic


class ProducerClient(Client):
    """Numbers its messages over all its connections. Where the broker deduplicates, what has no receipt is sent again."""

    def __init__(self, world: World, name: str, topic: str) -> None:
        self._sent: dict[int, tuple[list[str], bytes]] = {}  # without a receipt, by sequence id: the messages and the frame
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
            self._sent[sequence_id] = texts, frame
            data += frame
        assert self.link is not None
        self.link.send(data)

    def _written(self, one: Received) -> None:
        if one.name == "PRODUCER_SUCCESS" and not self.world.deduplicates:
            self._sent.clear()
        elif one.name == "SEND_RECEIPT":
            place = place_of(one.body.message_id)
            texts, _ = self._sent.pop(one.body.sequence_id)
            self.world.note(f"receipt {' '.join(texts)} {place}")
            self.world.checker.receipted(texts, place)
        elif one.name == "SEND_ERROR":
            self.world.note(f"send error {one.body.sequence_id} {one.body.error}")
            self._sent.pop(one.body.sequence_id, None)
            self.world.checker.count("refused messages")
        elif one.name == "CLOSE_PRODUCER":
            self.world.note(f"{self.name} closed")
            self.world.checker.count("producers closed")
        elif one.name == "ERROR":
            self.world.note(f"{self.name} refused: {one.body.message}")
            self.world.checker.count("producers refused")

    def _send_again(self) -> None:
        if self._sent and self.link is not None:
            self.world.note(f"{self.name} sends {len(self._sent)} entries again")
            self.world.checker.count("entries sent again", len(self._sent))
            self.link.send(b"".join(frame for _, frame in self._sent.values()))

    def _received(self, one: Received) -> None:
        if one.name == "PRODUCER_SUCCESS":
            self.ready = True
            self._send_again()
        elif one.name == "CLOSE_PRODUCER":
            self._closed()
        super()._received(one)
