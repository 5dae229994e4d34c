"""A broker as a model: a topic as a list, one subscription, connections that are late and break. Everything it sends or gets takes
the time that a seed says, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from messaging.client.addresses import Address
from messaging.client.consuming.acks import bits_of
from messaging.client.failures import Unreachable
from messaging.client.wire.parser import Parser, Received
from messaging.client.wire.transports import Receiver, Transport
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import singles, unpack

Command = pb.Command
MESSAGE_BYTES_MAX = 100_000
LEDGER = 7


class Broken(AssertionError):
    """The SDK broke a promise, or a rule of the protocol."""


@dataclass
class Entry:
    """`unacked`: the numbers of messages by their index."""

    producer: str
    sequence_id: int
    numbers: list[int]
    stored: bytes
    unacked: set[int]
    redeliveries: int = 0
    owner: ModelConnection | None = None


@dataclass
class Consumer:
    connection: ModelConnection
    consumer_id: int
    permits: int = 0


class ModelConnection:
    """The transport that the SDK writes to. What is on its way when it breaks is gone."""

    def __init__(self, broker: ModelBroker, receiver: Receiver) -> None:
        self.broker = broker
        self.receiver = receiver
        self.open = True
        self.producers: dict[int, str] = {}
        self._parser = Parser(MESSAGE_BYTES_MAX)
        self._there_s = self._back_s = 0.0
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        for event in self._parser.receive(data):
            self._there_s = self._later(self._there_s, partial(self.broker.handle, self, event))

    def say(self, data: bytes) -> None:
        self._back_s = self._later(self._back_s, lambda: self.receiver.received(data))

    def _later(self, after_s: float, act: Callable[[], None]) -> float:
        due_s = max(after_s + 1e-6, self._loop.time() + self.broker.latency_s())  # timers of one time have no order
        self._loop.call_at(due_s, lambda: act() if self.open else None)
        return due_s

    def close(self) -> None:
        self.end("closed by the client")

    def abort(self) -> None:
        self.end("aborted by the client")

    def end(self, reason: str) -> None:
        if self.open:
            self.open = False
            self.broker.lost(self)
            self._loop.call_soon(self.receiver.lost, reason)


@dataclass
class ModelBroker:
    """`deduplicates`: what a producer of a name sends with a sequence id that was stored is not stored again. `away`: nothing
    answers."""

    random: Random
    deduplicates: bool
    slowest_s: float = 0.2
    away: bool = False
    refuses: int = 0  # so many openings
    log: list[Entry] = field(default_factory=list)
    connections: list[ModelConnection] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    opened: int = 0
    delivered: set[int] = field(default_factory=set)
    _acknowledged: asyncio.Event = field(default_factory=asyncio.Event)
    _highest: dict[str, int] = field(default_factory=dict)
    _sent: dict[tuple[ModelConnection, int], int] = field(default_factory=dict)

    def latency_s(self) -> float:
        return self.random.random() ** 3 * self.slowest_s

    async def connect(self, address: Address, receiver: Receiver) -> Transport:
        await asyncio.sleep(self.latency_s())
        if self.away:
            raise Unreachable("the broker is away")
        connection = ModelConnection(self, receiver)
        self.connections.append(connection)
        return connection

    async def all_acknowledged(self) -> None:
        """Returns when nothing that is stored is still to be acknowledged."""
        while any(entry.unacked for entry in self.log):
            self._acknowledged.clear()
            await self._acknowledged.wait()

    # --- what goes wrong

    def break_connections(self) -> None:
        for connection in list(self.connections):
            connection.end("broken")

    def close_endpoints(self) -> None:
        """As when a topic is unloaded: the connections stay."""
        for connection in self.connections:
            for producer_id in list(connection.producers):
                del connection.producers[producer_id]
                close = pb.CloseProducer(producer_id=producer_id, request_id=frames.UNSOLICITED)
                connection.say(frames.command(Command.CLOSE_PRODUCER, close_producer=close))
        for consumer in list(self.consumers):
            self._leave(consumer)
            closed = pb.CloseConsumer(consumer_id=consumer.consumer_id, request_id=frames.UNSOLICITED)
            consumer.connection.say(frames.command(Command.CLOSE_CONSUMER, close_consumer=closed))

    def lost(self, connection: ModelConnection) -> None:
        self.connections.remove(connection)
        for consumer in [each for each in self.consumers if each.connection is connection]:
            self._leave(consumer)

    def _leave(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        for entry in self.log:
            if entry.owner is consumer.connection:
                entry.owner = None
                entry.redeliveries += 1

    # --- commands

    def handle(self, connection: ModelConnection, event: Received) -> None:
        command = event.command
        name = Command.Type.Name(command.type).lower()
        act = getattr(self, f"_{name}", None)
        if act is None:
            raise Broken(f"the model has no answer to {name}")
        act(connection, getattr(command, name), event.rest)

    def _connect(self, connection: ModelConnection, body: pb.Connect, rest: bytes) -> None:
        connected = pb.Connected(server_version="model", max_message_size=MESSAGE_BYTES_MAX)
        connection.say(frames.command(Command.CONNECTED, connected=connected))

    def _ping(self, connection: ModelConnection, body: pb.Ping, rest: bytes) -> None:
        connection.say(frames.PONG)

    def _partitioned_metadata(self, connection: ModelConnection, body: pb.PartitionedMetadata, rest: bytes) -> None:
        answer = pb.PartitionedMetadataResponse(request_id=body.request_id, partitions=0)
        connection.say(frames.command(Command.PARTITIONED_METADATA_RESPONSE, partitioned_metadata_response=answer))

    def _lookup(self, connection: ModelConnection, body: pb.Lookup, rest: bytes) -> None:
        url = "pulsar://model:1"
        answer = pb.LookupResponse(request_id=body.request_id, response=pb.LookupResponse.Connect, broker_service_url=url)
        connection.say(frames.command(Command.LOOKUP_RESPONSE, lookup_response=answer))

    def _refused(self, connection: ModelConnection, request_id: int) -> bool:
        if self.refuses:
            self.refuses -= 1
            connection.say(frames.error(request_id, pb.ServiceNotReady, "try again"))
            return True
        return False

    def _producer(self, connection: ModelConnection, body: pb.Producer, rest: bytes) -> None:
        if self._refused(connection, body.request_id):
            return
        if body.producer_id in connection.producers:
            raise Broken(f"producer {body.producer_id} was opened twice on a connection")
        self.opened += 1
        name = body.producer_name or f"producer-{self.opened}"
        connection.producers[body.producer_id] = name
        self._sent[connection, body.producer_id] = -1
        success = pb.ProducerSuccess(
            request_id=body.request_id, producer_name=name, last_sequence_id=self._highest.get(name, -1), schema_version=b""
        )
        connection.say(frames.command(Command.PRODUCER_SUCCESS, producer_success=success))

    def _close_producer(self, connection: ModelConnection, body: pb.CloseProducer, rest: bytes) -> None:
        connection.producers.pop(body.producer_id, None)
        connection.say(frames.success(body.request_id))

    def _send(self, connection: ModelConnection, body: pb.Send, rest: bytes) -> None:
        name = connection.producers.get(body.producer_id)
        if name is None:
            return  # it was closed meanwhile
        if body.sequence_id <= self._sent[connection, body.producer_id]:
            raise Broken(f"sequence id {body.sequence_id} of {name} came after {self._sent[connection, body.producer_id]}")
        self._sent[connection, body.producer_id] = max(body.sequence_id, body.highest_sequence_id)
        message_id = pb.MessageId(ledger_id=frames.NO_ID, entry_id=frames.NO_ID)
        if not self.deduplicates or body.sequence_id > self._highest.get(name, -1):
            self._highest[name] = max(body.sequence_id, body.highest_sequence_id)
            stored = frames.parse_stored(rest)
            payloads = [single.payload for single in singles(stored, unpack(stored, 4 * MESSAGE_BYTES_MAX))]
            numbers = [int(payload.partition(b" ")[0]) for payload in payloads]
            message_id = pb.MessageId(ledger_id=LEDGER, entry_id=len(self.log))
            self.log.append(Entry(name, body.sequence_id, numbers, rest, set(range(len(numbers)))))
        receipt = pb.SendReceipt(producer_id=body.producer_id, sequence_id=body.sequence_id, message_id=message_id)
        receipt.highest_sequence_id = body.highest_sequence_id
        connection.say(frames.command(Command.SEND_RECEIPT, send_receipt=receipt))
        self.dispatch()

    def _subscribe(self, connection: ModelConnection, body: pb.Subscribe, rest: bytes) -> None:
        if self._refused(connection, body.request_id):
            return
        if any(each.connection is connection and each.consumer_id == body.consumer_id for each in self.consumers):
            raise Broken(f"consumer {body.consumer_id} was opened twice on a connection")
        self.consumers.append(Consumer(connection, body.consumer_id))
        connection.say(frames.success(body.request_id))

    def _close_consumer(self, connection: ModelConnection, body: pb.CloseConsumer, rest: bytes) -> None:
        for consumer in self._of(connection, body.consumer_id):
            self._leave(consumer)
        connection.say(frames.success(body.request_id))

    def _flow(self, connection: ModelConnection, body: pb.Flow, rest: bytes) -> None:
        for consumer in self._of(connection, body.consumer_id):
            consumer.permits += body.message_permits
            if consumer.permits > 1000:
                raise Broken(f"a consumer asked for {consumer.permits} messages, which is more than it may hold")
        self.dispatch()

    def _ack(self, connection: ModelConnection, body: pb.Ack, rest: bytes) -> None:
        if body.ack_type != pb.Ack.Individual:
            raise Broken("a shared subscription was acknowledged cumulatively")
        for message_id in body.message_id:
            entry = self.log[message_id.entry_id]
            entry.unacked &= {index for index in range(len(entry.numbers)) if bits_of(message_id.ack_set) >> index & 1}
            if not entry.unacked:
                entry.owner = None
                self._acknowledged.set()
        if body.HasField("request_id"):
            answer = pb.AckResponse(consumer_id=body.consumer_id, request_id=body.request_id)
            connection.say(frames.command(Command.ACK_RESPONSE, ack_response=answer))

    def _redeliver_unacknowledged_messages(
        self, connection: ModelConnection, body: pb.RedeliverUnacknowledgedMessages, rest: bytes
    ) -> None:
        wanted = {message_id.entry_id for message_id in body.message_ids} or set(range(len(self.log)))
        for number in wanted:
            entry = self.log[number]
            if entry.owner is connection:
                entry.owner = None
                entry.redeliveries += 1
        self.dispatch()

    def _of(self, connection: ModelConnection, consumer_id: int) -> list[Consumer]:
        return [each for each in self.consumers if each.connection is connection and each.consumer_id == consumer_id]

    def dispatch(self) -> None:
        for consumer in self.consumers:
            for number, entry in enumerate(self.log):
                if consumer.permits <= 0:
                    break
                if not entry.unacked or entry.owner is not None:
                    continue
                entry.owner = consumer.connection
                consumer.permits -= len(entry.unacked)
                self.delivered |= {entry.numbers[index] for index in entry.unacked}
                consumer.connection.say(_message(consumer.consumer_id, number, entry))


def _message(consumer_id: int, number: int, entry: Entry) -> bytes:
    message = pb.Message(
        consumer_id=consumer_id,
        message_id=pb.MessageId(ledger_id=LEDGER, entry_id=number),
        redelivery_count=entry.redeliveries,
    )
    if len(entry.unacked) < len(entry.numbers):
        words = sum(1 << index for index in entry.unacked)
        message.ack_set.extend(word if word < 1 << 63 else word - (1 << 64) for word in _words(words, len(entry.numbers)))
    framed = frames.command(Command.MESSAGE, message=message)
    return (len(framed) - 4 + len(entry.stored)).to_bytes(4, "big") + framed[4:] + entry.stored


def _words(bits: int, size: int) -> list[int]:
    return [bits >> at & (1 << 64) - 1 for at in range(0, max(1, size), 64)]
