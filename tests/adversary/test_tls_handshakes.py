"""TLS handshakes: connections count before they have shaken hands, and few handshakes begin in a turn of the loop."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from messaging.broker.runtime.turn_loop import TurnLoop
from messaging.broker.runtime.wire.tls_listener import BEGUN_COST, Handshake, TlsListener
from tests.support.brokers.running_broker import RunningBroker, running_broker
from tests.support.clients.raw_client import RawClient
from tests.support.waiting import eventually


class Secure:
    def __init__(self, broker: RunningBroker, folder: Path) -> None:
        self.broker = broker
        self.port = urlsplit(broker.service.addresses.broker_url_tls).port or 0
        self.context = ssl.create_default_context(cafile=str(folder / "tls" / "ca.pem"))
        self.peers = broker.service.peers

    async def client(self) -> RawClient:
        return RawClient(*await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context))

    async def plain(self, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        return reader, writer

    def first_message(self) -> bytes:
        """A whole ClientHello."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        peer = self.context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with pytest.raises(ssl.SSLWantReadError):
            peer.do_handshake()
        return outgoing.read()


async def said(reader: asyncio.StreamReader) -> bytes:
    """Everything until the broker ends the connection: by a reset, where it has not read what was sent to it."""
    data = bytearray()
    try:
        while piece := await reader.read(4096):
            data += piece
    except ConnectionResetError:
        pass
    return bytes(data)


@asynccontextmanager
async def secure(folder: Path, **settings: Any) -> AsyncIterator[Secure]:
    async with running_broker(folder, tls="self-signed", broker_tls_port=0, **settings) as broker:
        yield Secure(broker, folder)


async def test_a_client_signs_in_over_tls_and_takes_one_place(tmp_path: Path) -> None:
    async with secure(tmp_path) as at:
        client = await at.client()
        await client.connect(at.broker.token("superuser"))
        assert await client.quiet() == []
        assert (at.peers.shares.authenticated, at.peers.shares.unauthenticated) == (1, 0)
        await client.close()
        await eventually(lambda: at.peers.shares.authenticated == 0)


async def test_silent_sockets_on_the_tls_port_keep_nobody_out(tmp_path: Path) -> None:
    """They were not counted at all until the handshake was over, for a minute each."""
    async with secure(tmp_path, connections_unauthenticated_max=10) as at:
        silent = [await at.plain() for _ in range(50)]
        await eventually(lambda: at.peers.refused["made room for others"] >= 40)
        assert at.peers.shares.unauthenticated <= 10
        client = await at.client()
        await client.connect(at.broker.token("superuser"))
        assert await client.quiet() == []
        await client.close()
        for _, writer in silent:
            writer.close()


async def test_few_handshakes_begin_in_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = 0
    begun: Counter[int] = Counter()
    real_turn, real_begin = TurnLoop.run_turn, TlsListener.begin_handshake

    def turned(loop: TurnLoop[Handshake]) -> None:
        nonlocal turn
        turn += 1
        real_turn(loop)

    def began(listener: TlsListener, handshake: Handshake) -> None:
        begun[turn] += 1
        real_begin(listener, handshake)

    monkeypatch.setattr(TurnLoop, "run_turn", turned)
    monkeypatch.setattr(TlsListener, "begin_handshake", began)
    async with secure(tmp_path) as at:
        hello = at.first_message()
        crowd = [await at.plain(hello) for _ in range(40)]
        await eventually(lambda: sum(begun.values()) == 40)
        assert max(begun.values()) < BEGUN_COST
        for _, writer in crowd:
            writer.close()


async def test_nothing_is_spent_on_half_a_first_message_and_it_has_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Handshake] = []
    monkeypatch.setattr(TlsListener, "begin_handshake", lambda listener, handshake: begun.append(handshake))
    async with secure(tmp_path, handshake_ms=300) as at:
        reader, writer = await at.plain(at.first_message()[:100])
        assert await said(reader) == b""
        assert at.peers.refused["no TLS handshake"] == 1 and begun == []
        assert at.peers.shares.unauthenticated == 0
        writer.close()


async def test_a_handshake_that_does_not_go_on_has_a_deadline(tmp_path: Path) -> None:
    async with secure(tmp_path, handshake_ms=300) as at:
        reader, writer = await at.plain(at.first_message())
        assert await said(reader), "the broker's part of the handshake, and then the end"
        await eventually(lambda: at.peers.shares.unauthenticated == 0)
        assert at.peers.refused["no TLS handshake"] == 1
        writer.close()


async def test_a_handshake_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """On the loop that the product runs on a failed handshake closes the socket: looking for it raised in a task."""
    async with secure(tmp_path) as at:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        reader, writer = await at.plain(at.first_message())
        assert await reader.readexactly(1) == b"\x16"
        writer.transport.abort()
        await eventually(lambda: at.peers.shares.unauthenticated == 0)
        await asyncio.sleep(0)
        assert failures == [] and at.peers.refused["no TLS handshake"] == 1


async def test_a_connection_without_tls_is_ended_at_once(tmp_path: Path) -> None:
    async with secure(tmp_path) as at:
        reader, writer = await at.plain(b"GET / HTTP/1.1\r\n\r\n")
        assert await said(reader) == b""
        assert at.peers.refused["no TLS"] == 1
        writer.close()


async def test_a_first_message_in_pieces_is_waited_for(tmp_path: Path) -> None:
    async with secure(tmp_path) as at:
        hello = at.first_message()
        reader, writer = await at.plain(hello[:3])
        await eventually(lambda: at.peers.shares.unauthenticated == 1)
        writer.write(hello[3:])
        assert (await reader.readexactly(1)) == b"\x16"
        writer.close()
        await eventually(lambda: at.peers.shares.unauthenticated == 0)


async def test_with_tls_only_this_machine_reaches_the_port_without(tmp_path: Path) -> None:
    """With TLS and `host = 0.0.0.0`, port 6650 was open to everybody beside 6651: keys and messages could be read on the way."""
    async with running_broker(tmp_path, tls="self-signed", broker_tls_port=0, host="0.0.0.0") as broker:
        addresses = broker.service.addresses
        plain, encrypted = urlsplit(addresses.broker_url), urlsplit(addresses.broker_url_tls)
        assert plain.hostname == "127.0.0.1"
        _, writer = await asyncio.open_connection("127.0.0.1", plain.port)
        writer.close()
        _, writer = await asyncio.open_connection("127.0.0.2", encrypted.port)  # another address of this machine
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", plain.port)
