"""WebSockets that are passed on to another listener, over real sockets; the other listener is scripted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from messaging.http_server.protocol import HEAD_BYTES_MAX, READ_BYTES_MAX
from messaging.http_server.tunnel import READ_BYTES, UNSENT_BYTES, Tunnel, Tunnels, TurnedAway
from tests.support.clients.raw_http import Peer, get, peers
from tests.support.running_http_server import Running, running
from tests.support.waiting import eventually

UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n"
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\nno"
REFUSED = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno"


class Target:
    """`answer` is what it says to each request; empty: nothing."""

    def __init__(self) -> None:
        self.answer = ACCEPTED
        self.heads: list[bytes] = []
        self.opened: list[Peer] = []
        self.port = 0
        self.up = True
        self.turned_away = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened.append(Peer(reader, writer))
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answer)

    async def dial(self, make: Callable[[], asyncio.BaseProtocol]) -> TurnedAway:
        if not self.up:
            raise ConnectionRefusedError("down")
        await asyncio.get_running_loop().create_connection(make, "127.0.0.1", self.port)
        return self._turn_away

    def _turn_away(self) -> None:
        self.turned_away += 1


class Gateway:
    def __init__(self, here: Running, target: Target, tunnels: Tunnels) -> None:
        self.here = here
        self.target = target
        self.tunnels = tunnels

    @property
    def port(self) -> int:
        return self.here.port

    @property
    def tunnel(self) -> Tunnel:
        connections: set[Any] = {*self.here.server.server_state.connections}
        [tunnel] = [opened for opened in connections if isinstance(opened, Tunnel)]
        return tunnel

    async def ended(self) -> None:
        connections = self.here.server.server_state.connections
        await eventually(lambda: not self.tunnels.slots.taken and not any(isinstance(each, Tunnel) for each in connections))


@asynccontextmanager
async def gateway(
    tunnels_max: int = 8, stall_s: float = 30, *, trusted_proxies: tuple[str, ...] = (), **settings: Any
) -> AsyncIterator[Gateway]:
    target = Target()
    server = await asyncio.start_server(target.serve, "127.0.0.1", 0)
    target.port = server.sockets[0].getsockname()[1]
    tunnels = Tunnels("/ws/", target.dial, tunnels_max, stall_s, trusted_proxies)
    try:
        async with running(tunnels=tunnels, **settings) as here:
            yield Gateway(here, target, tunnels)
    finally:
        server.close()
        for peer in target.opened:
            peer.writer.transport.abort()


async def opened(peer: Peer, path: str = "/ws/v2/binary", *headers: str) -> None:
    peer.say(get(path, *UPGRADE, *headers))
    assert await peer.status() == 101
    await peer.reader.readuntil(b"\r\n\r\n")


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_bytes_go_both_ways_as_they_came(tls: bool, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"data_dir": str(tmp_path), "tls": "self-signed" if tls else "off"}
    async with gateway(**settings) as here, peers(here.port, 1, tls=tls) as [peer]:
        await opened(peer, "/ws/v2/producer/a%2Fb?token=t")
        [other] = here.target.opened
        for source, sink in ((peer, other), (other, peer)):
            sent = bytes(range(256)) * 5_000
            source.say(sent)
            assert await asyncio.wait_for(sink.reader.readexactly(len(sent)), 20) == sent
        assert here.target.heads[0].startswith(b"GET /ws/v2/producer/a%2Fb?token=t HTTP/1.1\r\nhost: localhost\r\n")
        assert here.here.app.asked == []
        peer.writer.close()
        assert await other.gone() == b""
        await here.ended()


async def test_the_address_of_the_client_is_appended_and_its_cookies_stay() -> None:
    async with gateway() as here, peers(here.port, 1) as [peer]:
        await opened(peer, "/ws/v2/binary", "X-Forwarded-For: 198.51.100.1", "Cookie: sessionid=secret", "Authorization: Bearer t")
        [head] = here.target.heads
        assert b"\r\nx-forwarded-for: 198.51.100.1, 127.0.0.1\r\n" in head
        assert b"secret" not in head
        assert b"\r\nauthorization: Bearer t\r\n" in head


async def test_nothing_follows_a_refusal() -> None:
    """What the client sends next would be a request of its own there, without its address: a caller on this machine."""
    async with gateway() as here, peers(here.port, 1) as [peer]:
        here.target.answer = REFUSED
        peer.say(get("/ws/v2/binary", *UPGRADE))
        assert await peer.status() == 401
        peer.say(get("/healthz"))
        await peer.writer.drain()
        [other] = here.target.opened
        other.writer.close()
        assert (await peer.gone()).endswith(b"no")
        assert await other.gone() == b""
        await here.ended()


@pytest.mark.parametrize(
    ("answer", "turned_away"),
    [(ACCEPTED, 0), (REFUSED, 0), (UNAVAILABLE, 1), (b"", 1)],
    ids=["accepted", "refused", "unavailable", "no answer"],
)
async def test_who_dialled_learns_that_the_other_listener_cannot_serve_it(answer: bytes, turned_away: int) -> None:
    async with gateway() as here, peers(here.port, 1) as [peer]:
        here.target.answer = answer
        peer.say(get("/ws/v2/binary", *UPGRADE))
        await eventually(lambda: here.target.heads)
        if answer:
            await peer.status()
        here.target.opened[0].writer.close()
        await peer.gone()
        await here.ended()
        assert here.target.turned_away == turned_away


async def test_what_is_not_below_the_path_is_served_here() -> None:
    async with gateway() as here, peers(here.port, 2) as [socket, plain]:
        socket.say(get("/live", *UPGRADE))
        assert await socket.status() == 101
        plain.say(get("/ws/v2/binary"))
        assert await plain.status() == 200
        assert here.target.heads == []
        assert here.here.app.asked == ["/live", "/ws/v2/binary"]


@pytest.mark.parametrize("behind", ["the client", "the broker"])
async def test_a_slow_reader_is_waited_for_and_gets_all(behind: str) -> None:
    async with gateway() as here, peers(here.port, 1, small_window=True) as [peer]:
        await opened(peer)
        [other] = here.target.opened
        slow, fast = (peer, other) if behind == "the client" else (other, peer)
        end = here.tunnel.client if behind == "the client" else here.tunnel.target
        slow.stop_reading()
        total = 40 << 20
        fast.say(bytes(total))
        await eventually(lambda: end.transport is not None and end.transport.get_write_buffer_size() > UNSENT_BYTES)
        assert here.here.server.bounds.unread.held_bytes <= UNSENT_BYTES + READ_BYTES
        transport: Any = slow.writer.transport
        transport.resume_reading()
        received = 0
        while received < total:
            received += len(await asyncio.wait_for(slow.reader.read(1 << 20), 20))
            assert end.transport is not None
            assert end.transport.get_write_buffer_size() <= UNSENT_BYTES + READ_BYTES
        assert received == total
        await eventually(lambda: not here.here.server.bounds.unread.held_bytes)


async def test_who_takes_nothing_at_all_is_cut_off() -> None:
    async with gateway(stall_s=0.1) as here, peers(here.port, 1, small_window=True) as [peer]:
        await opened(peer)
        peer.stop_reading()
        here.target.opened[0].say(bytes(40 << 20))
        await here.ended()


async def test_the_rest_is_still_read_where_the_broker_ends_it() -> None:
    async with gateway() as here, peers(here.port, 1) as [peer]:
        await opened(peer)
        [other] = here.target.opened
        other.say(b"x" * 1_000_000)
        other.writer.close()
        assert len(await peer.gone()) == 1_000_000
        await here.ended()


async def test_who_does_not_read_the_rest_is_not_waited_for_long() -> None:
    async with gateway(http_transfer_timeout_ms=60) as here, peers(here.port, 1, small_window=True) as [peer]:
        await opened(peer)
        peer.stop_reading()
        [other] = here.target.opened
        other.say(bytes(200_000))
        other.writer.close()
        await here.ended()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 101 Switch", b"HTTP/1.1 101 Switching Protocols\r\n" + b"a: b\r\n" * 10_000])
async def test_an_answer_that_does_not_end_ends_the_tunnel(answer: bytes) -> None:
    async with gateway(http_transfer_timeout_ms=100) as here, peers(here.port, 1) as [peer]:
        here.target.answer = answer
        peer.say(get("/ws/v2/binary", *UPGRADE))
        assert await peer.gone() == b""
        await here.ended()


async def test_a_broker_that_is_away_is_a_503_until_it_is_back() -> None:
    async with gateway() as here, peers(here.port, 2) as [early, late]:
        here.target.up = False
        early.say(get("/ws/v2/binary", *UPGRADE))
        answer = await early.gone()
        assert answer.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1\r\n" in answer and b"the broker cannot be reached" in answer
        await here.ended()
        here.target.up = True
        await opened(late)


async def test_a_header_has_a_largest_size() -> None:
    async with gateway() as here, peers(here.port, 1) as [peer]:
        peer.say(get("/ws/v2/binary", *UPGRADE, "A: " + "b" * (HEAD_BYTES_MAX + READ_BYTES_MAX)))
        assert await peer.status() == 400
        assert here.target.heads == []


async def test_there_are_so_many_and_they_take_no_places_of_the_console() -> None:
    async with gateway(tunnels_max=5, connections_max=4) as here, peers(here.port, 4) as crowd:
        for peer in crowd[:3]:
            await opened(peer)
        crowd[3].say(get("/ws/v2/binary", *UPGRADE))
        answer = await crowd[3].gone()
        assert answer.startswith(b"HTTP/1.1 503 ") and b"127.0.0.1 has 3 WebSockets and 2 of web_websockets_max = 5" in answer
        await eventually(lambda: here.here.taken == 0)
        assert here.tunnels.slots.taken == 3


async def test_addresses_are_those_of_the_clients_where_the_proxy_is_trusted() -> None:
    async with gateway(tunnels_max=5, trusted_proxies=("127.0.0.1",)) as here, peers(here.port, 5) as crowd:
        for number, peer in enumerate(crowd):
            await opened(peer, "/ws/v2/binary", f"X-Forwarded-For: 192.0.2.{number}")
        assert here.tunnels.slots.taken == 5


async def test_a_tunnel_takes_no_thread_and_no_task() -> None:
    async with gateway(tunnels_max=100, connections_max=100) as here, peers(here.port, 40) as crowd:
        await opened(crowd[0])
        threads, tasks = threading.active_count(), len(asyncio.all_tasks())
        for peer in crowd[1:]:
            await opened(peer)
        assert threading.active_count() == threads
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks)


async def test_the_server_stops_with_tunnels_open() -> None:
    async with gateway() as here, peers(here.port, 1) as [peer]:
        await opened(peer)
        here.here.server.ending.set()
        assert await peer.gone() == b""
        await here.ended()


# --- on the loop of the web process


@pytest.mark.parametrize(
    "scenario",
    [
        partial(test_a_slow_reader_is_waited_for_and_gets_all, "the client"),
        partial(test_a_slow_reader_is_waited_for_and_gets_all, "the broker"),
        test_nothing_follows_a_refusal,
        test_who_takes_nothing_at_all_is_cut_off,
        test_the_rest_is_still_read_where_the_broker_ends_it,
        test_a_broker_that_is_away_is_a_503_until_it_is_back,
        test_the_server_stops_with_tunnels_open,
    ],
)
def test_the_same_on_uvloop(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Its transports are no instances of asyncio's."""
    uvloop.run(scenario())


@pytest.mark.parametrize("tls", [False, True])
def test_bytes_go_both_ways_on_uvloop(tls: bool, tmp_path: Path) -> None:
    uvloop.run(test_bytes_go_both_ways_as_they_came(tls, tmp_path))
