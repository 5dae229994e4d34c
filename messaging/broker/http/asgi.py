"""Small ASGI helpers: headers, bounded bodies, responses. They know nothing about the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from messaging.client_address import client_address as address_behind
from messaging.errors import InvalidValue, MagnetarError, MessageTooLarge, NotReady, UnderWay
from messaging.local_caller import is_local_caller

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
T = TypeVar("T")
App = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = "application/json"


def header(scope: Scope, name: str) -> str | None:
    """The value of a header, or None. Repeated headers are joined by commas, which makes a `Host` or token invalid."""
    key = name.lower().encode("ascii")
    values = [value.decode("latin-1") for given, value in scope["headers"] if given.lower() == key]
    return ", ".join(values) if values else None


def bearer_token(scope: Scope) -> str | None:
    """The token of ``Authorization: Bearer <token>``, or None without the header. Never raises: another scheme gives an empty
    token."""
    value = header(scope, "authorization")
    if value is None:
        return None
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def peer_certificate(scope: Scope) -> Mapping[str, Any] | None:
    """That which the peer of this connection presented and the handshake verified, as `ssl` has it (`http_server.protocol`)."""
    certificate: Mapping[str, Any] | None = scope.get("state", {}).get("peer_certificate")
    return certificate


def peer_left(scope: Scope) -> bool:
    """Whether nobody waits for the answer any more, as far as this machine knows (`http_server.protocol`)."""
    look: Callable[[], bool] = scope.get("state", {}).get("peer_left", bool)
    return look()


def path_parts(scope: Scope) -> list[str]:
    """The parts of the path, each decoded separately, so that an encoded slash stays in its part. Raises `InvalidValue`."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    try:
        return [unquote(part, errors="strict") for part in raw.decode("ascii").split("/")[1:]]
    except UnicodeDecodeError:
        raise InvalidValue("the path is not UTF-8 in URL encoding") from None


def match_route(pattern: str, parts: Sequence[str]) -> dict[str, str] | None:
    """The values of ``{names}`` in `pattern` if the path matches it, else None. No value is empty."""
    wanted = pattern.split("/")[1:]
    if len(wanted) != len(parts):
        return None
    values: dict[str, str] = {}
    for want, part in zip(wanted, parts, strict=True):
        if want.startswith("{"):
            values[want[1:-1]] = part
        elif want != part:
            return None
    return values if all(values.values()) else None


def caller_is_local(scope: Scope, host: str) -> bool:
    """`host`: the address that the listeners bind to."""
    client, server = scope.get("client"), scope.get("server")
    if not client or not server:
        return False
    names = (name.decode("latin-1") for name, _ in scope["headers"])
    return is_local_caller(host, client[0], server[0], names)


def client_address(scope: Scope, trusted_proxies: Sequence[str]) -> str:
    """The address of the client without the port: the peer of the connection, or the one that a proxy in `trusted_proxies`
    reports."""
    client = scope.get("client")
    return address_behind(str(client[0]), header(scope, "x-forwarded-for") or "", trusted_proxies) if client else ""


async def read_body(receive: Receive, bytes_max: int, timeout_s: float) -> bytes:
    """The request's body. Raises `MessageTooLarge` as soon as more than `bytes_max` have arrived, and `InvalidValue` if it is not
    complete within `timeout_s`."""
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise InvalidValue("the request ended before its body was complete")
                chunk: bytes = event.get("body", b"")
                size += len(chunk)
                if size > bytes_max:
                    raise MessageTooLarge(f"the body is larger than {bytes_max} bytes: send less")
                chunks.append(chunk)
                if not event.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError:
        raise InvalidValue(f"the body did not arrive within {timeout_s:g} s") from None


async def while_connected(receive: Receive, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the caller leaves; then raises `NotReady`, which nobody reads. Call it when the
    request's body has been read."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise NotReady("the caller left before the answer")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
        del working, leaving  # an error of the work knows this frame: neither would be freed (`fairness/in_thread.py`)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def respond(send: Send, status: int, body: bytes, content_type: str = JSON, headers: Sequence[tuple[str, str]] = ()) -> None:
    fields = [("content-type", content_type), ("content-length", str(len(body))), ("x-content-type-options", "nosniff"), *headers]
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def error_body(error: MagnetarError) -> bytes:
    about = {"change": error.change} if isinstance(error, UnderWay) else {}
    return msgspec.json.encode({"code": error.code, "message": error.message, **about})
