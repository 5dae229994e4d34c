"""The binary protocol inside binary WebSocket messages: the very connection of TCP, on a transport that is a WebSocket.

The bytes of all messages of a peer are one stream: a frame may span messages, and a message may hold several frames. Nothing is
known of the peer until its CONNECT, so the limits before sign-in are those of TCP, and its messages may not be larger than them
until then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from messaging.broker.http.asgi import (
    JSON,
    Receive,
    Scope,
    Send,
    caller_is_local,
    client_address,
    error_body,
    header,
    peer_certificate,
)
from messaging.broker.http.context import BinaryConnection, EdgeContext, MakeConnection, StreamEnd
from messaging.broker.http.websocket.link import BAD_DATA, GOING_AWAY, NORMAL
from messaging.broker.http.websocket.memory import MessageThrottle
from messaging.errors import InvalidValue, MagnetarError, NotAuthorized, NotReady
from messaging.http_guard import refusal
from messaging.protocol.session import EARLY_BYTES_MAX

BINARY_PATTERN = "/ws/v2/binary"
SUBPROTOCOL = "pulsar.binary.v1"
MESSAGE_BYTES = 1 << 20  # of ours at most
EMPTY_MESSAGES_MAX = 100  # in a row: they cost a turn of the loop each and bring nothing


class WebSocketTransport(asyncio.Transport):
    """What a connection of the binary protocol writes to, over ASGI. `local` False hides the own address, so that the peer counts
    as one from elsewhere, whatever the address of the proxy. `closing` is called when the connection is to end: it counts no longer
    among those of the broker. `limits` follow when the peer has signed in."""

    def __init__(
        self,
        peer: tuple[str, int],
        own: tuple[str, int] | None,
        certificate: Mapping[str, Any] | None = None,
        closing: Callable[[], None] | None = None,
    ) -> None:
        super().__init__({"peername": peer, "sockname": own, "peercert": certificate, "websocket": True})
        self._on_closing = closing
        self.cut = asyncio.get_running_loop().create_future()  # resolved when the WebSocket is to end at once
        self._unsent: deque[bytes | memoryview] = deque()
        self._unsent_bytes = 0
        self._high = 64 << 10
        self._writing_paused = False
        self._closing = False
        self._to_send = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._connection: StreamEnd | None = None
        self._limits: MessageLimits | None = None

    def begin(self, connection: BinaryConnection, limits: MessageLimits) -> None:
        self._connection = connection
        self._limits = limits
        connection.connection_made(self)

    def data_received(self, data: bytes) -> None:
        if self._connection is not None and not self._closing:
            self._connection.data_received(data)

    def end(self, connection: BinaryConnection) -> None:
        """The WebSocket is over, for `connection` and for who took its place."""
        self.abort()
        if self._connection is not None and self._connection is not connection:
            self._connection.connection_lost(None)
        connection.connection_lost(None)

    # --- for the connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.cut.done() or not data:
            return
        self._unsent.append(bytes(data) if isinstance(data, bytearray) else data)
        self._unsent_bytes += len(data)
        if self._limits is not None and self._limits.follow():  # before the peer reads that it has signed in
            self._limits = None
        self._to_send.set()
        self._watch_buffer()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._connection = protocol
        self._writing_paused = False
        self._may_read.set()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        for data in list_of_data:
            self.write(data)

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high if high is not None else 64 << 10
        self._watch_buffer()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._close()
        self._may_read.set()
        self._to_send.set()

    def abort(self) -> None:
        self._close()
        if not self.cut.done():
            self.cut.set_result(None)

    def _close(self) -> None:
        if not self._closing:
            self._closing = True
            if self._on_closing is not None:
                self._on_closing()

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def is_reading(self) -> bool:
        return self._may_read.is_set()

    def _watch_buffer(self) -> None:
        if self._connection is None or self._closing:
            return
        if not self._writing_paused and self._unsent_bytes > self._high:
            self._writing_paused = True
            self._connection.pause_writing()
        elif self._writing_paused and self._unsent_bytes <= self._high // 4:
            self._writing_paused = False
            self._connection.resume_writing()

    # --- for the WebSocket

    async def may_read(self) -> bool:
        """Returns when more may be read; False if nothing will be any more."""
        await self._may_read.wait()
        return not self._closing

    async def write_all(self, send: Send) -> None:
        """Until it is closed and everything was sent."""
        while self._unsent or not self._closing:
            if not self._unsent:
                self._to_send.clear()
                await self._to_send.wait()
                continue
            data = self._next_message()
            await send({"type": "websocket.send", "bytes": data})
            self._unsent_bytes -= len(data)
            self._watch_buffer()

    def _next_message(self) -> bytes:
        parts: list[bytes | memoryview] = []
        size = 0
        while self._unsent and size < MESSAGE_BYTES:
            part = self._unsent.popleft()
            if size + len(part) > MESSAGE_BYTES:
                view = memoryview(part)
                self._unsent.appendleft(view[MESSAGE_BYTES - size :])
                part = view[: MESSAGE_BYTES - size]
            parts.append(part)
            size += len(part)
        return b"".join(parts)


def is_binary(scope: Scope) -> bool:
    return bool(scope["path"] == BINARY_PATTERN)


async def serve_binary(context: EdgeContext, scope: Scope, receive: Receive, send: Send) -> None:
    """Handles one WebSocket from upgrade to close. Who the peer is says its CONNECT, as over TCP; a key in a header is ignored."""
    scope["query_string"] = b""  # it may hold a token, and uvicorn logs what it finds here
    if (await receive())["type"] != "websocket.connect":
        return
    make = context.edge.make_connection
    refused = refusal(header(scope, "host"), header(scope, "origin"), context.hosts)
    if refused is not None:
        await _refuse(context, send, refused[0], NotAuthorized(refused[1]))
    elif SUBPROTOCOL not in scope["subprotocols"]:
        why = f"{BINARY_PATTERN} speaks {SUBPROTOCOL} only: name it in Sec-WebSocket-Protocol"
        await _refuse(context, send, 400, InvalidValue(why))
    elif make is None:
        await _refuse(context, send, 503, NotReady("the broker does not take binary connections yet: try again"))
    else:
        await _serve(context, make, scope, receive, send)


async def _refuse(context: EdgeContext, send: Send, status: int, error: MagnetarError) -> None:
    context.counters.refused["binary", str(status)] += 1
    body = error_body(error)
    headers = [(b"content-type", JSON.encode()), (b"content-length", str(len(body)).encode())]
    try:
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": body})
    except OSError:
        pass  # it did not wait for the answer


async def _serve(context: EdgeContext, make: MakeConnection, scope: Scope, receive: Receive, send: Send) -> None:
    tls = scope.get("scheme") == "wss"
    client = scope.get("client") or ("?", 0)
    address = client_address(scope, context.settings.trusted_proxies) or str(client[0])
    own = scope.get("server") if caller_is_local(scope, context.settings.host) else None
    bound = None if own is None else (str(own[0]), int(own[1] or 0))
    closing = scope.get("state", {}).get("counts_no_longer")
    transport = WebSocketTransport((address, int(client[1])), bound, peer_certificate(scope), closing)
    connection = make(tls)
    limits = MessageLimits(context, connection, scope.get("state", {}))
    context.counters.opened["binary"] += 1
    context.counters.connections["binary"] += 1
    try:
        await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL})
        transport.begin(connection, limits)
        try:
            await _run(transport, receive, send)
        finally:
            transport.end(connection)
    except OSError:
        pass  # the peer went away
    finally:
        context.counters.connections["binary"] -= 1


async def _run(transport: WebSocketTransport, receive: Receive, send: Send) -> None:
    reader = asyncio.create_task(_read(transport, receive))
    writer = asyncio.create_task(transport.write_all(send))
    try:
        await asyncio.wait({reader, writer, transport.cut}, return_when=asyncio.FIRST_COMPLETED)
        if reader.done() and not reader.cancelled() and reader.exception() is None and reader.result() is not None:
            await send({"type": "websocket.close", "code": BAD_DATA, "reason": reader.result()})
        elif writer.done() or transport.cut.done():
            await send({"type": "websocket.close", "code": NORMAL if writer.done() else GOING_AWAY, "reason": ""})
    finally:
        for task in (reader, writer):
            task.cancel()
        results = await asyncio.gather(reader, writer, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, OSError):
            raise result


async def _read(transport: WebSocketTransport, receive: Receive) -> str | None:
    """Returns why the peer broke the rules of this sub-protocol; None if it left."""
    empty = 0
    while await transport.may_read():
        event = await receive()
        if event["type"] == "websocket.disconnect":
            return None
        data = event.get("bytes")
        if data is None:
            return f"{SUBPROTOCOL} has no text messages: send binary ones"
        empty = 0 if data else empty + 1
        if empty > EMPTY_MESSAGES_MAX:
            return f"{EMPTY_MESSAGES_MAX} messages in a row were empty"
        if data:
            transport.data_received(data)
    return None


class MessageLimits:
    """What a WebSocket message may have before it is handed on: as much as all commands before sign-in, then as the largest
    frame; and then the part of one that has arrived counts as its tenant's."""

    def __init__(self, context: EdgeContext, connection: BinaryConnection, state: dict[str, Any]) -> None:
        self._context = context
        self._connection = connection
        self._limit: Callable[[int], None] | None = state.get("limit_messages")
        self._counts_begun: Callable[[Callable[[Callable[[], None]], MessageThrottle]], None] | None = state.get("counts_begun")
        if self._limit is not None:
            self._limit(EARLY_BYTES_MAX)  # nothing was read yet: the WebSocket is accepted afterwards

    def follow(self) -> bool:
        """With each answer until it returns True: whether the peer is known now. Its sign-in ends between two messages."""
        principal = self._connection.principal
        if principal is None:
            return False
        context, limit_bytes = self._context, self._context.settings.message_bytes_max + (64 << 10)
        if self._limit is not None:
            self._limit(limit_bytes)
        if self._counts_begun is not None:
            limiter = context.broker.ingress_limiter
            self._counts_begun(lambda on_resume: MessageThrottle(limiter, principal.tenant, limit_bytes, on_resume))
        return True
