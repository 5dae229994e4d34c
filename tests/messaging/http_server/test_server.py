"""The server's bounds, over real sockets, with deadlines of milliseconds and an application that only answers."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from messaging.http_server import websocket
from messaging.http_server.protocol import HEAD_BYTES_MAX, READ_BYTES_MAX
from messaging.http_server.websocket import FRAMES_A_TURN, PONGS_BYTES_MAX, WebSocketProtocol
from tests.support.clients.raw_http import ask, get, peers
from tests.support.running_http_server import LARGE_BYTES, Running, running
from tests.support.waiting import eventually

UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
TEXT, PING = b"\x81\x81\0\0\0\0x", b"\x89\xfd\0\0\0\0" + b"p" * 125  # masked, as clients send them


@pytest.mark.parametrize("said", [b"", b"G", b"GET / HTTP/1.1\r\nHost: loc", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
async def test_the_head_of_a_request_has_a_deadline(said: bytes) -> None:
    async with running(http_header_timeout_ms=60) as here, peers(here.port, 5) as crowd:
        for peer in crowd:
            peer.say(said)
        assert [await peer.gone() for peer in crowd] == [b""] * 5
        await eventually(lambda: not here.taken)


async def test_the_head_of_the_next_request_has_one_too() -> None:
    async with running(http_header_timeout_ms=60) as here, peers(here.port, 1) as [peer]:
        peer.say(get("/"))
        assert await peer.status() == 200
        peer.say(b"GET /again HT")
        assert (await peer.gone()).endswith(b"ok")
        assert here.app.asked == ["/"]


async def test_a_body_has_to_come_at_a_least_rate() -> None:
    async with running(http_transfer_timeout_ms=60) as here, peers(here.port, 2) as [slow, fast]:
        head = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
        slow.say(head + b"x" * 10)
        fast.say(head + b"x" * 100_000)
        assert await fast.status() == 200
        assert await slow.gone() == b""


@pytest.mark.parametrize("order", [1, -1])
async def test_a_body_with_two_lengths_is_refused(order: int) -> None:
    """One of them was believed, and a proxy before us may believe the other one."""
    lengths = [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"][::order]
    async with running() as here, peers(here.port, 1) as [peer]:
        peer.say(b"POST /body HTTP/1.1\r\nHost: localhost\r\n" + b"".join(lengths) + b"\r\n0\r\n\r\n" + get("/smuggled"))
        answer = await peer.gone()
        assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1
        assert here.app.asked == []


async def test_a_connection_that_rests_is_closed() -> None:
    async with running(http_idle_timeout_ms=60) as here, peers(here.port, 1) as [peer]:
        peer.say(get("/"))
        assert (await peer.gone()).endswith(b"ok")
        await eventually(lambda: not here.taken)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("header", ["Connection: keep-alive", "Connection: close"])
async def test_an_answer_has_to_be_read_at_a_least_rate(header: str, tls: bool, tmp_path: Path) -> None:
    """Over TLS an answer that was written at once was not seen to wait: nobody had to read it."""
    settings: dict[str, Any] = {"data_dir": str(tmp_path), "tls": "self-signed" if tls else "off"}
    async with running(http_transfer_timeout_ms=400, **settings) as here, peers(here.port, 3, small_window=True, tls=tls) as crowd:
        for peer in crowd:
            peer.stop_reading()
            peer.say(get("/large", header))
        await eventually(lambda: here.app.asked == ["/large"] * 3)
        await eventually(lambda: not here.taken)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_answers_that_nobody_reads_take_no_more_memory_than_their_bound(tls: bool, tmp_path: Path) -> None:
    """What uvicorn had buffered was counted nowhere: 512 connections could have 10 GB of answers in memory."""
    settings: dict[str, Any] = {"data_dir": str(tmp_path), "tls": "self-signed" if tls else "off"}
    async with running(connections_max=20, **settings) as here, peers(here.port, 8, small_window=True, tls=tls) as crowd:
        unread = here.server.bounds.unread
        unread.bytes_max = 2 * LARGE_BYTES
        for peer in crowd:
            peer.stop_reading()
            peer.say(get("/large"))
        await eventually(lambda: here.app.asked == ["/large"] * 8)
        await eventually(lambda: here.taken == 8 - unread.cut_off)
        assert 1 <= 8 - unread.cut_off <= 3
        assert 0 < unread.held_bytes <= unread.bytes_max
        assert await ask(here.port, "/", tls=tls) == 200
    assert unread.held_bytes == 0


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_an_answer_that_is_read_comes_whole(tls: bool, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"data_dir": str(tmp_path), "tls": "self-signed" if tls else "off"}
    async with running(http_transfer_timeout_ms=5_000, **settings) as here, peers(here.port, 1, tls=tls) as [peer]:
        peer.say(get("/large", "Connection: close"))
        assert len(await peer.gone()) > LARGE_BYTES


@pytest.mark.parametrize("path", ["/closes/unread", "/closes"])
async def test_a_websocket_that_we_close_is_gone_soon_whatever_its_peer_does(path: str) -> None:
    """It had ten seconds to answer, and after that was kept for as long as it did not read what was sent before: with its place,
    and with what it had not read."""
    async with running(http_transfer_timeout_ms=60) as here, peers(here.port, 3, small_window=True) as crowd:
        for peer in crowd:
            peer.stop_reading()
            peer.say(get(path, *UPGRADE))
        await eventually(lambda: here.app.asked == [path] * 3)
        await eventually(lambda: not here.taken, timeout_s=5)


async def test_a_head_has_a_largest_size() -> None:
    async with running() as here, peers(here.port, 2) as [line, headers]:
        line.say(b"GET /" + b"a" * (HEAD_BYTES_MAX + READ_BYTES_MAX) + b" HTTP/1.1\r\n\r\n")
        headers.say(b"GET / HTTP/1.1\r\n" + b"A: " + b"b" * (HEAD_BYTES_MAX + READ_BYTES_MAX) + b"\r\n\r\n")
        assert [await line.status(), await headers.status()] == [400, 400]
        assert here.app.asked == []


async def test_bytes_before_the_answer_are_bounded() -> None:
    """Seen: 49 KB of requests one behind the other, unread: 2 GB of answers."""
    async with running() as here, peers(here.port, 1) as [peer]:
        peer.say(get("/held") + get("/") * 5000)
        await eventually(lambda: here.app.asked == ["/held"])
        connection: Any = next(iter(here.server.server_state.connections))
        await eventually(lambda: connection.deaf)
        assert len(connection.conn.trailing_data[0]) <= 2 * READ_BYTES_MAX
        here.app.go_on.set()
        assert (await peer.gone()).count(b"HTTP/1.1 200") == 1


async def test_a_few_requests_behind_each_other_are_answered() -> None:
    async with running() as here, peers(here.port, 1) as [peer]:
        peer.say(get("/") * 9 + get("/", "Connection: close"))
        assert (await peer.gone()).count(b"HTTP/1.1 200") == 10


async def test_silent_connections_make_room() -> None:
    async with running(connections_max=8) as here, peers(here.port, 40) as crowd:
        for peer in crowd:
            peer.say(b"GET /half HT")
        assert await ask(here.port, "/") == 200
        assert here.taken <= 8
        assert here.server.bounds.slots.made_room >= 32


async def test_health_answers_where_all_connections_are_busy() -> None:
    async with running(connections_max=4) as here, peers(here.port, 4) as crowd:
        for peer in crowd:
            peer.say(get("/held"))
        await eventually(lambda: here.app.asked == ["/held"] * 4)
        async with peers(here.port, 30):  # and more, who say nothing
            assert await ask(here.port, "/healthz") == 200
            assert await ask(here.port, "/") == 503
        here.app.go_on.set()
        assert [await peer.status() for peer in crowd] == [200] * 4


def websocket_of(here: Running) -> WebSocketProtocol:
    [websocket] = [connection for connection in here.server.server_state.connections if isinstance(connection, WebSocketProtocol)]
    return websocket


async def test_websockets_that_the_application_counts_take_no_places() -> None:
    async with running(connections_max=2) as here, AsyncExitStack() as stack:
        for _ in range(20):
            [peer] = await stack.enter_async_context(peers(here.port, 1))
            peer.say(get("/counted", *UPGRADE))
            assert await peer.status() == 101
        assert not here.taken and await ask(here.port, "/") == 200


async def test_websockets_that_the_application_has_done_with_are_no_more_than_there_are_places() -> None:
    """They do not read that it is over."""
    async with running(connections_max=2, http_transfer_timeout_ms=60_000) as here, AsyncExitStack() as stack:
        for _ in range(40):
            [peer] = await stack.enter_async_context(peers(here.port, 1))
            peer.say(get("/counted/ends", *UPGRADE))
            assert await peer.status() == 101
            peer.stop_reading()
        assert len(here.server.server_state.connections) == 40
        here.app.go_on.set()
        await eventually(lambda: len(here.server.server_state.connections) == here.taken == 2)
        assert await ask(here.port, "/") == 200


@pytest.mark.parametrize("path", ["/closes", "/closes/unread", "/refuses"])
async def test_websockets_that_are_being_closed_make_room(path: str) -> None:
    """They were busy until their peers had let go of them, and in the places for health checks: so one address shut the port."""
    async with running(connections_max=4, http_transfer_timeout_ms=60_000) as here, AsyncExitStack() as stack:
        for count in range(1, 7):
            [peer] = await stack.enter_async_context(peers(here.port, 1, small_window=True))
            peer.stop_reading()
            peer.say(get(path, *UPGRADE))
            await eventually(lambda count=count: len(here.app.asked) == count)  # type: ignore[misc]
        slots = here.server.bounds.slots
        await eventually(lambda: not slots.busy_peers and here.taken <= 4)
        assert await ask(here.port, "/") == 200


async def test_upgrades_are_refused_where_only_the_places_for_health_checks_are_left() -> None:
    async with running(connections_max=2) as here, peers(here.port, 2) as crowd:
        for peer in crowd:
            peer.say(get("/held"))
        await eventually(lambda: here.app.asked == ["/held"] * 2)
        for _ in range(3):
            async with peers(here.port, 1) as [peer]:
                peer.say(get("/ws", *UPGRADE))
                assert await peer.status() == 503
                assert (await peer.gone()).endswith(b'try again in a moment"}')
        assert await ask(here.port, "/healthz") == 200
        assert here.app.asked == ["/held", "/held", "/healthz"]
        here.app.go_on.set()
        assert [await peer.status() for peer in crowd] == [200] * 2


async def test_a_connection_that_we_closed_and_that_is_not_let_go_of_makes_room(tmp_path: Path) -> None:
    """Over TLS the end waits for the peer's answer."""
    settings: dict[str, Any] = {"data_dir": str(tmp_path), "tls": "self-signed", "http_transfer_timeout_ms": 60_000}
    async with running(connections_max=2, **settings) as here, peers(here.port, 2, tls=True) as crowd:
        for peer in crowd:
            peer.stop_reading()
            peer.say(get("/", "Connection: close"))
        await eventually(lambda: here.app.asked == ["/"] * 2)
        await eventually(lambda: not here.server.bounds.slots.busy_peers)
        assert await ask(here.port, "/", tls=True) == 200


