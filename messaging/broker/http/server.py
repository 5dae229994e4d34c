"""The broker's two HTTP listeners, in its event loop: the admin RPC, and the public one."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

from messaging.broker.http.app import public_app, rpc_app
from messaging.broker.http.asgi import App
from messaging.broker.http.context import Edge, EdgeContext, EdgeCounters, ServiceIdentityVerifier
from messaging.clock import wall_ms
from messaging.http_guard import Hosts
from messaging.http_server.request_queue import RequestQueues
from messaging.http_server.samples import connection_samples, request_samples
from messaging.http_server.server import HttpServer, http_server
from messaging.identity import ServiceVerifier
from messaging.internal_tls import internal_server_context
from messaging.settings import Settings

GRACE_S = 2  # what open requests get to finish when the broker stops


class HttpListeners:
    """The running listeners. The port of a disabled listener is -1."""

    def __init__(self, counters: EdgeCounters) -> None:
        self.counters = counters
        self.rpc_port = -1
        self.ws_port = -1
        self._running: list[tuple[HttpServer, asyncio.Task[None]]] = []

    async def _listen(self, app: App, sock: socket.socket, settings: Settings, tls: ssl.SSLContext | None, ws: bool) -> int:
        port: int = sock.getsockname()[1]
        request_queues, name = (
            RequestQueues(app, settings.http_connections_max, settings.http_requests_waiting_max),
            "public" if ws else "rpc",
        )
        server = http_server(
            request_queues,
            settings,
            # WebSockets that are signed in are among the connections of the broker. These are requests, and WebSockets before that
            # and while they are being closed: the longest silent of them make room.
            connections_max=settings.http_connections_max + (settings.connections_unauthenticated_max if ws else 0),
            tls=tls,
            websockets=ws,
            websocket_bytes_max=ws_message_bytes_max(settings),
            grace_s=GRACE_S,
        )
        self.counters.listeners.append(partial(connection_samples, name, server.bounds))
        self.counters.listeners.append(partial(request_samples, name, request_queues))
        task = asyncio.create_task(server.serve(sockets=[sock]), name=f"http-{port}")
        self._running.append((server, task))
        listening = asyncio.create_task(server.listening.wait())
        await asyncio.wait({task, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if task.done():
            task.result()
        return port

    async def stop(self) -> None:
        """Stops listening, gives requests `GRACE_S` to finish, and closes the rest. Idempotent."""
        running, self._running = self._running, []
        for server, _ in running:
            server.ending.set()
        await asyncio.gather(*(task for _, task in running), return_exceptions=True)
        for server, _ in running:
            server.cut()


async def start_http(
    edge: Edge,
    settings: Settings,
    *,
    rpc_sock: socket.socket | None,
    ws_sock: socket.socket | None,
    tls_context: ssl.SSLContext | None = None,
    verifier: ServiceIdentityVerifier | None = None,
    clock_ms: Callable[[], int] | None = None,
) -> HttpListeners:
    """Serves the admin RPC on `rpc_sock` and WebSockets on `ws_sock`, both bound already; returns when both accept.

    `tls_context` is for the public listener; the admin RPC has one of its own where the settings name its certificate. The sockets
    belong to the listeners from here on. Raises `ConfigError` for a certificate that cannot be used.
    """
    counters = EdgeCounters()
    context = EdgeContext(
        edge=edge,
        settings=settings,
        verifier=verifier or ServiceVerifier.from_settings(settings),
        clock_ms=clock_ms or wall_ms,
        hosts=settings,
        counters=counters,
    )
    listeners = HttpListeners(counters)
    try:
        if rpc_sock is not None:
            named = [urlsplit(url).hostname or "" for url in settings.broker_rpc_urls]
            rpc_hosts = Hosts(settings.broker_rpc_host, settings.client_host, (*named, *settings.allowed_hosts))
            app = rpc_app(replace(context, hosts=rpc_hosts))
            listeners.rpc_port = await listeners._listen(
                app, rpc_sock, settings, internal_server_context(settings, "broker"), ws=False
            )
        if ws_sock is not None:
            listeners.ws_port = await listeners._listen(public_app(context), ws_sock, settings, tls_context, ws=True)
    except BaseException:
        await listeners.stop()
        raise
    return listeners


def ws_message_bytes_max(settings: Settings) -> int:
    """The longest accepted WebSocket message: the largest payload in base64, and 64 KiB for everything else."""
    return (settings.message_bytes_max + 2) // 3 * 4 + (64 << 10)
