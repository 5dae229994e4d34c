"""The outermost ASGI layer: checks `Host` and `Origin` and limits the size of request bodies. Plain ASGI, so that it covers
WebSockets too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from messaging.http_guard import Hosts, HostView, Refusal, refusal
from messaging.limits.rest import BODY_BYTES_MAX
from messaging.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def internal_hosts(settings: Settings) -> HostView:
    """Of the listener for our own processes: where it listens, what brokers are told, and the names in settings."""
    named = filter(None, (settings.web_internal_host, urlsplit(settings.web_internal_url).hostname))
    return Hosts(settings.web_internal_host, settings.client_host, (*named, *settings.allowed_hosts))


class Guard:
    def __init__(self, application: Application, hosts: HostView) -> None:
        self._application = application
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._application(scope, receive, send)
        headers = scope["headers"]
        refused = refusal(_one(headers, b"host"), _one(headers, b"origin"), self._hosts)
        if scope["type"] == "websocket":
            if refused is not None:
                await receive()
                return await send({"type": "websocket.close", "code": 1008, "reason": refused.reason[:120]})
            return await self._application(scope, receive, send)
        length = _one(headers, b"content-length")
        if refused is None and length is not None and (not length.isdecimal() or int(length) > BODY_BYTES_MAX):
            refused = Refusal(413, f"the request body is larger than {BODY_BYTES_MAX} bytes: send less")
        if refused is not None:
            return await _refuse(receive, send, *refused)
        await self._bounded(scope, receive, send)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Django spools a body to disk before a view sees it, so a body without a length is limited here."""
        received, started, passed = 0, False, False

        async def counted_receive() -> MutableMapping[str, Any]:
            nonlocal received, passed
            message = await receive()
            received += len(message.get("body", b""))
            if received > BODY_BYTES_MAX:
                passed = True
                return {"type": "http.disconnect"}
            return message

        async def noted_send(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            started = True
            await send(message)

        await self._application(scope, counted_receive, noted_send)
        if passed and not started:
            await _refuse(receive, send, 413, f"the request body is larger than {BODY_BYTES_MAX} bytes: send less")


DISCARDED_BYTES_MAX, DISCARDED_S = 16 << 20, 5.0  # of a body that is refused
_CODES = {403: "foreign_origin", 413: "too_large", 421: "unknown_host"}


async def _refuse(receive: Receive, send: Send, status: int, reason: str) -> None:
    """One shape that the readers of all our errors understand. Then the connection is closed, once the rest of the body has come: a
    client that is still sending would see a connection that was reset, and no answer."""
    fields = {
        "type": "about:blank",
        "status": status,
        "detail": reason,
        "reason": reason,
        "code": _CODES[status],
        "message": reason,
    }
    body = msgspec.json.encode(fields)
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARDED_S):
            await _discard(receive)
    await send({"type": "http.response.body"})


async def _discard(receive: Receive) -> None:
    left = DISCARDED_BYTES_MAX
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if not message.get("more_body"):  # its end, or the client has left
            return


def _one(headers: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The header's value; two different values count as an invalid one."""
    values = {value for key, value in headers if key == name}
    if not values:
        return None
    return values.pop().decode("latin-1") if len(values) == 1 else ""
