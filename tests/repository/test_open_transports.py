"""That a transport which a test leaves open is noticed in that test."""

from __future__ import annotations

import asyncio

from tests.support.open_transports import watched


async def _connection(answer: bytes = b"") -> tuple[asyncio.Server, asyncio.StreamWriter]:
    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    server.close()
    return server, writer


def test_what_nobody_closed_is_named_and_cut_off() -> None:
    with watched() as left:
        loop = asyncio.new_event_loop()
        _, writer = loop.run_until_complete(_connection())
        loop.close()
    assert len(left) == 1 and "SelectorSocketTransport" in left[0]
    assert writer.transport.get_extra_info("socket").fileno() == -1


def test_what_was_closed_is_not() -> None:
    async def scenario() -> None:
        _, writer = await _connection()
        writer.close()

    with watched() as left:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(scenario())
        loop.close()
    assert left == []
