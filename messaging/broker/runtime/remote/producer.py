"""A producer of a client of single messages on a topic of another broker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.frames import message_frame
from messaging.broker.runtime.local.messages import MessagePosition, OutgoingMessage, ProducerListener, Receipt
from messaging.broker.runtime.remote.link import Command, error_of
from messaging.broker.runtime.remote.links import LinkUse
from messaging.errors import InvalidValue, MagnetarError, MessageTooLarge, NotReady
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import TopicName


class RemoteProducer:
    """A `ProducerHandle` to its client, an `LinkEnd` to the link, and an `OpenSession` to the permission
    checks."""

    action = Action.PRODUCE
    gathers = False  # each message is answered for itself

    def __init__(
        self,
        service: Broker,
        topic: TopicName,
        sink: ProducerListener,
        principal: Principal,
        use: LinkUse,
    ) -> None:
        self.service = service
        self.topic = topic
        self.principal = principal
        self.resource = Resource(topic.tenant, str(topic.namespace), str(topic))
        self.producer_name = ""
        self.last_sequence_id = -1
        self.open = True
        self._stopped = False
        self._sink = sink
        self._use = use
        self._reason: MagnetarError | None = None
        self._closing: asyncio.Future[pb.Command] | None = None
        self._id = use.link.new_id()
        self._sequence = 0
        self._due: deque[Receipt] = deque()

    async def begin(self, name: str, *, encrypts: bool) -> None:
        """Raises what the other broker refuses with; it is closed then."""
        link = self._use.link
        body = pb.Producer(topic=str(self.topic), producer_id=self._id, request_id=0, encrypted=encrypts)
        if name:
            body.producer_name = name
        body.user_provided_producer_name = bool(name)
        link.producers[self._id] = self
        try:
            success = (await link.request(Command.PRODUCER, "producer", body)).producer_success
            self.service.permission_checks.admit(self)
        except BaseException:
            self.close()
            raise
        self.producer_name, self.last_sequence_id = success.producer_name, success.last_sequence_id
        self._sequence = self.last_sequence_id + 1
        self.service.peers.sessions.add(self)

    def publish(self, messages: Sequence[OutgoingMessage], on_receipt: Receipt) -> None:
        """One message at a time."""
        (message,) = messages
        loop = asyncio.get_running_loop()
        limit = self.service.settings.message_bytes_max
        if not self.open or self._stopped:
            loop.call_soon(on_receipt, None, NotReady("the producer is closed: open it again"))
            return
        if len(message.payload) > limit:
            text = f"a message of {len(message.payload)} bytes is larger than message_bytes_max = {limit}: send it in parts"
            loop.call_soon(on_receipt, None, MessageTooLarge(text))
            return
        sequence_id = self._sequence if message.sequence_id is None else message.sequence_id
        try:
            data = message_frame(message, self._id, self.producer_name, sequence_id, self.service.now_ms())
        except ValueError as error:
            loop.call_soon(on_receipt, None, InvalidValue(f"the message is not valid: {error}"))
            return
        self._sequence = max(self._sequence, sequence_id + 1)
        self._due.append(on_receipt)
        self._use.link.write(data)

    # --- from the link

    def received(self, command: pb.Command, rest: bytes) -> None:
        if command.type == Command.CLOSE_PRODUCER:
            self.end(self._reason or NotReady("the topic was closed: open the producer again"))
        elif command.type == Command.SEND_RECEIPT and self._due:
            message_id = command.send_receipt.message_id
            position = MessagePosition(_signed(message_id.ledger_id), _signed(message_id.entry_id), -1, self.topic.partition)
            self._due.popleft()([position], None)
        elif command.type == Command.SEND_ERROR:
            error = error_of(command.send_error.error, command.send_error.message)
            if command.send_error.sequence_id == frames.UNSOLICITED:
                self._reason = error
            elif self._due:
                self._due.popleft()(None, error)

    def lost(self, error: MagnetarError) -> None:
        self.end(error)

    # --- its end

    def stop(self) -> None:
        """From now on nothing is taken; `end` follows."""
        self._stopped = True

    def end(self, error: MagnetarError) -> None:
        """Receipts still due get the error: whether the messages are stored is not known."""
        if self.open:
            self._leave(error)
            self._sink.closed(error)

    def leave(self) -> None:
        self._stopped = True
        self._close_there()

    def close(self) -> None:
        if self.open:
            self._leave(NotReady("the producer was closed before the receipt arrived"))

    def _leave(self, error: MagnetarError) -> None:
        self.open = False
        self._stopped = True
        self.service.peers.sessions.discard(self)
        self._use.release_after(self._close_there())
        self._use.link.producers.pop(self._id, None)
        while self._due:
            self._due.popleft()(None, error)

    def _close_there(self) -> asyncio.Future[pb.Command]:
        if self._closing is None:
            body = pb.CloseProducer(producer_id=self._id, request_id=0)
            self._closing = self._use.link.ask(Command.CLOSE_PRODUCER, "close_producer", body)
        return self._closing


def _signed(number: int) -> int:
    """-1 for a duplicate whose id is not remembered; on the wire it is unsigned."""
    return number - (1 << 64) if number >> 63 else number
