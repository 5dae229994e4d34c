"""Requests to the ASGI application as a server makes them: with a raw path, and with whatever headers a peer sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from asgiref.testing import ApplicationCommunicator


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


async def request(
    application: Any,
    method: str,
    target: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | list[bytes] = b"",
    client: tuple[str, int] = ("127.0.0.1", 50000),
) -> Answer:
    """`body` as a list: a body without a length, in these portions."""
    path, _, query = target.partition("?")
    portions = body if isinstance(body, list) else [body]
    sent = {"host": "127.0.0.1:8080", **{name.lower(): value for name, value in (headers or {}).items()}}
    if not isinstance(body, list):
        sent.setdefault("content-length", str(len(body)))
    else:
        sent.setdefault("transfer-encoding", "chunked")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
        "client": client,
        "server": ("127.0.0.1", 8080),
    }
    peer = ApplicationCommunicator(application, scope)
    for index, portion in enumerate(portions):
        await peer.send_input({"type": "http.request", "body": portion, "more_body": index < len(portions) - 1})
    start = await peer.receive_output(10)
    content = b""
    while True:
        part = await peer.receive_output(10)
        content += part.get("body", b"")
        if not part.get("more_body"):
            break
    await peer.wait(10)
    return Answer(start["status"], {name.decode().lower(): value.decode() for name, value in start["headers"]}, content)


async def websocket(application: Any, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """The first thing that the application answers to the opening of a WebSocket."""
    scope = {
        "type": "websocket",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8080),
        "subprotocols": [],
    }
    peer = ApplicationCommunicator(application, scope)
    await peer.send_input({"type": "websocket.connect"})
    answer: dict[str, Any] = await peer.receive_output(10)
    peer.stop(exceptions=False)
    return answer