async def test_websockets_have_the_keep_alive_of_other_connections() -> None:
    """It was uvicorn's, whatever was set."""
    async with running(keep_alive_ms=50) as here, peers(here.port, 1) as [peer]:
        peer.say(get("/ws", *UPGRADE))
        assert await peer.status() == 101
        assert b"keepalive ping timeout" in await peer.gone(), "it answered no ping"


async def test_websocket_messages_are_read_as_they_are_taken() -> None:
    async with running() as here, peers(here.port, 1) as [peer]:
        peer.say(get("/ws", *UPGRADE))
        assert await peer.status() == 101
        peer.say(TEXT * 100_000)
        await eventually(lambda: websocket_of(here).held_back)
        assert websocket_of(here).queue.qsize() <= READ_BYTES_MAX // len(TEXT) + 1
        here.app.go_on.set()
        await eventually(lambda: len(here.app.texts) == 100_000)
        await eventually(lambda: not websocket_of(here).held_back)


async def test_pings_of_a_peer_that_does_not_read_are_not_answered_without_end() -> None:
    async with running() as here, peers(here.port, 1, small_window=True) as [peer]:
        peer.say(get("/ws", *UPGRADE))
        assert await peer.status() == 101
        peer.stop_reading()
        for _ in range(100):
            peer.say(PING * 1000)
            await peer.writer.drain()
        waiting = websocket_of(here).transport.get_write_buffer_size()
        assert 0 < waiting <= PONGS_BYTES_MAX + READ_BYTES_MAX


