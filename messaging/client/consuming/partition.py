"""The consumer of one topic or partition: permits, messages, acknowledgements, and its place on a connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from messaging.client.consuming.acks import AckTracker, Delivered
from messaging.client.consuming.assembly import Assembly
from messaging.client.consuming.interceptors import active_changed
from messaging.client.consuming.options import ConsumerOptions
from messaging.client.consuming.questions import answer_to
from messaging.client.consuming.receipts import Receipts
from messaging.client.consuming.redelivery import Entry, Schedule
from messaging.client.consuming.requests import seek_request, signed, subscribe_request
from messaging.client.consuming.unpacking import Unpacker, Unreadable, message_count, open_entry
from messaging.client.errors import Closed, from_wire
from messaging.client.failures import ConnectionLost
from messaging.client.message import EARLIEST, LATEST, Message, MessageId
from messaging.client.reopening import Reopening
from messaging.client.schemas import Schema
from messaging.client.timing import Timing
from messaging.client.wire.connection import Connection, Request
from messaging.client.wire.connections import Connections
from messaging.errors import MagnetarError, TopicNotFound
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

logger = logging.getLogger("messaging.client")

Command = pb.Command
CLOSE_TIMEOUT_S = 5.0
PASSING_S = 5.0  # after which a subscription that keeps the order tries again to read what it could not
ACK_IDS_MAX = 1000  # in one command; the broker takes no more
ACKS_KEPT_MAX = 50_000  # while there is no connection


@dataclass(frozen=True, slots=True)
class ConsumerServices:
    """What all consumers of a client share."""

    connections: Connections
    timing: Timing
    new_id: Callable[[], int]
    open_timeout_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Sought:
    """A seek that the broker was asked for and did not refuse. `target`: a message, or a time in ms since 1970."""

    target: MessageId | int


class AckResult(NamedTuple):
    """`told`: the broker will be told of this message. `receipt`: with `ack_receipts`, where it is told."""

    told: bool
    receipt: asyncio.Future[None] | None


class Owner(Protocol):
    """The consumer of all topics."""

    def arrived(self, source: TopicConsumer, messages: Sequence[Message]) -> None: ...

    def queued(self, source: TopicConsumer) -> set[Entry]:
        """Of which nothing was received yet."""

    def dropped(self, source: TopicConsumer, entries: Sequence[Entry] | None) -> int:
        """These entries come again, or everything if None: their messages leave the queue. Returns how many did."""

    def refused(self, source: TopicConsumer, entry: Entry) -> bool:
        """Asked before an entry comes again: whether the owner does something else with it."""

    def ended(self, source: TopicConsumer) -> None:
        """The topic was terminated, and all of it was delivered."""

    def gave_up(self, source: TopicConsumer, error: MagnetarError) -> None: ...


class TopicConsumer:
    def __init__(
        self,
        topic: str,
        partition: int,
        subscription: str,
        options: ConsumerOptions,
        prefetch_max: int,
        schema: Schema[Any],
        owner: Owner,
        services: ConsumerServices,
        *,
        existing_only: bool = False,
    ) -> None:
        """`existing_only`: the topic is not made, and if it is deleted this is over."""
        self.topic = topic
        self._subscription = subscription
        self._options = options
        self._prefetch_max = prefetch_max
        self._schema = schema
        self._owner = owner
        self._services = services
        self._loop = asyncio.get_running_loop()
        self._id = services.new_id()
        self._connection: Connection | None = None
        self._is_open = asyncio.Event()
        self._start = options.start
        self._sought_ms: int | None = None  # a time that a reader was moved to, until it read a message
        self._sought_on: Connection | None = None
        self.sought: Sought | None = None  # the last
        self._seeking: object | None = None  # what arrives meanwhile was sent before
        self.arrived_last: Entry | None = None  # on this connection, whether it could be read or not
        self._skips_to_start = False  # what was sought is left out, too: the broker can only begin with it
        self._unpacker = Unpacker(topic, partition, schema)
        self._assembly = Assembly(options.chunked_messages_max)
        self._acks = AckTracker(batch_index=options.batch_index_ack)
        self._nacked = Schedule()
        self._unacked = Schedule()
        self._timer: asyncio.TimerHandle | None = None
        self._epoch = 0
        self._waits = False  # for what comes again, which has to be read before what follows
        self._consumed = 0
        self._flushes = False
        self._receipts = Receipts(topic, services.connections.timeout_s, lambda: self._reopening.error)
        self._closing = False
        name = f"consumer of {topic} in {subscription}"
        self._existing_only = existing_only
        lasting = (TopicNotFound,) if existing_only else ()
        self._reopening = Reopening(name, self._open_once, self._gave_up, services.timing, services.open_timeout_s, lasting)

    # --- for the consumer

    @property
    def connected(self) -> bool:
        return self._connection is not None

    async def open(self) -> None:
        await self._reopening.open()

    async def close(self) -> None:
        """Sends the acknowledgements that are due, then says goodbye. What was received and not acknowledged comes again."""
        self._closing = True
        self._is_open.set()  # nobody waits for another connection
        self._cancel_timer()
        self._flush_acks()
        if self._connection is not None:
            await self._receipts.wait(CLOSE_TIMEOUT_S)
        self._receipts.end(Closed(f"the consumer of {self.topic} was closed before the receipt came: the message may come again"))
        await self._reopening.stop()
        connection, self._connection = self._connection, None
        if connection is not None and connection.usable:
            connection.consumers.pop(self._id, None)
            request = pb.CloseConsumer(consumer_id=self._id, request_id=0)
            try:
                await connection.request(Command.CLOSE_CONSUMER, "close_consumer", request, CLOSE_TIMEOUT_S)
            except MagnetarError:
                pass  # its connection ends, and so does the consumer

    def consumed(self, messages: int) -> None:
        """The application has them, or they were dropped: as many more may come."""
        self._consumed += messages
        if self._consumed * 2 >= self._prefetch_max and self._connection is not None:
            self._permit(self._connection, self._consumed)

    def ack(self, message_id: MessageId, *, cumulative: bool) -> AckResult:
        if cumulative:
            done = self._acks.ack_cumulative(message_id)
        else:
            entry = self._acks.ack(message_id)
            done = [] if entry is None else [entry]
        for entry in done:
            self._unacked.remove(entry)
            self._nacked.remove(entry)
        if not self._flushes:
            self._flushes = True
            self._loop.call_soon(self._flush_acks)
        told = self._acks.tells_of(message_id)
        return AckResult(told, self._receipts.next() if told and self._options.ack_receipts else None)

    def nack(self, message_id: MessageId, delay_s: float | None = None) -> None:
        entry = Entry(message_id.ledger_id, message_id.entry_id)
        state = self._acks.get(entry)
        self._unacked.remove(entry)
        if delay_s is None:
            delay_s = self._options.refused_delay_s(state.redelivery_count if state is not None else 0)
        self._nacked.add(entry, self._services.timing.now_s() + delay_s)
        self._set_timer()

    def redeliver_all(self) -> None:
        """Everything that is not acknowledged comes again, at once."""
        self._epoch += 1
        self._forget_all()
        connection = self._connection
        if connection is not None:
            body = pb.RedeliverUnacknowledgedMessages(consumer_id=self._id, consumer_epoch=self._epoch)
            connection.send(frames.command(Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, redeliver_unacknowledged_messages=body))
        self.consumed(self._owner.dropped(self, None))

    async def seek(self, target: MessageId | int, *, inclusive: bool) -> None:
        """To after a message, to it if `inclusive`, or to the first that was published at this time or later (ms since 1970)."""
        connection = await self._connected()
        request = seek_request(self._id, target)
        self._flush_acks()  # on their way before it: afterwards they would acknowledge what comes again
        self._receipts.moving()
        self._owner.dropped(self, None)
        self._forget_all(moved=True)
        before = self.sought, self._start, self._skips_to_start, self._sought_ms, self._sought_on
        self.sought = Sought(target)
        self._start, self._sought_ms = (target, None) if isinstance(target, MessageId) else (None, target)
        self._sought_on = connection
        self._skips_to_start = self._start not in (None, EARLIEST, LATEST) and not inclusive
        self._seeking = seeking = object()
        try:
            await connection.request(Command.SEEK, "seek", request)
        except (MagnetarError, asyncio.CancelledError) as error:
            if not isinstance(error, ConnectionLost | asyncio.CancelledError):
                self.sought, self._start, self._skips_to_start, self._sought_ms, self._sought_on = before
            else:
                self._sought_on = None  # it may have been moved or not: it is, when it is opened again
            if self._connection is connection:
                self._seeking = None
                self.redeliver_all()  # what was dropped here for nothing
            raise
        finally:
            if self._seeking is seeking:
                self._seeking = None

    async def last_message_id(self) -> MessageId:
        """Entry -1: the topic is empty."""
        request = pb.GetLastMessageId(consumer_id=self._id, request_id=0)
        command = await self._answer_to(Command.GET_LAST_MESSAGE_ID, "get_last_message_id", request)
        last = command.get_last_message_id_response.last_message_id
        return MessageId(signed(last.ledger_id), signed(last.entry_id), last.batch_index, last.partition)

    async def schema_of(self, version: bytes) -> pb.Schema:
        """A version of the topic's schema. Raises the broker's error."""
        request = pb.GetSchema(topic=self.topic, schema_version=version, request_id=0)
        command = await self._answer_to(Command.GET_SCHEMA, "get_schema", request)
        answer = command.get_schema_response
        if answer.HasField("error_code"):
            raise from_wire(answer.error_code, answer.error_message)
        return answer.schema

    async def _answer_to(self, kind: pb.Command.Type, field: str, request: Request) -> pb.Command:
        return await answer_to(kind, field, request, self._connected, self._services.timing, self._services.open_timeout_s)

    async def unsubscribe(self, *, force: bool) -> None:
        request = pb.Unsubscribe(consumer_id=self._id, request_id=0, force=force)
        await (await self._connected()).request(Command.UNSUBSCRIBE, "unsubscribe", request)

    async def _connected(self) -> Connection:
        """Waits for a connection: after a seek the broker closes the consumer, to be opened again."""
        if self._connection is None and not self._closing:
            try:
                async with asyncio.timeout(self._services.open_timeout_s):
                    await self._is_open.wait()
            except TimeoutError:
                pass
        if self._connection is None or not self._connection.usable:
            raise ConnectionLost(f"the consumer of {self.topic} has no connection now: try again") from self._reopening.error
        return self._connection

    # --- for the connection

    def received(self, command: pb.Command, rest: bytes) -> None:
        if command.type == Command.MESSAGE:
            self._message(command.message, rest)
        elif command.type == Command.REACHED_END_OF_TOPIC:
            self._owner.ended(self)
        elif command.type == Command.ACTIVE_CONSUMER_CHANGE and self._options.active_changed is not None:
            active_changed(self._options.active_changed, self.topic, active=command.active_consumer_change.is_active)

    def connection_lost(self, error: MagnetarError) -> None:
        if self._connection is not None:
            self._connection = None
            self._is_open.clear()
            self._forget_all()
            self._consumed = 0
            self._seeking = None
            self._owner.dropped(self, None)
            self._reopening.lost(error)

    def can_write(self) -> None:
        pass  # what a consumer writes is small

    def _message(self, delivery: pb.Message, rest: bytes) -> None:
        self._reopening.healthy()
        entry = Entry(delivery.message_id.ledger_id, delivery.message_id.entry_id)
        if self._seeking is not None or (delivery.HasField("consumer_epoch") and delivery.consumer_epoch < self._epoch):
            self.consumed(message_count(delivery, rest))  # sent before the broker was asked to begin again
            return
        if self._waits:
            self._consumed += message_count(delivery, rest)  # more of it is asked for afterwards
            return
        self.arrived_last = entry
        connection = self._connection
        limit = connection.message_bytes_max if connection is not None else 5 << 20
        try:
            opened = open_entry(rest, self._options.decryption, self._options.crypto_failure)
            chunks: Sequence[Entry] = ()
            if opened.stored.metadata.HasField("chunk_id") and opened.stored.metadata.num_chunks_from_msg > 1:
                assembled = self._assembly.add(entry, opened.stored)
                self._give_up_chunks()
                self._chunks_again()
                if assembled is None:
                    self.consumed(1)
                    return
                opened, chunks = opened._replace(stored=assembled.stored), assembled.entries
            messages, size, left = self._unpacker.messages(delivery, opened, limit)
        except Unreadable as unreadable:
            self._unreadable(entry, unreadable)
            return
        skipped = max(1, size) - len(messages)
        if self._start is not None and entry == self._start[:2] and (size or self._skips_to_start):
            whole, messages = len(messages), self._from_start(self._start, messages)
            skipped += whole - len(messages)
            left = sum(1 << message.id.batch_index for message in messages)
            if not messages and self._skips_to_start:
                self.ack(MessageId(*entry), cumulative=False)
        if not messages:
            self.consumed(max(1, skipped))
            return
        state = Delivered(max(1, size), left, delivery.redelivery_count, (*chunks,))
        self._acks.delivered(entry, state)
        delay_s = self._options.ack_delay_s(delivery.redelivery_count)
        if delay_s:
            self._unacked.add(entry, self._services.timing.now_s() + delay_s)
            self._set_timer()
        if skipped and not delivery.ack_set:  # those of the set cost no permits
            self.consumed(skipped)
        self._owner.arrived(self, messages)

    def _from_start(self, start: MessageId, messages: list[Message]) -> list[Message]:
        """Of the batch that a reader begins at, or that a consumer sought: the broker knows the entry only."""
        if not self._skips_to_start:
            return [message for message in messages if message.id.batch_index >= start.batch_index]
        return [message for message in messages if message.id.batch_index > start.batch_index >= 0]

    def _give_up_chunks(self) -> None:
        for entry in self._assembly.given_up:
            logger.warning("%s: a chunk of a message that is not complete is acknowledged: %s", self.topic, entry)
            self.ack(MessageId(*entry), cumulative=False)
        self._assembly.given_up.clear()

    def _chunks_again(self, delay_s: float | None = None) -> None:
        for entry in self._assembly.again:
            self.nack(MessageId(*entry), max(1.0, self._options.nack_delay_s) if delay_s is None else delay_s)
        self._assembly.again.clear()

    def _unreadable(self, entry: Entry, unreadable: Unreadable) -> None:
        self.consumed(1)
        logger.error("%s: message %s cannot be read: %s", self.topic, entry, unreadable)
        if not unreadable.discard:
            # It stays unacknowledged, for a consumer with another key.
            delay_s = max(1.0, self._options.nack_delay_s)
            if unreadable.passing and not self._options.shared:
                # What follows would be acknowledged with it, or read before it by a reader, which then leaves it out.
                self._waits, self.arrived_last = True, None
                delay_s = min(delay_s, PASSING_S)
            if unreadable.metadata is not None and unreadable.metadata.HasField("chunk_id"):
                self._assembly.put_off(unreadable.metadata)
                self._chunks_again(delay_s)
            self.nack(MessageId(*entry), delay_s)
            return
        if self._connection is not None:
            message_id = pb.MessageId(ledger_id=entry.ledger_id, entry_id=entry.entry_id)
            ack = pb.Ack(
                consumer_id=self._id, ack_type=pb.Ack.Individual, message_id=[message_id], validation_error=unreadable.reason
            )
            self._connection.send(frames.command(Command.ACK, ack=ack))

    # --- what it sends

    def _permit(self, connection: Connection, messages: int) -> None:
        self._consumed = 0
        connection.send(frames.command(Command.FLOW, flow=pb.Flow(consumer_id=self._id, message_permits=messages)))

    def _flush_acks(self) -> None:
        self._flushes = False
        if self._connection is not None:
            self._receipts.send(self._connection, self._acks.take(self._id, ACK_IDS_MAX))
        elif self._acks.waiting > ACKS_KEPT_MAX:  # what is kept is sent on the next connection
            self._acks.take(self._id, ACK_IDS_MAX)
            self._receipts.unsent_lost()

    # --- what comes again

    def _set_timer(self) -> None:
        due = [due_s for schedule in (self._nacked, self._unacked) if (due_s := schedule.next_s) is not None]
        if due and not self._closing:
            self._cancel_timer()
            self._timer = self._loop.call_later(max(0.0, min(due) - self._services.timing.now_s()), self._redeliver_due)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _redeliver_due(self) -> None:
        self._timer = None
        now_s = self._services.timing.now_s()
        due = list(dict.fromkeys([*self._nacked.take_due(now_s), *self._unacked.take_due(now_s)]))
        due = [entry for entry in due if not self._owner.refused(self, entry)]
        if due and not self._options.shared:
            self.redeliver_all()  # of these the broker knows only where the consumer is
        elif due:
            self._redeliver(due)
        self._set_timer()

    def _redeliver(self, entries: list[Entry]) -> None:
        ids = []
        for entry in entries:
            state = self._acks.get(entry)
            for part in (*(state.chunks if state is not None else ()), entry):
                ids.append(pb.MessageId(ledger_id=part.ledger_id, entry_id=part.entry_id))
        self._acks.come_again(entries, self._owner.queued(self))
        self.consumed(self._owner.dropped(self, entries))
        if self._connection is not None:
            for at in range(0, len(ids), ACK_IDS_MAX):
                body = pb.RedeliverUnacknowledgedMessages(consumer_id=self._id, message_ids=ids[at : at + ACK_IDS_MAX])
                command = frames.command(Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, redeliver_unacknowledged_messages=body)
                self._connection.send(command)

    def _forget_all(self, *, moved: bool = False) -> None:
        """Everything comes again; `moved`: from elsewhere, so that what the application has is of no matter."""
        if moved:
            self._acks.forget_all()
        else:
            self._acks.all_come_again(self._owner.queued(self))
        self._assembly.clear()
        self._waits = False
        self.arrived_last = None
        self._nacked.clear()
        self._unacked.clear()
        self._cancel_timer()

    # --- opening

    async def _open_once(self) -> None:
        options = self._options
        connection = await self._services.connections.lookup(self.topic)
        request = subscribe_request(
            self._id,
            self.topic,
            self._subscription,
            options,
            self._schema.description,
            self.position,
            epoch=self._epoch,
            existing_only=self._existing_only,
        )
        connection.consumers[self._id] = self
        subscribed = False
        try:
            await connection.request(Command.SUBSCRIBE, "subscribe", request)
            subscribed = self._id in connection.consumers
            if subscribed and self._sought_ms is not None and connection is not self._sought_on and not options.durable:
                # Where a time is only the broker knows, and nothing of it is left. It closes the consumer, to be opened again.
                await connection.request(Command.SEEK, "seek", seek_request(self._id, self._sought_ms))
                self._sought_on = connection
        except BaseException as error:
            connection.consumers.pop(self._id, None)
            if (subscribed or isinstance(error, ConnectionLost | asyncio.CancelledError)) and connection.usable:
                # It may be open all the same.
                connection.tell(Command.CLOSE_CONSUMER, "close_consumer", pb.CloseConsumer(consumer_id=self._id, request_id=0))
            raise
        if self._id not in connection.consumers:
            raise ConnectionLost("the consumer was closed while it was opened, as one is that was moved to a time again")
        self._connection = connection
        self._is_open.set()
        self._receipts.opened(connection)
        self._flush_acks()
        self._permit(connection, self._prefetch_max)

    @property
    def position(self) -> MessageId | None:
        """Where a reader begins; after a break, what `moved_to` said."""
        return self._start

    def moved_to(self, message_id: MessageId) -> None:
        """A reader got this message: on a new connection it begins there, and the message is left out by whoever reads."""
        self._start, self._sought_ms = message_id, None

    def _gave_up(self, error: MagnetarError) -> None:
        self._closing = True
        self._is_open.set()
        self._receipts.end(error)
        self._owner.gave_up(self, error)
