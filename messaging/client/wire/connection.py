"""One connection to a broker: `Session` with a transport, futures and timers around it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from messaging.client.addresses import Address
from messaging.client.failures import ConnectionLost
from messaging.client.wire.parser import Received
from messaging.client.wire.session import Answered, Session, State
from messaging.client.wire.tokens import renewal_delay_s
from messaging.client.wire.transports import HIGH_WATER_BYTES, Connector, Transport
from messaging.errors import MagnetarError
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.version import VERSION

logger = logging.getLogger("messaging.client")

CLIENT_VERSION = f"Magnetar-Python-v{VERSION}"
TIMER_S_MAX = 7 * 86_400.0  # what is due later is planned again
Token = Callable[[], Awaitable[str | None]]
Command = pb.Command


class Request(Protocol):
    """A command that is answered under its id."""

    request_id: int


class Endpoint(Protocol):
    """A producer or a consumer, as its connection sees it. None of these may block or raise."""

    def received(self, command: pb.Command, rest: bytes) -> None: ...

    def connection_lost(self, error: MagnetarError) -> None:
        """Also when the broker closed this producer or consumer alone: it is to be opened again."""

    def can_write(self) -> None:
        """The peer takes more again."""


class Connection:
    """Made by `Connections`. `broker`: whom the proxy at `address` connects to, None without a proxy.

    Ids of producers and consumers are unique over all connections of a client."""

    def __init__(
        self,
        address: Address,
        broker: Address | None,
        token: Token,
        wall_ms: Callable[[], int],
        *,
        message_bytes_max: int,
        keep_alive_s: float,
        timeout_s: float,
    ) -> None:
        self.address = address
        self._broker = broker
        self.busy = False  # the peer takes what was written slower than it is written
        self.producers: dict[int, Endpoint] = {}
        self.consumers: dict[int, Endpoint] = {}
        self._token = token
        self._wall_ms = wall_ms
        self._keep_alive_s = keep_alive_s
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._session = Session(message_bytes_max, keep_alive_s, self._loop.time())
        self._transport: Transport | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._token_sent: str | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._renewal_timer: asyncio.TimerHandle | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()

    # --- life

    async def open(self, connect: Connector) -> None:
        """Raises `Unreachable`, or the error with which the broker refuses."""
        token = self._token_sent = await self._token()
        self._transport = await connect(self.address, self)
        try:
            self._session.connect(CLIENT_VERSION, token, self._broker)
            self._flush()
            async with asyncio.timeout(self._timeout_s):
                await asyncio.shield(self._ready)
        except TimeoutError:
            self.fail(ConnectionLost(f"{self.address} did not answer CONNECT within {self._timeout_s:g} s"))
            raise ConnectionLost(f"{self.address} did not answer CONNECT within {self._timeout_s:g} s") from None
        except BaseException as error:
            self.fail(error if isinstance(error, MagnetarError) else ConnectionLost("cancelled"))
            raise
        self._timer = self._loop.call_later(self._keep_alive_s, self._tick)
        self._plan_renewal()

    @property
    def usable(self) -> bool:
        return self._session.state is State.READY

    @property
    def message_bytes_max(self) -> int:
        return self._session.message_bytes_max

    async def close(self) -> None:
        """Returns when the transport is gone; what was written before was sent, if the peer takes it."""
        self._flush()
        if self._transport is not None:
            transport, self._transport = self._transport, None
            self._end(ConnectionLost("the connection was closed"))
            transport.close()
            await self._ended

    def forked(self) -> None:
        """In a new process. The socket is the parent's, and so is what its event loop waits by: neither is touched."""
        self._transport = None
        self._session.state = State.FAILED

    def fail(self, error: MagnetarError) -> None:
        """Ends the connection at once. Idempotent."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            self._end(error)
            transport.abort()

    def _end(self, error: MagnetarError) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._renewal is not None:
            self._renewal.cancel()
        if self._renewal_timer is not None:
            self._renewal_timer.cancel()
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # whoever opens it looks; nobody else has to
        self._session.fail(error)
        endpoints = [*self.producers.values(), *self.consumers.values()]
        self.producers.clear()
        self.consumers.clear()
        for endpoint in endpoints:
            endpoint.connection_lost(error)

    def _tick(self) -> None:
        if self._session.tick(self._loop.time()):
            self.fail(ConnectionLost(f"{self.address} is silent since {2 * self._keep_alive_s:g} s"))
            return
        self._flush()
        self._timer = self._loop.call_later(self._keep_alive_s, self._tick)

    # --- what the transport tells

    def received(self, data: bytes) -> None:
        if self._transport is None:
            return
        try:
            events = self._session.receive(data, self._loop.time())
        except frames.ProtocolError as error:
            self.fail(ConnectionLost(f"{self.address} broke the protocol: {error}"))
            return
        except MagnetarError as error:
            self.fail(error)
            return
        if self._session.state is State.READY and not self._ready.done():
            self._ready.set_result(None)
        for event in events:
            self._dispatch(event)
        if self._session.challenged and self._renewal is None:
            self._renewal = self._loop.create_task(self._renew())
        if self._session.outgoing:
            self._flush()

    def paused(self, paused: bool) -> None:
        self.busy = paused
        if not paused:
            for endpoint in (*self.producers.values(), *self.consumers.values()):
                endpoint.can_write()

    def lost(self, reason: str) -> None:
        if self._transport is not None:
            self._transport = None
            self._end(ConnectionLost(f"the connection to {self.address} was lost: {reason}"))
        if not self._ended.done():
            self._ended.set_result(None)

    def _dispatch(self, event: Received) -> None:
        command = event.command
        kind = command.type
        endpoint: Endpoint | None
        if kind == Command.MESSAGE:
            endpoint = self.consumers.get(command.message.consumer_id)
        elif kind == Command.SEND_RECEIPT:
            endpoint = self.producers.get(command.send_receipt.producer_id)
        elif kind == Command.SEND_ERROR:
            endpoint = self.producers.get(command.send_error.producer_id)
        elif kind == Command.CLOSE_PRODUCER:
            endpoint = self.producers.pop(command.close_producer.producer_id, None)
            if endpoint is not None:
                endpoint.connection_lost(ConnectionLost("the broker closed the producer, to be opened again"))
            return
        elif kind == Command.CLOSE_CONSUMER:
            endpoint = self.consumers.pop(command.close_consumer.consumer_id, None)
            if endpoint is not None:
                endpoint.connection_lost(ConnectionLost("the broker closed the consumer, to be opened again"))
            return
        elif kind == Command.ACTIVE_CONSUMER_CHANGE:
            endpoint = self.consumers.get(command.active_consumer_change.consumer_id)
        elif kind == Command.REACHED_END_OF_TOPIC:
            endpoint = self.consumers.get(command.reached_end_of_topic.consumer_id)
        else:
            return  # of a protocol version that we did not ask for
        if endpoint is not None:
            endpoint.received(command, event.rest)

    # --- the token

    def _plan_renewal(self) -> None:
        """A token that ends is renewed before, so that nothing waits for the broker to ask for another."""
        if self._renewal_timer is not None:
            self._renewal_timer.cancel()
            self._renewal_timer = None
        delay_s = None if self._token_sent is None else renewal_delay_s(self._token_sent, self._wall_ms() / 1000)
        if delay_s is not None and delay_s > TIMER_S_MAX:
            self._renewal_timer = self._loop.call_later(TIMER_S_MAX, self._plan_renewal)
        elif delay_s is not None:
            self._renewal_timer = self._loop.call_later(delay_s, self._renewal_due)

    def _renewal_due(self) -> None:
        self._renewal_timer = None
        if self._renewal is None:
            self._renewal = self._loop.create_task(self._renew())

    async def _renew(self) -> None:
        try:
            token = await self._token()
        except Exception as error:  # the user's function
            self._renewal = None
            why = f"no new token: {type(error).__name__}: {error}"
            if self._session.challenged:
                lost = ConnectionLost(why)
                lost.__cause__ = error
                self.fail(lost)
            else:
                logger.warning("%s: %s; the old one is still valid", self.address, why)
                self._plan_renewal()
            return
        self._renewal = None
        if token != self._token_sent or self._session.challenged:
            self._token_sent = token
            self._session.renew(CLIENT_VERSION, token)
            self._flush()
        self._plan_renewal()

    # --- writing

    def send(self, data: bytes) -> None:
        """What is sent in one turn of the loop is one write, if it is not too much. Ignored once the connection is lost."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > HIGH_WATER_BYTES:
            self._flush()  # the transport says whether the peer takes that much

    def tell(self, kind: pb.Command.Type, field: str, body: Request) -> None:
        """A request whose answer is ignored."""
        body.request_id = self._session.new_request_id()
        self.send(frames.command(kind, **{field: body}))

    def _flush(self) -> None:
        parts = [*self._session.outgoing, *self._unsent]
        self._session.outgoing.clear()
        self._unsent.clear()
        self._unsent_bytes = 0
        if parts and self._transport is not None:
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def ask(self, kind: pb.Command.Type, field: str, body: Request, answered: Answered) -> int:
        """Sends the request with an id of its own, and returns that. Unless it is forgotten before, `answered` is called once: with
        the answer, or with why there is none. Raises `ConnectionLost`."""
        if not self.usable:
            raise ConnectionLost(f"the connection to {self.address} is closed")
        request_id = self._session.new_request_id()
        body.request_id = request_id
        self._session.expect(request_id, kind, answered)
        self.send(frames.command(kind, **{field: body}))
        return request_id

    def forget(self, request_id: int) -> None:
        """An answer that comes later is ignored."""
        self._session.forget(request_id)

    async def request(self, kind: pb.Command.Type, field: str, body: Request, timeout_s: float | None = None) -> pb.Command:
        """Sends the request and returns its answer. Raises the broker's error or `ConnectionLost`. Cancelled, it ignores the
        answer."""
        future: asyncio.Future[pb.Command] = self._loop.create_future()

        def answered(answer: pb.Command | MagnetarError) -> None:
            if future.done():
                return
            if isinstance(answer, MagnetarError):
                future.set_exception(answer)
            elif answer.type == Command.PRODUCER_SUCCESS and not answer.producer_success.producer_ready:
                waiting.reschedule(None)  # exclusive access may take as long as its owner stays
            else:
                future.set_result(answer)

        request_id = self.ask(kind, field, body, answered)
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(limit_s) as waiting:
                return await future
        except TimeoutError:
            raise ConnectionLost(f"{self.address} did not answer {field} within {limit_s:g} s") from None
        finally:
            self.forget(request_id)
