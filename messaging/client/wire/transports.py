"""The transports of the SDK: a stream of bytes over TCP, with TLS or without, or over the binary messages of a WebSocket.

Only this module knows sockets, and only `connect_web_socket` the `websockets` library, which it loads when it is needed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from messaging.client.addresses import Address
from messaging.client.failures import Unreachable
from messaging.local_caller import is_loopback

CONNECT_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 5.0
SUBPROTOCOL = "pulsar.binary.v1"
WEBSOCKET_MESSAGE_BYTES = 1 << 20  # of ours at most: a frame of the binary protocol may span several
MESSAGE_BYTES_MAX = 8 << 20  # of the peer's: the gateway sends no more than 1 MiB in one
HIGH_WATER_BYTES = 1 << 20  # unsent bytes from which writing pauses


class Receiver(Protocol):
    """What a transport tells. None of these may block or raise."""

    def received(self, data: bytes) -> None: ...

    def paused(self, paused: bool) -> None:
        """Whether the peer takes what was written slower than it is written."""

    def lost(self, reason: str) -> None:
        """Once, whoever ended it."""


class Transport(Protocol):
    def write(self, data: bytes) -> None:
        """Never blocks; what the peer does not take yet waits in memory. Ignored once the transport is lost."""

    def close(self) -> None:
        """What was written is still sent, if the peer takes it soon. Idempotent."""

    def abort(self) -> None:
        """At once."""


# (address, what is told) -> an open transport; raises `Unreachable`.
Connector = Callable[[Address, Receiver], Awaitable[Transport]]


def connector(tls: ssl.SSLContext | None = None) -> Connector:
    """`tls` None verifies against the system's certificates."""

    async def connect(address: Address, receiver: Receiver) -> Transport:
        context = (tls or ssl.create_default_context()) if address.tls else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                if address.web_socket:
                    return await connect_web_socket(address, receiver, context)
                return await connect_tcp(address, receiver, context)
        except TimeoutError:
            raise Unreachable(f"{address} is not responding: no connection within {CONNECT_TIMEOUT_S:g} s") from None
        except OSError as error:
            raise Unreachable(f"no connection to {address}: {error}") from None

    return connect


# --- TCP ----------------------------------------------------------------------------------------------------------------------


class _Stream(asyncio.Protocol):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._transport: asyncio.Transport | None = None
        self._abort: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # those of uvloop are no instances of it
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)

    def data_received(self, data: bytes) -> None:
        self._receiver.received(data)

    def pause_writing(self) -> None:
        self._receiver.paused(True)

    def resume_writing(self) -> None:
        self._receiver.paused(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._abort is not None:
            self._abort.cancel()
        self._receiver.lost(str(exc) if exc is not None else "the peer closed the connection")

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None and self._abort is None:
            self._abort = asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self.abort)
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def connect_tcp(address: Address, receiver: Receiver, tls: ssl.SSLContext | None) -> Transport:
    loop = asyncio.get_running_loop()
    name = address.host if tls is not None else None
    _, stream = await loop.create_connection(lambda: _Stream(receiver), address.host, address.port, ssl=tls, server_hostname=name)
    return stream


# --- WebSocket ----------------------------------------------------------------------------------------------------------------


class WebSocketConnection(Protocol):
    """What is used of the library's connection."""

    @property
    def transport(self) -> asyncio.Transport: ...

    def send(self, message: bytes) -> Awaitable[None]: ...

    def recv(self) -> Awaitable[str | bytes]: ...

    def close(self) -> Awaitable[None]: ...


class _WebSocket:
    """What is written in one turn of the loop leaves in as few messages as possible."""

    def __init__(self, connection: WebSocketConnection, receiver: Receiver) -> None:
        self._connection = connection
        self._receiver = receiver
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._paused = False
        self._to_send = asyncio.Event()
        self._closing = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name="magnetar websocket")

    def write(self, data: bytes) -> None:
        if self._closing:
            return
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        self._to_send.set()
        if self._unsent_bytes > HIGH_WATER_BYTES and not self._paused:
            self._paused = True
            self._receiver.paused(True)

    def close(self) -> None:
        self._closing = True
        self._to_send.set()

    def abort(self) -> None:
        self._closing = True
        self._connection.transport.abort()  # else the library says goodbye, and waits for the answer
        self._task.cancel()

    async def _run(self) -> None:
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        reason = "closed"
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            reason = next((str(error) for task in done if (error := task.exception()) is not None), reason)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._closing = True
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._connection.close()
            except (OSError, TimeoutError):
                pass  # it is over either way
            finally:
                self._receiver.lost(reason)

    async def _read(self) -> None:
        while True:
            message = await self._connection.recv()
            if isinstance(message, str):
                raise ConnectionError("the broker sent a text message: it does not speak the binary protocol here")
            self._receiver.received(message)

    async def _write(self) -> None:
        while self._unsent or not self._closing:
            if not self._unsent:
                self._to_send.clear()
                await self._to_send.wait()
                continue
            data, self._unsent, self._unsent_bytes = b"".join(self._unsent), [], 0
            for at in range(0, len(data), WEBSOCKET_MESSAGE_BYTES):
                await self._connection.send(data[at : at + WEBSOCKET_MESSAGE_BYTES])
            if self._paused and self._unsent_bytes <= HIGH_WATER_BYTES:
                self._paused = False
                self._receiver.paused(False)


async def connect_web_socket(address: Address, receiver: Receiver, tls: ssl.SSLContext | None) -> Transport:
    """Proxies come from the environment, but never for loopback."""
    import websockets
    from websockets.asyncio.client import connect
    from websockets.typing import Subprotocol

    try:
        connection = await connect(
            str(address),
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            ssl=tls,
            compression=None,
            max_size=MESSAGE_BYTES_MAX,  # the frames inside have their own limit, but one message is kept until it is complete
            open_timeout=CONNECT_TIMEOUT_S,
            close_timeout=CLOSE_TIMEOUT_S,
            ping_interval=None,  # the protocol inside has its own
            proxy=None if is_loopback(address.host) else True,
            process_exception=lambda error: error,
            logger=None,
        )
    except websockets.InvalidStatus as error:
        raise Unreachable(f"{address} answered with HTTP status {error.response.status_code}: {_reason(error)}") from None
    except websockets.WebSocketException as error:
        raise Unreachable(f"{address} does not speak WebSocket: {error}") from None
    if connection.subprotocol != SUBPROTOCOL:
        await connection.close()
        raise Unreachable(f"{address} does not speak {SUBPROTOCOL}")
    return _WebSocket(connection, receiver)


def _reason(error: object) -> str:
    body = getattr(getattr(error, "response", None), "body", None) or b""
    return bytes(body[:300]).decode("utf-8", "replace")
