"""Runs the broker's HTTP listeners over a fake service, and a WebSocket client to talk to them with."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import websockets

from messaging.broker.http import HttpListeners, start_http
from messaging.broker.http.context import Edge as ServedEdge
from messaging.broker.runtime.peers import Peers
from messaging.errors import AuthenticationFailed
from messaging.permissions.model import Principal
from messaging.settings import Settings
from tests.support.fake_service import FakeService


class FakeVerifier:
    def verify(self, token: str, now_ms: int) -> Principal:
        if token != "identity":
            raise AuthenticationFailed("the service token is not valid")
        return Principal("service:web", service=True)


def bound() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


def edge_of(service: FakeService) -> ServedEdge:
    return ServedEdge(service, service, service.metrics, service.methods)


class Edge:
    def __init__(self, service: FakeService, listeners: HttpListeners) -> None:
        self.service = service
        self.listeners = listeners

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.listeners.ws_port}"

    @asynccontextmanager
    async def connect(self, path: str, **options: Any) -> AsyncIterator[websockets.ClientConnection]:
        options.setdefault("proxy", None)
        async with websockets.connect(f"{self.ws_url}{path}", **options) as connection:
            yield connection

    async def refused(self, path: str, **options: Any) -> tuple[int, dict[str, str]]:
        """Status and body of an upgrade that must not succeed."""
        try:
            async with self.connect(path, **options):
                raise AssertionError(f"{path} was accepted")
        except websockets.InvalidStatus as error:
            return error.response.status_code, json.loads(error.response.body or b"{}")


@asynccontextmanager
async def running_edge(
    service: FakeService | None = None, *, tls: ssl.SSLContext | None = None, clock_ms: Any = None, port: int = 0, **settings: Any
) -> AsyncIterator[Edge]:
    service = service or FakeService()
    ws_sock = socket.socket()
    ws_sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ws_sock.bind(("127.0.0.1", port))
    configured = Settings(data_dir="unused", **settings)
    service.peers = Peers(configured)
    listeners = await start_http(
        edge_of(service),
        configured,
        rpc_sock=bound(),
        ws_sock=ws_sock,
        tls_context=tls,
        verifier=FakeVerifier(),
        clock_ms=clock_ms,
    )
    try:
        yield Edge(service, listeners)
    finally:
        await listeners.stop()


async def receive_json(connection: websockets.ClientConnection) -> Any:
    return json.loads(await connection.recv())


async def send_json(connection: websockets.ClientConnection, **frame: Any) -> None:
    await connection.send(json.dumps(frame))
