"""uvicorn inside our event loop: without its signal handlers, polling and log, and with the limits of this package.

uvicorn would handle SIGTERM itself, wake up ten times a second, and log query strings, which may contain tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Callable, Iterator

import uvicorn
import uvicorn.server

from messaging.http_server.bounds import HttpBounds
from messaging.http_server.connection_slots import ConnectionSlots
from messaging.http_server.protocol import HEAD_BYTES_MAX, HttpProtocol, protocol_of
from messaging.http_server.request_queue import App
from messaging.http_server.tls import BACKLOG, TlsListener
from messaging.http_server.tunnel import Tunnels
from messaging.http_server.websocket import WebSocketProtocol
from messaging.settings import Settings

DATE_STEP_S = 1.0


class HttpServer(uvicorn.server.Server):
    """`serve` it in a task; it accepts when `listening` is set, and stops when `ending` is."""

    def __init__(
        self, config: uvicorn.Config, bounds: HttpBounds, protocol: Callable[..., HttpProtocol], tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(config)
        self.bounds = bounds
        self._protocol = protocol
        self._tls = tls
        self.listening = asyncio.Event()
        self.ending = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tls is None or sockets is None:
            await super().startup(sockets)
            return
        await self.lifespan.startup()
        make = functools.partial(self._protocol, config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        self.servers = [TlsListener(sock, self._tls, make) for sock in sockets]  # type: ignore[misc]
        self.started = True

    async def main_loop(self) -> None:
        self.listening.set()
        while not self.ending.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DATE_STEP_S if self.config.date_header else None):
                    await self.ending.wait()

    def cut(self) -> None:
        """Ends what did not end in the time that it was given."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def http_server(
    app: App,
    settings: Settings,
    *,
    connections_max: int,
    tls: ssl.SSLContext | None,
    websockets: bool,
    websocket_bytes_max: int = 0,
    grace_s: float,
    date_header: bool = False,
    tunnels: Tunnels | None = None,
) -> HttpServer:
    bounds = HttpBounds(
        header_s=settings.http_header_timeout_ms / 1000,
        transfer_s=settings.http_transfer_timeout_ms / 1000,
        slots=ConnectionSlots(connections_max),
    )
    protocol = protocol_of(bounds, tunnels)
    config = uvicorn.Config(
        app,
        interface="asgi3",
        loop="none",
        lifespan="off",
        http=protocol,  # type: ignore[arg-type]
        ws=WebSocketProtocol if websockets else "none",
        ws_max_size=websocket_bytes_max,
        ws_ping_interval=settings.keep_alive_ms / 1000,
        ws_ping_timeout=settings.keep_alive_ms / 1000,
        ws_per_message_deflate=False,  # costs more than it saves, and a bomb cannot be sent through it
        log_config=None,
        log_level="error",  # below that it logs request lines and headers, and a line for each bad request
        access_log=False,
        proxy_headers=False,  # what a peer says of another peer is not believed here
        server_header=False,
        date_header=date_header,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        timeout_keep_alive=settings.http_idle_timeout_ms / 1000,  # type: ignore[arg-type]
        timeout_graceful_shutdown=grace_s,  # type: ignore[arg-type]
    )
    return HttpServer(config, bounds, protocol, tls)
