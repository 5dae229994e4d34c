"""The producer of one partition: its open batch, its operations without a receipt, and its place on a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from messaging.client.errors import Closed, SendFailed, SendTimedOut, from_wire
from messaging.client.failures import ConnectionLost
from messaging.client.message import MessageId
from messaging.client.producing.batches import BatchContainer, Outgoing
from messaging.client.producing.entries import EntryBuilder, Identity
from messaging.client.producing.flushing import Flusher
from messaging.client.producing.options import ACCESS_MODES, ProducerOptions
from messaging.client.producing.pending import PendingQueue
from messaging.client.reopening import Reopening
from messaging.client.timing import Timing
from messaging.client.wire.connection import Connection
from messaging.client.wire.connections import Connections
from messaging.errors import MagnetarError, PlatformError, ProducerFenced, TopicTerminated
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import NO_ID, ProtocolError

Command = pb.Command
CLOSE_TIMEOUT_S = 5.0


class Owner(Protocol):
    """The producer of the whole topic."""

    def settled(self, partition: int, messages: Sequence[Outgoing], error: MagnetarError | None) -> None:
        """They have their receipts, or this error, and their room is free again."""

    def batch_ended(self, partition: int) -> None: ...

    def gave_up(self, error: MagnetarError) -> None: ...


class PartitionProducer:
    def __init__(
        self,
        topic: str,
        partition: int,
        options: ProducerOptions,
        schema: pb.Schema | None,
        producer_id: int,
        owner: Owner,
        connections: Connections,
        flusher: Flusher,
        timing: Timing,
        open_timeout_s: float,
    ) -> None:
        self.topic = topic
        self.index = partition
        self._options = options
        self._schema = schema
        self._owner = owner
        self._connections = connections
        self._flusher = flusher
        self._timing = timing
        self._identity = Identity(producer_id, options.name or "")
        self._entries = EntryBuilder(options, self._identity, timing.wall_ms)
        self._container = BatchContainer(options.batch) if options.batch is not None else None
        self._pending = PendingQueue()
        self._connection: Connection | None = None
        self._epoch = 0
        self._topic_epoch: int | None = None
        self._reopening = Reopening(f"producer of {topic}", self._open_once, owner.gave_up, timing, open_timeout_s)

    # --- for the producer of the topic

    @property
    def name(self) -> str:
        return self._identity.name

    @property
    def last_sequence_id(self) -> int:
        return self._identity.next_sequence_id - 1

    @property
    def message_bytes_max(self) -> int:
        return self._identity.message_bytes_max

    @property
    def connected(self) -> bool:
        return self._connection is not None

    def slow(self, before_s: float) -> bool:
        """Whether it is not connected, or an operation is older than `before_s` and has no receipt."""
        if self._connection is None:
            return True
        oldest = self._pending.oldest
        return oldest is not None and oldest.since_s < before_s

    @property
    def oldest_since_s(self) -> float | None:
        oldest = self._pending.oldest
        return None if oldest is None else oldest.since_s

    def add(self, outgoing: Outgoing, *, urgent: bool) -> None:
        """`urgent`: somebody waits for the receipt of this message."""
        container = self._container
        if container is None or outgoing.message.deliver_at_ms is not None:
            self.flush()  # what came before leaves before
            self._send([outgoing])
            return
        if not container.accepts(outgoing):
            self.flush()
        if container.add(outgoing):
            self.flush()
        elif urgent:
            self._flusher.at_end_of_turn(self)
        elif len(container) == 1:
            self._flusher.later(self, container.delay_s)

    def flush(self) -> None:
        container = self._container
        if container is None or not len(container):
            return
        self._flusher.forget(self)
        for batch in container.take():
            self._send(batch.messages)
        self._owner.batch_ended(self.index)

    def withdraw(self, outgoing: Outgoing) -> bool:
        """Takes back a message that is in no operation yet."""
        return self._container is not None and self._container.withdraw(outgoing)

    def expire(self, before_s: float) -> None:
        for operation in self._pending.take_expired(before_s):
            outcome = "it may be stored or not" if operation.written else "it was never sent, for want of a connection"
            text = f"no receipt for a message to {self.topic} within {self._options.send_timeout_s:g} s: {outcome}; send it again"
            error = SendTimedOut(text, written=operation.written)
            error.__cause__ = self._reopening.error
            self._fail(operation.messages, error)

    async def open(self) -> None:
        await self._reopening.open()

    async def close(self) -> None:
        """Says goodbye; what has no receipt fails with `Closed`."""
        try:
            await self._reopening.stop()
            connection, self._connection = self._connection, None
            if connection is not None and connection.usable:
                connection.producers.pop(self._identity.producer_id, None)
                request = pb.CloseProducer(producer_id=self._identity.producer_id, request_id=0)
                try:
                    await connection.request(Command.CLOSE_PRODUCER, "close_producer", request, CLOSE_TIMEOUT_S)
                except MagnetarError:
                    pass  # its connection ends, and so does the producer
        finally:
            self.end(None)

    def end(self, cause: MagnetarError | None) -> None:
        """Everything that is on its way fails."""
        self._flusher.forget(self)
        waiting = [batch.messages for batch in self._container.take()] if self._container is not None else []
        for operation in self._pending.take_all():
            self._fail(operation.messages, _closed(cause, written=operation.written))
        for messages in waiting:
            self._fail(messages, _closed(cause, written=False))

    # --- operations

    def _send(self, messages: Sequence[Outgoing]) -> None:
        messages = list(messages)
        try:
            operations = self._entries.build(messages, self._timing.now_s())
        except Exception as failure:  # of a key of encryption, too: whoever waits for the others of the batch must not pay for it
            if len(messages) > 1:  # each may fit alone
                middle = len(messages) // 2
                self._send(messages[:middle])
                self._send(messages[middle:])
            else:
                self._fail(messages, failure if isinstance(failure, MagnetarError) else _unwritable(failure))
            return
        for operation in operations:
            self._pending.add(operation)
        for outgoing in messages:
            outgoing.serialized = True
            if not self._options.interceptors:  # they are shown the message again; nobody else needs bytes that the frame has
                outgoing.message.payload = None
        self._write()

    def _write(self) -> None:
        connection = self._connection
        while connection is not None and not connection.busy:
            operation = self._pending.next_to_write()
            if operation is None:
                return
            connection.send(operation.frame)

    def _fail(self, messages: Sequence[Outgoing], error: MagnetarError) -> None:
        for outgoing in messages:
            if not outgoing.receipt.done():
                outgoing.receipt.set_exception(error)
        if messages:
            self._owner.settled(self.index, messages, error)

    # --- for the connection

    def received(self, command: pb.Command, rest: bytes) -> None:
        try:
            if command.type == Command.SEND_RECEIPT:
                self._receipt(command.send_receipt)
            elif command.type == Command.SEND_ERROR:
                self._error(command.send_error)
        except ProtocolError as error:
            if self._connection is not None:
                self._connection.fail(ConnectionLost(f"the broker broke the protocol: {error}"))

    def _receipt(self, receipt: pb.SendReceipt) -> None:
        operation = self._pending.receipt(receipt.sequence_id)
        if operation is None:
            return
        self._reopening.healthy()
        stored = receipt.message_id
        ledger_id, entry_id = (-1, -1) if stored.ledger_id == NO_ID else (stored.ledger_id, stored.entry_id)
        partition = self.index if stored.partition < 0 and self.index >= 0 else stored.partition
        for index, outgoing in enumerate(operation.messages):
            if not outgoing.receipt.done():
                outgoing.receipt.set_result(MessageId(ledger_id, entry_id, index if operation.batched else -1, partition))
        if operation.messages:
            self._owner.settled(self.index, operation.messages, None)

    def _error(self, refusal: pb.SendError) -> None:
        cause = from_wire(refusal.error, refusal.message)
        if isinstance(cause, ProducerFenced | TopicTerminated):
            self._owner.gave_up(cause)
        elif isinstance(cause, PlatformError) and self._connection is not None:
            self._connection.fail(cause)  # everything without a receipt is sent again
        else:
            messages = self._pending.refused(refusal.sequence_id)
            error = SendFailed(f"the broker refused a message: {cause.message}")
            error.__cause__ = cause
            self._fail(messages, error)

    def connection_lost(self, error: MagnetarError) -> None:
        if self._connection is not None:
            self._connection = None
            self._pending.connection_lost()
            self._reopening.lost(error)

    def can_write(self) -> None:
        self._write()

    # --- opening

    async def _open_once(self) -> None:
        identity, options = self._identity, self._options
        connection = await self._connections.lookup(self.topic)
        request = pb.Producer(
            topic=self.topic,
            producer_id=identity.producer_id,
            request_id=0,
            epoch=self._epoch,
            user_provided_producer_name=options.name is not None,
            producer_access_mode=ACCESS_MODES[options.access],
            encrypted=options.encryption is not None,
            metadata=[pb.KeyValue(key=key, value=value) for key, value in options.properties.items()],
        )
        if identity.name:
            request.producer_name = identity.name
        if self._schema is not None:
            request.schema.CopyFrom(self._schema)
        if self._topic_epoch is not None:
            request.topic_epoch = self._topic_epoch
        if options.initial_subscription is not None:
            request.initial_subscription_name = options.initial_subscription
        self._epoch += 1
        connection.producers[identity.producer_id] = self
        try:
            answer = (await connection.request(Command.PRODUCER, "producer", request)).producer_success
        except BaseException as error:
            connection.producers.pop(identity.producer_id, None)
            if isinstance(error, ConnectionLost | asyncio.CancelledError) and connection.usable:
                # It may be open all the same.
                close = pb.CloseProducer(producer_id=identity.producer_id, request_id=0)
                connection.tell(Command.CLOSE_PRODUCER, "close_producer", close)
            raise
        if identity.producer_id not in connection.producers:
            raise ConnectionLost("the connection was lost while the producer was opened")
        if not self._reopening.opened_before:
            first = options.first_sequence_id
            identity.next_sequence_id = answer.last_sequence_id + 1 if first is None else first
        identity.name = answer.producer_name
        identity.schema_version = answer.schema_version
        identity.message_bytes_max = connection.message_bytes_max
        if answer.HasField("topic_epoch"):
            self._topic_epoch = answer.topic_epoch
        self._connection = connection
        self._write()


def _unwritable(failure: Exception) -> MagnetarError:
    error = SendFailed(f"the message could not be written: {type(failure).__name__}: {failure}")
    error.__cause__ = failure
    return error


def _closed(cause: MagnetarError | None, *, written: bool) -> Closed:
    why = "the producer is closed" if cause is None else f"the producer gave up: {cause.message}"
    error = Closed(f"{why}; the message {'may be stored or not' if written else 'was not sent'}", written=written)
    error.__cause__ = cause
    return error
