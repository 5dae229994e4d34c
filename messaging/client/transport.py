"""The transport of the SDK: a channel for text frames in both directions. Only this module uses the `websockets` library."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import msgspec
import websockets
from websockets.asyncio.client import ClientConnection, connect

from messaging.client.failures import ChannelClosed, Refused
from messaging.local_caller import is_loopback

CONNECT_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 5.0
FRAMES_READ_AHEAD = 16


class Channel(Protocol):
    async def send(self, text: str) -> None:
        """Returns when the frame was handed to the system; waits while the peer does not read. Raises `ChannelClosed`."""

    async def recv(self) -> str:
        """The next frame. Cancelling loses nothing. Raises `ChannelClosed`."""

    async def close(self) -> None:
        """Says goodbye and waits for the answer: what was sent before has then been read. Idempotent, raises nothing."""


# (url, headers) -> an open channel; raises Refused, OSError or TimeoutError.
Connector = Callable[[str, Mapping[str, str]], Awaitable[Channel]]


class _ErrorBody(msgspec.Struct):
    code: str = "internal"
    message: str = ""


@dataclass(frozen=True, slots=True)
class WebSocketConnector:
    """`tls` None verifies against the system's certificates. Proxies come from the environment, but never for loopback."""

    frame_bytes_max: int
    tls: ssl.SSLContext | None = None

    async def __call__(self, url: str, headers: Mapping[str, str]) -> Channel:
        parts = urlsplit(url)
        try:
            connection = await connect(
                url,
                additional_headers=headers,
                ssl=(self.tls or ssl.create_default_context()) if parts.scheme == "wss" else None,
                compression=None,
                max_size=self.frame_bytes_max,
                max_queue=FRAMES_READ_AHEAD,
                open_timeout=CONNECT_TIMEOUT_S,
                close_timeout=CLOSE_TIMEOUT_S,
                proxy=None if is_loopback(parts.hostname or "") else True,
                process_exception=lambda error: error,
                logger=None,
            )
        except websockets.InvalidStatus as error:
            raise _refusal(error.response.status_code, error.response.body) from None
        except websockets.WebSocketException as error:
            raise OSError(f"{parts.hostname}:{parts.port} does not speak WebSocket: {error}") from None
        return _WebSocketChannel(connection)


class _WebSocketChannel:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, text: str) -> None:
        try:
            await self._connection.send(text)
        except websockets.ConnectionClosed as closed:
            raise _closed(closed) from None

    async def recv(self) -> str:
        try:
            frame = await self._connection.recv()
        except websockets.ConnectionClosed as closed:
            raise _closed(closed) from None
        return frame if isinstance(frame, str) else frame.decode("utf-8", "replace")

    async def close(self) -> None:
        try:
            await self._connection.close()
        except (TimeoutError, OSError, websockets.WebSocketException):
            pass  # it is over either way


def _closed(closed: websockets.ConnectionClosed) -> ChannelClosed:
    frame = closed.rcvd or closed.sent
    return ChannelClosed(frame.code if frame else 1006, frame.reason if frame else "")


def _refusal(status: int, body: bytes | bytearray | None) -> Refused:
    try:
        answer = msgspec.json.decode(body or b"{}", type=_ErrorBody)
    except msgspec.DecodeError:
        answer = _ErrorBody()
    code = (
        answer.code
        if answer.code != "internal"
        else {401: "authentication_failed", 403: "not_authorized", 404: "not_found"}.get(status, "internal")
    )
    return Refused(status, code, answer.message or f"the server answered with HTTP status {status}")
