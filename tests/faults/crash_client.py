"""One connection of the binary protocol for the crash campaign: sends, receives and acknowledges, and writes down what it was told.

What counts is what an answer said: a receipt, or the answer to an acknowledgement. The rest may or may not have happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send, command, decode, parse_stored
from tests.benchmarks import wire

IN_FLIGHT_MAX = 200
PERMITS = 200  # as many as are on the way in: a backlog of earlier lives must not keep the producers from their turn
PRODUCER_REQUEST = 2  # of `wire.producer`
AGAIN_S = 0.02  # after a producer was refused
Id = tuple[int, int]  # ledger, entry


@dataclass
class TenantRef:
    """What all lives of the broker together promised."""

    receipts: dict[Id, int] = field(default_factory=dict)  # id -> number of the message stored there
    acknowledged: set[Id] = field(default_factory=set)  # answered
    seen: dict[Id, int] = field(default_factory=dict)  # id -> number, as delivered
    faults: list[str] = field(default_factory=list)
    next_number: int = 0
    may_refuse: bool = False  # the disk is full, or topics are unloaded: who is refused comes back

    def note(self, where: dict[Id, int], message_id: Id, number: int, what: str) -> None:
        for table in (self.receipts, self.seen):
            if table.get(message_id, number) != number:
                self.faults.append(f"{what} of message {number} at {message_id}, which was message {table[message_id]}")
        where[message_id] = number


class CrashClient:
    """Publishes without pause, consumes Shared, and acknowledges a random share. Ends when the broker does."""

    def __init__(self, told: TenantRef, topic: str, chance: random.Random, *, publish: bool = True) -> None:
        self.told = told
        self.topic = topic
        self.chance = chance
        self.publish = publish
        self.delivered: list[Id] = []
        self.idle = asyncio.Event()
        self._sent: dict[int, int] = {}  # sequence id -> number
        self._acknowledging: dict[int, Id] = {}  # request id -> id
        self._sequence = 0
        self._request = 100
        self._produces = False
        self._writer: asyncio.StreamWriter

    async def run(self, host: str, port: int) -> None:
        reader, self._writer = await asyncio.open_connection(host, port)
        try:
            self._write(wire.connect())
            buffer = bytearray()
            while data := await reader.read(1 << 18):
                buffer += data
                for kind, frame in wire.split(buffer):
                    self._take(kind, frame)
        except OSError:
            pass
        finally:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()

    def _take(self, kind: int, frame: memoryview) -> None:
        answer = decode(frame)
        if kind == wire.CONNECTED:
            self._write(wire.subscribe(self.topic))
        elif kind == wire.SUCCESS:
            self._write(wire.flow(PERMITS if self.publish else 1_000_000))
            if self.publish and not self._produces:
                self._produces = True
                self._write(wire.producer(self.topic))
        elif kind == wire.PRODUCER_SUCCESS:
            self._send()
        elif kind == wire.SEND_RECEIPT:
            receipt = answer.send_receipt
            number = self._sent.pop(receipt.sequence_id, None)
            if number is None:  # of before the producer was opened again
                return
            self.told.note(self.told.receipts, (receipt.message_id.ledger_id, receipt.message_id.entry_id), number, "receipt")
            if len(self._sent) < IN_FLIGHT_MAX // 2:
                self._send()
        elif kind == wire.MESSAGE:
            self._receive(answer.message, frame)
        elif kind == pb.Command.ACK_RESPONSE:
            message_id = self._acknowledging.pop(answer.ack_response.request_id)
            if not answer.ack_response.HasField("error"):
                self.told.acknowledged.add(message_id)
        elif kind == pb.Command.CLOSE_CONSUMER:  # the topic is loaded anew; acknowledgements may still be answered
            self._subscribe_again()
        elif kind == pb.Command.CLOSE_PRODUCER:
            self._open_again()
        elif kind == wire.PING:
            self._write(command(pb.Command.PONG, pong=pb.Pong()))
        elif kind == wire.ERROR and self.told.may_refuse:
            again = self._open_again if answer.error.request_id == PRODUCER_REQUEST else self._subscribe_again
            asyncio.get_running_loop().call_later(AGAIN_S, again)
        elif kind in (wire.ERROR, wire.SEND_ERROR):
            self.told.faults.append(str(answer))

    def _subscribe_again(self) -> None:
        self._write(wire.subscribe(self.topic))

    def _open_again(self) -> None:
        """Its messages without a receipt may be stored or not. Their numbers are not used again."""
        self._sent.clear()
        self._write(wire.producer(self.topic))

    def _send(self) -> None:
        """As many as fit in flight, in one write."""
        frames = []
        while len(self._sent) < IN_FLIGHT_MAX:
            number, self.told.next_number = self.told.next_number, self.told.next_number + 1
            self._sent[self._sequence] = number
            metadata = pb.Metadata(producer_name="crash", sequence_id=self._sequence, publish_time=1)
            frames.append(build_send(1, self._sequence, metadata, b"%d" % number + b"." * self.chance.choice((0, 10, 100, 3000))))
            self._sequence += 1
        self._write(b"".join(frames))

    def _receive(self, message: pb.Message, frame: memoryview) -> None:
        message_id = (message.message_id.ledger_id, message.message_id.entry_id)
        size = int.from_bytes(frame[:4], "big")
        number = int(parse_stored(frame[4 + size :]).payload.rstrip(b"."))
        if message_id in self.told.acknowledged:
            self.told.faults.append(f"message {number} at {message_id} came again after its acknowledgement was answered")
        self.told.note(self.told.seen, message_id, number, "delivery")
        self.delivered.append(message_id)
        if self.publish and len(self.delivered) % (PERMITS // 2) == 0:
            self._write(wire.flow(PERMITS // 2))
        self.idle.set()
        if self.publish and self.chance.random() < 0.7:
            self._request += 1
            self._acknowledging[self._request] = message_id
            acked_id = pb.MessageId(ledger_id=message_id[0], entry_id=message_id[1])
            ack = pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=[acked_id], request_id=self._request)
            self._write(command(pb.Command.ACK, ack=ack))

    def _write(self, data: bytes) -> None:
        if not self._writer.transport.is_closing():
            self._writer.write(data)

    def close(self) -> None:
        self._writer.close()
