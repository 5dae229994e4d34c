"""A connection to another broker, on behalf of one client: requests and their answers, and what its producers and
consumers are sent. No task is made for a message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

from messaging.broker.runtime.ownership.dialling import BrokerDialler, BrokerPlace
from messaging.client.errors import from_wire
from messaging.client.wire.parser import Parser
from messaging.errors import MagnetarError, NotReady, PreconditionFailed
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError
from messaging.version import VERSION

CLIENT_VERSION = f"Magnetar-WebSocket-v{VERSION}"
CONNECT_S = 10.0
REQUEST_S = 30.0  # a broker opens a topic in far less
UNSENT_BYTES_MAX = 4 << 20  # of acknowledgements, which a client sends without waiting for anything
Command = pb.Command

# The fields of answers, by their type; all have a request id.
_ANSWERS: dict[int, str] = {
    Command.SUCCESS: "success",
    Command.ERROR: "error",
    Command.PRODUCER_SUCCESS: "producer_success",
    Command.GET_LAST_MESSAGE_ID_RESPONSE: "get_last_message_id_response",
    Command.ACK_RESPONSE: "ack_response",
}
_OF_PRODUCERS: dict[int, str] = {
    Command.SEND_RECEIPT: "send_receipt",
    Command.SEND_ERROR: "send_error",
    Command.CLOSE_PRODUCER: "close_producer",
}
_OF_CONSUMERS: dict[int, str] = {
    Command.MESSAGE: "message",
    Command.CLOSE_CONSUMER: "close_consumer",
    Command.REACHED_END_OF_TOPIC: "reached_end_of_topic",
}


class LinkEnd(Protocol):
    """A producer or consumer. None of these may block or raise."""

    def received(self, command: pb.Command, rest: bytes) -> None: ...

    def lost(self, error: MagnetarError) -> None:
        """The link is gone."""


class BrokerLink(asyncio.Protocol):
    """`connect`: the CONNECT. `on_end` is called once, when it is of no more use."""

    _transport: asyncio.Transport

    def __init__(self, connect: pb.Connect, message_bytes_max: int, keep_alive_s: float, on_end: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._connect = connect
        self._parser = Parser(message_bytes_max)
        self._keep_alive_s = keep_alive_s
        self._on_end = on_end
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._requests: dict[int, asyncio.Future[pb.Command]] = {}
        self._ids = 0
        self._ended: MagnetarError | None = None
        self._heard = True
        self._asked = False
        self._timer: asyncio.TimerHandle | None = None
        self.producers: dict[int, LinkEnd] = {}
        self.consumers: dict[int, LinkEnd] = {}

    # --- life

    async def open(self, dialler: BrokerDialler, place: BrokerPlace) -> None:
        """Raises `NotReady`, or the error with which the other broker refuses."""
        try:
            async with asyncio.timeout(CONNECT_S):
                await dialler.dial(lambda: self, place)
                await self._connected
        except (OSError, TimeoutError) as error:
            refused = NotReady("the broker that serves the topic cannot be reached at the moment: try again")
            self.end(refused)
            raise refused from error
        except MagnetarError as error:
            self.end(error)
            raise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # those of uvloop are no instances of it
        if self._ended is not None:  # given up while it was dialled
            self._transport.abort()
            return
        self._transport.write(frames.command(Command.CONNECT, connect=self._connect))
        self._timer = self._loop.call_later(self._keep_alive_s, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(NotReady("the connection to the broker that serves the topic was lost: try again"))

    def end(self, error: MagnetarError) -> None:
        """Idempotent. Everything on it is told."""
        if self._ended is not None:
            return
        self._ended = error
        if self._timer is not None:
            self._timer.cancel()
        if not self._connected.done():
            self._connected.set_exception(error)
            self._connected.exception()  # whoever does not wait for it need not hear of it
        for answer in self._requests.values():
            _fail(answer, error)
        self._requests.clear()
        endpoints = [*self.producers.values(), *self.consumers.values()]
        self.producers, self.consumers = {}, {}
        self._on_end()
        for endpoint in endpoints:
            endpoint.lost(error)
        if hasattr(self, "_transport"):
            self._transport.close()

    @property
    def usable(self) -> bool:
        return self._ended is None

    def _look(self) -> None:
        """Whether the other broker is still there: it may be stopped, and its socket open."""
        if self._heard:
            self._heard = self._asked = False
        elif self._asked:
            self.give_up("the broker that serves the topic does not answer: try again")
            return
        else:
            self._asked = True
            self.write(frames.PING)
        self._timer = self._loop.call_later(self._keep_alive_s, self._look)

    def give_up(self, why: str) -> None:
        """What the other broker has not read is not kept for it. Idempotent."""
        self.end(NotReady(why))
        if hasattr(self, "_transport"):
            self._transport.abort()

    # --- sending

    def check_unsent(self) -> None:
        """Gives the link up where the other broker reads too little of it. For what is written without waiting for an answer."""
        if self._ended is None and self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self.give_up("the broker that serves the topic does not take what is acknowledged: try again")

    def write(self, data: bytes) -> None:
        if self._ended is None:
            self._transport.write(data)

    def new_id(self) -> int:
        """Of a producer, a consumer or a request."""
        self._ids += 1
        return self._ids

    def ask(self, kind: pb.Command.Type, field: str, body: Any) -> asyncio.Future[pb.Command]:
        """Sends a request, whose id this sets. The future has the answer, or the error; nobody has to wait for it."""
        answer: asyncio.Future[pb.Command] = self._loop.create_future()
        if self._ended is not None:
            _fail(answer, self._ended)
            return answer
        body.request_id = self.new_id()
        self._requests[body.request_id] = answer
        self.write(frames.command(kind, **{field: body}))
        return answer

    async def request(self, kind: pb.Command.Type, field: str, body: Any) -> pb.Command:
        answer = self.ask(kind, field, body)
        try:
            async with asyncio.timeout(REQUEST_S):
                return await answer
        except TimeoutError:
            raise NotReady("the broker that serves the topic does not answer: try again") from None
        finally:
            self._requests.pop(body.request_id, None)

    # --- receiving

    def data_received(self, data: bytes) -> None:
        self._heard = True
        try:
            for command, rest in self._parser.receive(data):
                self._received(command, rest)
        except ProtocolError as error:
            self.end(NotReady(f"the broker that serves the topic sent what cannot be read: {error}"))

    def _received(self, command: pb.Command, rest: bytes) -> None:
        kind = command.type
        if kind in _OF_CONSUMERS:
            consumer = self.consumers.get(getattr(command, _OF_CONSUMERS[kind]).consumer_id)
            if consumer is not None:
                consumer.received(command, rest)
        elif kind in _OF_PRODUCERS:
            producer = self.producers.get(getattr(command, _OF_PRODUCERS[kind]).producer_id)
            if producer is not None:
                producer.received(command, rest)
        elif kind in _ANSWERS:
            self._answered(command, getattr(command, _ANSWERS[kind]))
        elif kind == Command.PING:
            self.write(frames.PONG)
        elif kind == Command.CONNECTED and not self._connected.done():
            if command.connected.max_message_size > 0:
                self._parser.message_bytes_max = command.connected.max_message_size
            self._connected.set_result(None)

    def _answered(self, command: pb.Command, body: Any) -> None:
        if command.type == Command.ACK_RESPONSE and not body.HasField("request_id"):  # why a consumer is about to be closed
            consumer = self.consumers.get(body.consumer_id)
            if consumer is not None:
                consumer.received(command, b"")
            return
        answer = self._requests.pop(body.request_id, None)
        if command.type == Command.ERROR:
            error = error_of(body.error, body.message)
            if answer is not None:
                _fail(answer, error)
            elif body.request_id == frames.UNSOLICITED:  # it refuses the client
                self.end(error)
        elif answer is not None and not answer.done():
            if command.type == Command.ACK_RESPONSE and body.HasField("error"):
                _fail(answer, error_of(body.error, body.message))
            else:
                answer.set_result(command)


def error_of(code: int, message: str) -> MagnetarError:
    """The code 1 is of preconditions: an encryption that is missing, a subscription that others use."""
    return PreconditionFailed(message) if code == 1 else from_wire(code, message)


def _fail(answer: asyncio.Future[pb.Command], error: MagnetarError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # whoever does not wait for it need not hear of it
