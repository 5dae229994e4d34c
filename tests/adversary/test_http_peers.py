"""Peers that hold the HTTP ports of a whole platform without asking for anything.

Seen: 150 half-sent requests were open after 80 s; nothing kept such peers from taking all there was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.brokers.standalone import Standalone
from tests.support.clients.raw_http import Peer, peers

pytestmark = pytest.mark.xdist_group("http_peers")  # one platform at a time
CROWD = 150
BOUNDS = {
    "MAGNETAR_BROKER_TLS_PORT": "0",
    "MAGNETAR_HTTP_CONNECTIONS_MAX": "40",
    "MAGNETAR_CONNECTIONS_MAX": "40",
    "MAGNETAR_HTTP_HEADER_TIMEOUT_MS": "1000",
    "MAGNETAR_HTTP_TRANSFER_TIMEOUT_MS": "1000",
}
HALVES = {
    "silent": b"",
    "half a request line": b"GET /api/v1/te",
    "half the headers": b"GET /api/v1/tenants HTTP/1.1\r\nHost: localhost\r\nX-A: b",
    "half a body": b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc",
    "half a chunk": b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\nabc",
}


@pytest.fixture(scope="module", params=["off", "self-signed"], ids=["plain", "tls"])
def platform(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    folder: Path = tmp_path_factory.mktemp("peers") / "data"
    running = Standalone(folder, MAGNETAR_TLS=request.param, **BOUNDS)
    try:
        yield running.start()
    finally:
        running.close()


def url_of(platform: Standalone, which: str) -> str:
    url: str = platform.ready["web_url" if which == "web" else "ws_url"]
    return url.replace("ws", "http", 1) if which == "broker" else url


async def status(platform: Standalone, which: str, path: str) -> int:
    return (await asyncio.to_thread(platform.http, "GET", path, url=url_of(platform, which))).status


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
@pytest.mark.parametrize("which", ["web", "broker"])
async def test_half_a_request_is_not_waited_for_and_keeps_nobody_out(platform: Standalone, which: str, half: bytes) -> None:
    port = urlsplit(url_of(platform, which)).port or 0
    async with peers(port, CROWD) as crowd:
        for peer in crowd:
            peer.say(half)
        for path in ("/healthz", "/readyz", "/metrics"):
            assert await status(platform, which, path) == 200
        await asyncio.gather(*map(Peer.gone, crowd))


@pytest.mark.parametrize("platform", ["off"], ids=["plain"], indirect=True, scope="module")  # over TLS frames cannot be cut by hand
async def test_a_websocket_message_that_does_not_end_is_not_waited_for(platform: Standalone) -> None:
    port = urlsplit(platform.ready["ws_url"]).port or 0
    upgrade = (
        b"GET /ws/v2/producer/persistent/public/default/t HTTP/1.1\r\nHost: localhost\r\n"
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    begun = b"\x81\xff" + (7 << 20 >> 1).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 1000  # 3.5 MiB, of which 1000 bytes come
    async with peers(port, 10) as crowd:
        for peer in crowd:
            peer.say(upgrade)
            assert await peer.status() == 101
            peer.say(begun)
        await asyncio.gather(*map(Peer.gone, crowd))
        assert await status(platform, "broker", "/readyz") == 200
