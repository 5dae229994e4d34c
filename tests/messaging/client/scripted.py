"""A broker that a test moves by hand: it opens what is asked for, keeps what is sent, and answers when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from messaging.client.addresses import Address
from messaging.client.client import Client, connect
from messaging.client.failures import Unreachable
from messaging.client.timing import Timing
from messaging.client.wire.parser import Parser, Received
from messaging.client.wire.transports import Receiver, Transport
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

Command = pb.Command


class ManualTime:
    """Stands still; what sleeps waits until the test moves it on."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.sleeping: list[tuple[float, asyncio.Future[None]]] = []

    async def sleep(self, delay_s: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleeping.append((self.now_s + delay_s, future))
        await future

    def move(self, delay_s: float) -> None:
        self.now_s += delay_s
        for due_s, future in self.sleeping:
            if due_s <= self.now_s and not future.done():
                future.set_result(None)

    def timing(self) -> Timing:
        return Timing(lambda: self.now_s, lambda: 1_700_000_000_000, self.sleep, lambda: 0.0)


@dataclass
class ScriptedConnection:
    broker: ScriptedBroker
    receiver: Receiver
    parser: Parser = field(default_factory=lambda: Parser(5 << 20))
    sent: list[Received] = field(default_factory=list)  # SEND frames
    open: bool = True

    def write(self, data: bytes) -> None:
        for event in self.parser.receive(data):
            self._answer(event)

    def close(self) -> None:
        self.lose("closed by the client")

    def abort(self) -> None:
        self.lose("aborted by the client")

    def lose(self, reason: str = "broken") -> None:
        if self.open:
            self.open = False
            asyncio.get_running_loop().call_soon(self.receiver.lost, reason)

    def say(self, data: bytes) -> None:
        if self.open:
            asyncio.get_running_loop().call_soon(self.receiver.received, data)

    def receipt(self, index: int) -> None:
        """For the SEND frame that came as number `index`."""
        send = self.sent[index].command.send
        stored = pb.MessageId(ledger_id=1, entry_id=index)
        receipt = pb.SendReceipt(producer_id=send.producer_id, sequence_id=send.sequence_id, message_id=stored)
        self.say(frames.command(Command.SEND_RECEIPT, send_receipt=receipt))

    def _answer(self, event: Received) -> None:
        command, kind = event.command, event.command.type
        self.broker.commands.append(Command.Type.Name(kind))
        if kind in self.broker.answers:
            said = self.broker.answers[kind](command)
            if said is not None:
                self.say(said)
            return
        if kind == Command.SEND:
            self.sent.append(event)
            if self.broker.answers_sends:
                self.receipt(len(self.sent) - 1)
        elif kind == Command.CONNECT:
            self.broker.targets.append(command.connect.proxy_to_broker_url)
            self.say(frames.command(Command.CONNECTED, connected=pb.Connected(server_version="scripted", max_message_size=100_000)))
        elif kind == Command.PARTITIONED_METADATA:
            answer = pb.PartitionedMetadataResponse(
                request_id=command.partitioned_metadata.request_id, partitions=self.broker.partitions
            )
            self.say(frames.command(Command.PARTITIONED_METADATA_RESPONSE, partitioned_metadata_response=answer))
        elif kind == Command.LOOKUP:
            where = self.broker.lookup(command.lookup)
            where.request_id = command.lookup.request_id
            self.say(frames.command(Command.LOOKUP_RESPONSE, lookup_response=where))
        elif kind == Command.PRODUCER:
            refusal = self.broker.refuses(command.producer)
            if refusal is not None:
                self.say(frames.error(command.producer.request_id, *refusal))
                return
            success = pb.ProducerSuccess(
                request_id=command.producer.request_id, producer_name=command.producer.producer_name or "made"
            )
            self.say(frames.command(Command.PRODUCER_SUCCESS, producer_success=success))
        elif kind == Command.SUBSCRIBE:
            self.broker.consumers.append((self, command.subscribe))
            self.say(frames.success(command.subscribe.request_id))
        elif kind == Command.ACK:
            self.broker.acks.append(command.ack)
        elif kind in (Command.CLOSE_PRODUCER, Command.CLOSE_CONSUMER, Command.SEEK):
            self.say(frames.success(getattr(command, Command.Type.Name(kind).lower()).request_id))


def _nothing_to_refuse(producer: pb.Producer) -> tuple[int, str] | None:
    return None


def _here(lookup: pb.Lookup) -> pb.LookupResponse:
    return pb.LookupResponse(request_id=0, response=pb.LookupResponse.Connect, broker_service_url="pulsar://scripted:1")


class ScriptedBroker:
    """`refuses` gives the error of a PRODUCER command, `lookup` the answer of a lookup."""

    def __init__(self) -> None:
        self.time = ManualTime()
        self.connections: list[ScriptedConnection] = []
        self.addresses: list[Address] = []
        self.targets: list[str] = []  # of each connection: whom a proxy shall connect to
        self.commands: list[str] = []
        self.consumers: list[tuple[ScriptedConnection, pb.Subscribe]] = []
        self.acks: list[pb.Ack] = []
        self.partitions = 0
        self.answers_sends = False
        self.reachable = True
        self.answers: dict[int, Callable[[pb.Command], bytes | None]] = {}  # by type, in place of the usual ones; None: none
        self.refuses: Callable[[pb.Producer], tuple[int, str] | None] = _nothing_to_refuse
        self.lookup: Callable[[pb.Lookup], pb.LookupResponse] = _here

    async def connect(self, address: Address, receiver: Receiver) -> Transport:
        self.addresses.append(address)
        if not self.reachable:
            raise Unreachable(f"nothing at {address}")
        connection = ScriptedConnection(self, receiver)
        self.connections.append(connection)
        return connection

    def client(
        self, url: str = "pulsar://scripted:1", *, memory_bytes_max: int = 1 << 20, request_timeout_s: float = 30.0
    ) -> Client:
        return connect(
            url,
            transport=self.connect,
            timing=self.time.timing(),
            memory_bytes_max=memory_bytes_max,
            request_timeout_s=request_timeout_s,
        )

    @property
    def connection(self) -> ScriptedConnection:
        return self.connections[-1]

    @property
    def sequence_ids(self) -> list[int]:
        return [event.command.send.sequence_id for event in self.connection.sent]

    def payloads(self) -> list[bytes]:
        """Of messages that were sent alone."""
        return [frames.parse_stored(event.rest).payload for event in self.connection.sent]

    def properties(self) -> list[dict[str, str]]:
        """Of messages that were sent alone."""
        sent = [frames.parse_stored(event.rest).metadata for event in self.connection.sent]
        return [{pair.key: pair.value for pair in metadata.properties} for metadata in sent]
