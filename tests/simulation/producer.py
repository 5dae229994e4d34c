"""A scripted producer: sends blocks of messages and batches, and keeps account of their receipts."""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb
from tests.simulation.checker import Message
from tests.simulation.client import Client, World
from tests.support.raw_client import Received, batch_frame, send_frame


class ProducerClient(Client):
    """Numbers its messages over all its connections; one sent again would be another message."""

    def __init__(self, world: World, name: str, topic: str) -> None:
        self._sent: dict[int, list[str]] = {}  # without a receipt, by sequence id
        self._number = 0
        super().__init__(world, name, topic)

    def _open(self) -> None:
        self.say(pb.Command.PRODUCER, producer=pb.Producer(topic=self.topic, producer_id=1, request_id=1, producer_name=self.name))

    def publish(self, sizes: list[int], padding_bytes: int = 0) -> None:
        """One write of several entries, of so many messages each."""
        data = b""
        for size in sizes:
            entry = []
            sequence_id = self._number
            payloads = []
            for _ in range(size):
                text = f"<{self.name}.{self._number}>"
                payloads.append(text.encode() + b"." * padding_bytes)
                self.world.checker.sent(Message(text, payloads[-1], self.name, self._number, self.topic))
                self._number += 1
                entry.append(text)
            data += send_frame(sequence_id, payloads[0]) if size == 1 else batch_frame(sequence_id, payloads)
            self._sent[sequence_id] = entry
        assert self.link is not None
        self.link.send(data)

    def _written(self, one: Received) -> None:
        if one.name == "PRODUCER_SUCCESS":
            self._sent.clear()
        elif one.name == "SEND_RECEIPT":
            place = (one.body.message_id.ledger_id, one.body.message_id.entry_id)
            texts = self._sent.pop(one.body.sequence_id)
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

    def _received(self, one: Received) -> None:
        if one.name == "PRODUCER_SUCCESS":
            self.ready = True
        elif one.name == "CLOSE_PRODUCER":
            self._closed()
        super()._received(one)
