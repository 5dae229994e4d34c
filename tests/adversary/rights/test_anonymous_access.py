"""Anonymous access is for this machine. A reverse proxy on it made everybody local: over WebSockets whatever headers said, and over
the binary protocol also where the listeners were bound to all addresses. Each entrance asks the same function and refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import websockets

from messaging.protocol import pulsar_pb2 as pb
from tests.support.brokers.running_broker import RunningBroker, running_broker
from tests.support.clients.raw_client import RawClient

PRODUCER = "/ws/v2/producer/persistent/public/default/t"
FORWARDED = [
    {"X-Forwarded-For": "203.0.113.7"},
    {"x-forwarded-proto": "https"},
    {"Forwarded": "for=203.0.113.7"},
    {"Via": "1.1 proxy"},
    {"X-Real-IP": "203.0.113.7"},
]


async def websocket_status(broker: RunningBroker, headers: dict[str, str]) -> int:
    """101 if it was opened."""
    try:
        async with websockets.connect(f"{broker.ws_url}{PRODUCER}", additional_headers=headers, proxy=None):
            return 101
    except websockets.InvalidStatus as error:
        return error.response.status_code


async def binary_answer(broker: RunningBroker) -> str:
    client = await RawClient.open(broker.port)
    try:
        client.say(pb.Command.CONNECT, client_version="raw")
        return (await client.next()).name
    finally:
        await client.close()


async def test_a_caller_on_this_machine_may_be_nobody(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        assert await websocket_status(broker, {}) == 101
        assert await binary_answer(broker) == "CONNECTED"


async def test_anonymous_clients_are_refused_where_listeners_are_open_to_others(tmp_path: Path) -> None:
    async with running_broker(tmp_path, host="0.0.0.0") as broker:
        assert await websocket_status(broker, {}) == 401
        assert await binary_answer(broker) == "ERROR"
        token = {"Authorization": f"Bearer {broker.token('superuser')}"}
        assert await websocket_status(broker, token) == 101


@pytest.mark.parametrize("headers", FORWARDED, ids=lambda headers: next(iter(headers)))
async def test_a_websocket_that_was_forwarded_needs_a_token(tmp_path: Path, headers: dict[str, str]) -> None:
    async with running_broker(tmp_path) as broker:
        assert await websocket_status(broker, headers) == 401


@pytest.mark.parametrize("line", [b"PROXY TCP4 203.0.113.7 127.0.0.1 1 2\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12)])
async def test_a_proxy_protocol_line_ends_the_connection(tmp_path: Path, line: bytes) -> None:
    async with running_broker(tmp_path) as broker:
        for port in (broker.port, broker.ws_port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(line)
            answer = await reader.read()
            assert not answer or answer.startswith(b"HTTP/1.1 400"), answer
            writer.close()
