"""A consumer of a client of single messages on a topic of another broker: it is sent entries, and opens batches as the local one
does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence

from messaging.broker.core.cursors.ack_sets import bits_of
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.messages import ConsumerListener, DeliveredMessage, InitialPosition, MessagePosition
from messaging.broker.runtime.local.open_batches import OpenBatches, words
from messaging.broker.runtime.local.shared_permits import SharedPermits
from messaging.broker.runtime.local.unpacking import Packed, Unpacker
from messaging.broker.runtime.remote.link import Command, error_of
from messaging.broker.runtime.remote.links import LinkUse
from messaging.errors import MagnetarError, NotReady
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import UNPACKED_TIMES_MAX
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import EARLIEST, Position

IDS_A_FRAME = 1_000
BATCHES_MAX = 50_000  # of which parts are unacknowledged; those beyond are forgotten, the oldest first, and delivered again
LEDGERS_MAX = 1_000
_UINT64 = (1 << 64) - 1


class RemoteConsumer:
    """A `PartConsumer`, an `LinkEnd` to the link, and an `OpenSession` to the permission checks.

    Without a durable subscription it remembers how far it was, since nobody else does."""

    action = Action.CONSUME
    remote = True

    def __init__(
        self,
        service: Broker,
        topic: TopicName,
        subscription: str,
        sink: ConsumerListener,
        principal: Principal,
        use: LinkUse,
        *,
        durable: bool,
        shared: SharedPermits,
        wanted: Mapping[Position, int],
    ) -> None:
        self.service = service
        self.topic = topic
        self.principal = principal
        self.resource = Resource(topic.tenant, str(topic.namespace), str(topic), subscription)
        self.continues = not durable and topic.persistent
        self.open = True
        self._stopped = False
        self._sink = sink
        self._use = use
        self._id = use.link.new_id()
        self._closed_there = False
        self._reason: MagnetarError | None = None
        self._permits = 0  # what the other broker may still send
        self._batches = OpenBatches(self._charge)
        self._ack_sets: dict[Position, list[int]] = {}  # of entries that were not opened yet
        self._wanted = dict(wanted)  # of batches that did not come yet
        self._skipped: Position | None = None
        self._reached = EARLIEST
        self._unacked: dict[Position, None] = {}  # without a durable subscription
        self._ledgers: dict[int, None] = {}
        self._asked_for = shared
        self._unpacker = Unpacker(
            service.memory_limiter.egress,
            principal.tenant,
            service.settings.message_bytes_max * UNPACKED_TIMES_MAX,
            topic.partition,
            asked_for=shared,
            turns=service.unpacking,
            deliver=self._hand_over,
            open_bits=self._open_bits,
            finished=lambda unused: self._asked_for.due(self),
        )

    async def begin(
        self,
        kind: SubscriptionType,
        initial: InitialPosition,
        start: MessagePosition | None,
        *,
        durable: bool,
        consumer_name: str,
        priority: int,
        create: bool,
    ) -> None:
        """Raises what the other broker refuses with; it is closed then."""
        link = self._use.link
        body = pb.Subscribe(
            topic=str(self.topic),
            subscription=self.resource.subscription,
            sub_type=int(kind),  # type: ignore[arg-type]
            consumer_id=self._id,
            request_id=0,
            consumer_name=consumer_name,
            priority_level=priority,
            durable=durable,
            initial_position=pb.Subscribe.Earliest if initial == "earliest" else pb.Subscribe.Latest,
            force_topic_creation=create,
        )
        if start is not None:
            self._begin_after(body, start)
        link.consumers[self._id] = self
        try:
            await link.request(Command.SUBSCRIBE, "subscribe", body)
            if self.continues:
                await self._learn_start()
            self.service.permission_checks.admit(self)
        except BaseException:
            self.close()
            raise
        self.service.peers.sessions.add(self)

    def _begin_after(self, body: pb.Subscribe, start: MessagePosition) -> None:
        """The other broker begins with the entry that is named; of a batch the rest may be wanted."""
        body.start_message_id.CopyFrom(pb.MessageId(ledger_id=start.ledger_id & _UINT64, entry_id=start.entry_id & _UINT64))
        position = Position(start.ledger_id, start.entry_id)
        if start.batch_index >= 0:
            self._wanted = {position: -1 << start.batch_index + 1, **self._wanted}
        elif start.entry_id >= 0:
            self._skipped = position

    async def _learn_start(self) -> None:
        """Where the subscription begins, before anything is asked for."""
        body = pb.GetLastMessageId(consumer_id=self._id, request_id=0)
        answer = await self._use.link.request(Command.GET_LAST_MESSAGE_ID, "get_last_message_id", body)
        position = answer.get_last_message_id_response.consumer_mark_delete_position
        begun = Position(_signed(position.ledger_id), _signed(position.entry_id))
        self._reached = begun if self._skipped is None else max(begun, self._skipped)

    # --- as a part of a consumer of a whole topic

    def serve(self, permits: int) -> None:
        missing = permits - self._permits
        if self.open and not self._stopped and missing > 0:
            self._permits += missing
            flow = pb.Flow(consumer_id=self._id, message_permits=missing)
            self._use.link.write(frames.command(Command.FLOW, flow=flow))

    def ack(self, positions: Sequence[MessagePosition]) -> Awaitable[None]:
        if self._stopped:
            return _refused(NotReady("the consumer is closed: open it again"))
        parts: dict[Position, list[int]] = {}
        ids: list[pb.MessageId] = []
        for acked in positions:
            position = Position(acked.ledger_id, acked.entry_id)
            if acked.batch_index < 0:
                self._batches.discard(position)
                self._unacked.pop(position, None)
                ids.append(_id_of(position))
            else:
                parts.setdefault(position, []).append(acked.batch_index)
        for position, indexes in parts.items():
            left = self._batches.acknowledge(position, indexes)
            if left is None:
                continue
            if not left:
                self._unacked.pop(position, None)
            named = _id_of(position)
            named.ack_set.extend(word - (1 << 64) if word >> 63 else word for word in words(left))
            ids.append(named)
        answers = [self._ack(ids[start : start + IDS_A_FRAME]) for start in range(0, len(ids), IDS_A_FRAME)]
        self._use.link.check_unsent()
        return _all(answers)

    def _ack(self, ids: list[pb.MessageId]) -> asyncio.Future[pb.Command]:
        body = pb.Ack(consumer_id=self._id, ack_type=pb.Ack.Individual, message_id=ids)
        return self._use.link.ask(Command.ACK, "ack", body)

    def nack(self, positions: Sequence[MessagePosition]) -> None:
        if not self.open or self._stopped:
            return
        ids = [_id_of(Position(position.ledger_id, position.entry_id)) for position in positions]
        for start in range(0, len(ids), IDS_A_FRAME):
            body = pb.RedeliverUnacknowledgedMessages(consumer_id=self._id, message_ids=ids[start : start + IDS_A_FRAME])
            self._use.link.write(frames.command(Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, redeliver_unacknowledged_messages=body))
        self._use.link.check_unsent()

    def check_alone(self) -> None:
        """The other broker says it when it is asked to delete the subscription."""

    async def unsubscribe(self) -> None:
        if self._stopped:
            raise NotReady("the consumer is closed: open it again")
        body = pb.Unsubscribe(consumer_id=self._id, request_id=0)
        await self._use.link.request(Command.UNSUBSCRIBE, "unsubscribe", body)
        self.close()

    def continue_from(self, batches_max: int) -> tuple[InitialPosition, MessagePosition | None, dict[Position, int]]:
        """For one that takes its place: after what was acknowledged without a gap, and of batches behind it a bit for each message
        that was not."""
        lowest = min(self._unacked, default=None)
        reached = self._reached if lowest is None else Position(lowest.ledger_id, lowest.entry_id - 1)
        start = None if reached == EARLIEST else MessagePosition(*reached)
        return "earliest", start, self._wanted | self._batches.open_bits(batches_max)

    def unacknowledged_ledgers(self) -> Iterator[int]:
        """Those from which messages came: of others it has none."""
        yield from self._ledgers

    # --- from the link

    def received(self, command: pb.Command, rest: bytes) -> None:
        if command.type == Command.MESSAGE:
            self._message(command.message, rest)
        elif command.type == Command.REACHED_END_OF_TOPIC:
            asyncio.get_running_loop().call_soon(self._say_end)
        elif command.type == Command.CLOSE_CONSUMER:
            self._closed_there = True
            self.end(self._reason or NotReady("the subscription was moved or closed: open the consumer again"))
        elif command.ack_response.HasField("error"):
            self._reason = error_of(command.ack_response.error, command.ack_response.message)

    def _message(self, message: pb.Message, payload: bytes) -> None:
        if self._stopped:
            return
        position = Position(message.message_id.ledger_id, message.message_id.entry_id)
        acked = list(message.ack_set)
        count = bits_of([word & _UINT64 for word in acked]).bit_count() if acked else _messages_in(payload)
        self._permits = max(0, self._permits - count)
        if position == self._skipped:
            self._skipped = None
            asyncio.get_running_loop().call_soon(self.ack, [MessagePosition(*position)])
            self._asked_for.due(self)
            return
        if self.topic.persistent:
            self._note(position, acked)
        self._unpacker.add(Packed(position, payload, self.service.now_ms(), message.redelivery_count, count))
        self._asked_for.due(self)

    def _note(self, position: Position, acked: list[int]) -> None:
        if acked:
            self._ack_sets[position] = [word & _UINT64 for word in acked]
        if self.continues:
            self._unacked[position] = None
            self._reached = max(self._reached, position)
        if position.ledger_id not in self._ledgers:
            self._ledgers[position.ledger_id] = None
            if len(self._ledgers) > LEDGERS_MAX:
                del self._ledgers[next(iter(self._ledgers))]

    def _open_bits(self, position: Position, size: int) -> int:
        if not self.topic.persistent:
            return (1 << size) - 1
        if len(self._batches) >= BATCHES_MAX:
            self._batches.discard_oldest()
        wanted = self._wanted.pop(position, -1)
        bits = self._batches.add(position, size, self._ack_sets.pop(position, None), wanted)
        if not bits and wanted != -1:  # nobody will acknowledge it
            asyncio.get_running_loop().call_soon(self.ack, [MessagePosition(*position)])
        return bits

    def _hand_over(self, messages: Sequence[DeliveredMessage]) -> None:
        if self.open and not self._stopped:
            self._sink.deliver(messages)

    def _charge(self, size: int) -> None:
        account, tenant = self.service.memory_limiter.sessions, self.principal.tenant
        if size > 0:
            account.take(tenant, size)
        else:
            account.give(tenant, -size)

    def _say_end(self) -> None:
        if self.open:
            self._sink.end_of_topic()

    def lost(self, error: MagnetarError) -> None:
        self._closed_there = True
        self.end(error)

    # --- its end

    def stop(self) -> None:
        """From now on nothing is taken or handed over; `end` follows."""
        self._stopped = True

    def end(self, error: MagnetarError) -> None:
        if self.open:
            self.close()
            self._sink.closed(error)

    def leave(self) -> None:
        """Its client is gone: nothing is taken or handed over. `close` follows."""
        self._stopped = True

    def close(self) -> None:
        if not self.open:
            return
        self.open = False
        self._stopped = True
        self._asked_for.discard(self)
        self._unpacker.close()
        self.service.peers.sessions.discard(self)
        link = self._use.link
        link.consumers.pop(self._id, None)
        if self._closed_there:
            self._use.release()
        else:
            closing = pb.CloseConsumer(consumer_id=self._id, request_id=0)
            self._use.release_after(link.ask(Command.CLOSE_CONSUMER, "close_consumer", closing))


def _messages_in(payload: bytes) -> int:
    try:
        return max(1, frames.parse_metadata(payload).num_messages_in_batch)
    except frames.ProtocolError:  # it comes whole, with the reason
        return 1


def _id_of(position: Position) -> pb.MessageId:
    return pb.MessageId(ledger_id=position.ledger_id & _UINT64, entry_id=position.entry_id & _UINT64)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _refused(error: MagnetarError) -> asyncio.Future[None]:
    stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stored.set_exception(error)
    stored.exception()  # whoever does not wait for it need not hear of it
    return stored


def _all(answers: Sequence[asyncio.Future[pb.Command]]) -> asyncio.Future[None]:
    """Done when all of them are, and failed as the first that is."""
    stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = len(answers)

    def answered(answer: asyncio.Future[pb.Command]) -> None:
        nonlocal left
        left -= 1
        error = None if answer.cancelled() else answer.exception()
        if stored.done():
            return
        if error is not None:
            stored.set_exception(error)
            stored.exception()  # whoever does not wait for it need not hear of it
        elif not left:
            stored.set_result(None)

    for answer in answers:
        answer.add_done_callback(answered)
    if not answers:
        stored.set_result(None)
    return stored
