"""The HTTP server alone, with an application that only answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from messaging.http_server.request_queue import RequestQueues
from messaging.http_server.server import HttpServer, http_server
from messaging.http_server.tunnel import Tunnels
from messaging.settings import Settings
from messaging.tls import server_context

LARGE_BYTES = 32 << 20
MESSAGE_BYTES_MAX = 1 << 20


class NoThrottle:
    def begin(self) -> bool:
        return False

    def end(self) -> None: ...

    def leave(self) -> None: ...


class App:
    """`/held` answers when it is let, `/large` with much, `/body` when it has read all. A WebSocket at `/counted` is one that the
    application counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.read_bytes = 0
        self.texts: list[str] = []
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        if scope["type"] == "websocket":
            await receive()
            if scope["path"] == "/refuses":
                await send({"type": "websocket.http.response.start", "status": 403, "headers": []})
                await send({"type": "websocket.http.response.body", "body": b"no"})
                return
            if scope["path"].startswith("/counted"):
                scope["state"]["counts_begun"](lambda resume: NoThrottle())
            await send({"type": "websocket.accept"})
            if scope["path"].startswith("/closes"):
                if scope["path"] == "/closes/unread":
                    await send({"type": "websocket.send", "bytes": bytes(LARGE_BYTES)})
                await send({"type": "websocket.close", "code": 4401})
                while (await receive())["type"] != "websocket.disconnect":
                    pass
                return
            await self.go_on.wait()
            if scope["path"] == "/counted/ends":
                await send({"type": "websocket.close", "code": 4401})
            while (event := await receive())["type"] == "websocket.receive":
                self.texts.append(event["text"])
            return
        if scope["path"] == "/held":
            await self.go_on.wait()
        while scope["path"] == "/body":
            event = await receive()
            self.read_bytes += len(event.get("body", b""))
            if not event.get("more_body"):
                break
        body = bytes(LARGE_BYTES) if scope["path"] == "/large" else b"ok"
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Running:
    def __init__(self, app: App, server: HttpServer, port: int) -> None:
        self.app = app
        self.server = server
        self.port = port

    @property
    def taken(self) -> int:
        return self.server.bounds.slots.taken


@asynccontextmanager
async def running(
    connections_max: int = 8, *, data_dir: str = "unused", tunnels: Tunnels | None = None, **settings: Any
) -> AsyncIterator[Running]:
    app = App()
    configured = Settings(data_dir=data_dir, **settings)
    server = http_server(
        RequestQueues(app, 100, 100),
        configured,
        connections_max=connections_max,
        tls=server_context(configured),
        websockets=True,
        websocket_bytes_max=MESSAGE_BYTES_MAX,
        grace_s=0.1,
        tunnels=tunnels,
    )
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    task = asyncio.create_task(server.serve(sockets=[sock]))
    await server.listening.wait()
    try:
        yield Running(app, server, sock.getsockname()[1])
    finally:
        app.go_on.set()
        server.cut()
        server.ending.set()
        await task
