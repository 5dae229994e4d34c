"""Writes the responses of one HTTP connection in pieces, so that the amount that waits for the peer is known.

A TLS transport does not report what waits in the transport below it, so a body that is written at once would seem to be sent at
once. Therefore a body is written piece by piece, the next one when the transport accepts more; the rest is counted here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PIECE_BYTES = 64 << 10
LINE_BYTES = 20  # of a status line; about as much as what frames a piece


class ResponseWriter:
    """ASGI, around the application. `left_bytes`: of the body in progress, not handed over yet; `handed_bytes`: since the
    connection was made, about."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.left_bytes = 0
        self.handed_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_pieces(event: Event) -> None:
            if event["type"] == "http.response.body":
                await self._send_body(event, send)
            else:
                self.handed_bytes += LINE_BYTES + sum(len(name) + len(value) + 4 for name, value in event.get("headers", ()))
                await send(event)

        await self._app(scope, receive, send_in_pieces)

    async def _send_body(self, event: Event, send: Send) -> None:
        body = event.get("body", b"")
        view = memoryview(body)
        try:
            for start in range(0, max(1, len(body)), PIECE_BYTES):
                piece = view[start : start + PIECE_BYTES]
                self.left_bytes = len(body) - start - len(piece)
                self.handed_bytes += LINE_BYTES + len(piece)
                await send({**event, "body": piece, "more_body": bool(self.left_bytes) or event.get("more_body", False)})
        finally:
            self.left_bytes = 0