async def test_a_websocket_message_that_does_not_end_ends_the_connection() -> None:
    async with running(http_transfer_timeout_ms=60) as here, peers(here.port, 1) as [peer]:
        peer.say(get("/ws", *UPGRADE))
        assert await peer.status() == 101
        peer.say(b"\x81\xfe\xff\xff\0\0\0\0" + b"x" * 1000)
        await peer.gone()
        await eventually(lambda: not here.taken)


@pytest.mark.parametrize("path", ["/", "/body"])
@pytest.mark.parametrize("rest", [b"-1\r\nabc\r\n", b"1;" + b"x" * HEAD_BYTES_MAX + b"\r\n", b"5\r\nabcdefghijk\r\n"])
async def test_a_body_that_breaks_the_protocol_is_no_fault_of_ours(
    path: str, rest: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """One such request, of whomever, left a traceback of 2.5 KB in the log: the application answered it after the 400."""
    async with running() as server, peers(server.port, 1) as (peer,):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        peer.say(head + rest)
        await peer.gone()
        await eventually(lambda: not server.server.server_state.tasks)
    assert [record for record in caplog.records if record.exc_info] == []


async def test_a_body_that_breaks_the_protocol_behind_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as server, peers(server.port, 1) as (peer,):
        peer.writer.write(b"POST /large HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await peer.reader.readexactly(8)
        peer.writer.write(b"-1\r\nabc\r\n")
        await eventually(lambda: not server.server.server_state.connections)
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize("frame", [b"\x00\x80\0\0\0\0", b"\x89\x80\0\0\0\0"], ids=["pieces", "pings"])
async def test_tiny_websocket_frames_are_read_some_a_turn(frame: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """700 KB of pieces of one message stopped the loop for 0.6 s: a read of 256 KB was looked at in one turn."""
    turns: list[int] = []
    real = WebSocketProtocol.look_at

    def looked(self: WebSocketProtocol, data: bytes) -> None:
        before = self._frames
        real(self, data)
        turns.append(self._frames - before)

    monkeypatch.setattr(WebSocketProtocol, "look_at", looked)
    async with running() as server, peers(server.port, 1) as (peer,):
        peer.say(get("/", *UPGRADE))
        await peer.reader.readuntil(b"\r\n\r\n")
        server.app.go_on.set()
        peer.say(b"\x01\x81\0\0\0\0x" + frame * 20_000 + b"\x80\x81\0\0\0\0y")
        await eventually(lambda: server.app.texts == ["xy"])
    assert sum(turns) >= 20_000
    assert max(turns) <= FRAMES_A_TURN + websocket.READ_BYTES_MAX // len(frame)
