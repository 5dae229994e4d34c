"""uvicorn inside the broker's own event loop: two listeners, no signal handlers, no polling, no log of its own.

uvicorn would take SIGTERM from the broker, wake ten times a second, and write query strings (which may hold tokens) to its log.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from messaging.broker.http.app import public_app, rpc_app
from messaging.broker.http.asgi import App
from messaging.broker.http.context import EdgeContext, EdgeCounters, EdgeService, RpcHostView, ServiceIdentityVerifier, rpc_methods
from messaging.clock import wall_ms
from messaging.identity import ServiceVerifier
from messaging.settings import Settings

KEEP_ALIVE_S = 60  # of web's and workers' connections between calls
HTTP_CONNECTIONS_MAX = 256  # beside `connections_max` WebSockets, so that a full broker still answers health checks
GRACE_S = 2  # what open requests get to finish when the broker stops


class _DeadlineProtocol(H11Protocol):
    """Closes a connection that has not sent a request within `deadline_s`: opening one costs a peer nothing and us memory."""

    deadline_s = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(self.deadline_s, self._no_request_came)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._stop_timer()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _no_request_came(self) -> None:
        self._timer = None
        if vars(self)["cycle"] is None:  # uvicorn says it is never None, and starts it as that
            self.transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _WebSocketProtocol(WebSocketsSansIOProtocol):
    """Knows that an upgrade answered with an HTTP status is finished; uvicorn would log an error for each."""

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.ending = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        self.listening.set()
        await self.ending.wait()


class HttpListeners:
    """The running listeners. Ports are -1 for a listener that was not asked for."""

    def __init__(self, counters: EdgeCounters) -> None:
        self.counters = counters
        self.rpc_port = -1
        self.ws_port = -1
        self._running: list[tuple[_Server, asyncio.Task[None]]] = []

    async def _listen(self, app: App, sock: socket.socket, settings: Settings, tls: ssl.SSLContext | None, ws: bool) -> int:
        port: int = sock.getsockname()[1]
        server = _Server(_config(app, settings, tls, ws))
        task = asyncio.create_task(server.serve(sockets=[sock]), name=f"http-{port}")
        self._running.append((server, task))
        listening = asyncio.create_task(server.listening.wait())
        await asyncio.wait({task, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if task.done():
            task.result()
        return port

    async def stop(self) -> None:
        """Stops listening, lets requests finish for `GRACE_S`, then cuts what is left. Idempotent."""
        running, self._running = self._running, []
        for server, _ in running:
            server.ending.set()
        await asyncio.gather(*(task for _, task in running), return_exceptions=True)
        for server, _ in running:
            for connection in list(server.server_state.connections):
                connection.transport.abort()


async def start_http(
    service: EdgeService,
    settings: Settings,
    *,
    rpc_sock: socket.socket | None,
    ws_sock: socket.socket | None,
    tls_context: ssl.SSLContext | None = None,
    verifier: ServiceIdentityVerifier | None = None,
    clock_ms: Callable[[], int] | None = None,
) -> HttpListeners:
    """Serves the admin RPC on `rpc_sock` and WebSockets on `ws_sock`, both bound already; returns when both accept.

    `tls_context` is for the public listener; the admin RPC is plain on loopback. The sockets belong to the listeners from here on.
    """
    counters = EdgeCounters()
    context = EdgeContext(
        service=service,
        settings=settings,
        verifier=verifier or ServiceVerifier.from_settings(settings),
        clock_ms=clock_ms or wall_ms,
        hosts=settings,
        counters=counters,
        methods=rpc_methods(service),
    )
    listeners = HttpListeners(counters)
    try:
        if rpc_sock is not None:
            told = urlsplit(settings.broker_rpc_url).hostname or settings.broker_rpc_host
            rpc_hosts = RpcHostView(settings.broker_rpc_host, told, settings.allowed_hosts)
            app = rpc_app(replace(context, hosts=rpc_hosts))
            listeners.rpc_port = await listeners._listen(app, rpc_sock, settings, None, ws=False)
        if ws_sock is not None:
            listeners.ws_port = await listeners._listen(public_app(context), ws_sock, settings, tls_context, ws=True)
    except BaseException:
        await listeners.stop()
        raise
    return listeners


def _config(app: App, settings: Settings, tls: ssl.SSLContext | None, ws: bool) -> uvicorn.Config:
    protocol = type("Protocol", (_DeadlineProtocol,), {"deadline_s": settings.handshake_ms / 1000})
    return uvicorn.Config(
        app,
        interface="asgi3",
        loop="none",
        lifespan="off",
        http=protocol,
        ws=_WebSocketProtocol if ws else "none",
        ws_max_size=ws_message_bytes_max(settings),
        ws_per_message_deflate=False,  # costs more than it saves, and a bomb cannot be sent through it
        log_config=None,
        log_level="warning",  # below that uvicorn and websockets log request lines and headers
        access_log=False,
        proxy_headers=False,  # what a peer says of another peer is not believed
        server_header=False,
        date_header=False,
        limit_concurrency=settings.connections_max + HTTP_CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        ssl_context_factory=functools.partial(_given, tls) if tls is not None else None,
    )


def _given(tls: ssl.SSLContext, config: uvicorn.Config, default: object) -> ssl.SSLContext:
    return tls


def ws_message_bytes_max(settings: Settings) -> int:
    """The longest WebSocket message taken: the largest payload in base64, and 64 KiB for all that is around it."""
    return (settings.message_bytes_max + 2) // 3 * 4 + (64 << 10)
