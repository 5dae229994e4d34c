"""The binary protocol over WebSockets: the same connection as over TCP, with its limits, and what only a WebSocket can do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from messaging import client as magnetar
from messaging.broker.http.websocket.binary import BINARY_PATTERN, EMPTY_MESSAGES_MAX, SUBPROTOCOL
from messaging.broker.runtime.wire.connection import Connection
from messaging.client import errors
from messaging.client.wire.parser import Parser
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.session import EARLY_BYTES_MAX
from tests.support.brokers.running_broker import RunningBroker, running_broker
from tests.support.clients.raw_http import ask, get, peers
from tests.support.clients.websocket_peer import close_of
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"
CONNECT = frames.command(pb.Command.CONNECT, connect=pb.Connect(client_version="test", protocol_version=20))


async def taken(broker: RunningBroker) -> int:
    """Places of the public listener, by what it says itself."""
    async with peers(broker.ws_port, 1) as [peer]:
        peer.say(get("/metrics", "Connection: close"))
        figures = (await peer.gone()).decode()
    return int(float(figures.partition('\nmagnetar_http_connections{listener="public"} ')[2].partition("\n")[0])) - 1


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, handshake_ms=2000) as running:
        yield running


def opened(broker: RunningBroker, **more: Any) -> connect:
    options: dict[str, Any] = {"subprotocols": [Subprotocol(SUBPROTOCOL)], "proxy": None, **more}
    return connect(broker.ws_url + BINARY_PATTERN, **options)


async def lost(connection: ClientConnection) -> None:
    with pytest.raises(websockets.ConnectionClosed):
        async with asyncio.timeout(10):
            while True:
                await connection.recv()


async def test_the_sdk_has_the_whole_protocol_over_a_websocket(broker: RunningBroker) -> None:
    async with (
        magnetar.connect(broker.ws_url, key=broker.token("owner")) as client,
        client.producer(TOPIC, compression="lz4") as producer,
        client.consumer(TOPIC, "s", ack_receipts=True) as consumer,
        client.producer(TOPIC, chunking=True) as chunks,
    ):
        await asyncio.gather(*(producer.send(b"%d" % number, key="k") for number in range(500)))
        large = bytes(range(256)) * 25_000
        await chunks.send(large)
        payloads = []
        for _ in range(501):
            message = await consumer.receive(timeout_s=10)
            payloads.append(message.payload)
            await consumer.ack(message)
        assert payloads == [*(b"%d" % number for number in range(500)), large]
        (peer,) = broker.service.peers.connections
        assert peer.principal is not None and peer.principal.tenant == "acme"
    await eventually(lambda: not broker.service.peers.connections)


async def test_who_may_do_what_is_decided_as_over_tcp(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.ws_url, key=broker.token("writer")) as client:
        with pytest.raises(errors.NotAuthorized):
            await client.subscribe(TOPIC, "s")
    async with magnetar.connect(broker.ws_url, key="forged") as client:
        with pytest.raises(errors.AuthenticationFailed):
            await client.create_producer(TOPIC)
    async with magnetar.connect(broker.ws_url, key=broker.token("owner")) as client, client.consumer(TOPIC, "s") as consumer:
        await broker.revoke("owner")
        with pytest.raises(errors.Closed) as caught:
            await consumer.receive(timeout_s=10)
        assert isinstance(caught.value.__cause__, errors.AuthenticationFailed)


async def test_a_caller_behind_a_proxy_is_not_local(broker: RunningBroker) -> None:
    """Anonymous access is for callers of this machine."""
    async with opened(broker, additional_headers={"X-Forwarded-For": "203.0.113.7"}) as connection:
        await connection.send(CONNECT)
        answer = await connection.recv()
        assert isinstance(answer, bytes) and frames.decode(answer[4:]).type == pb.Command.ERROR
        await lost(connection)
    async with opened(broker) as connection:
        await connection.send(CONNECT)
        answer = await connection.recv()
        assert isinstance(answer, bytes) and frames.decode(answer[4:]).type == pb.Command.CONNECTED


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"subprotocols": None}, 400),
        ({"subprotocols": [Subprotocol("mqtt")]}, 400),
        ({"origin": "https://evil.example"}, 403),
        ({"additional_headers": {"Host": "evil.example"}}, 421),
    ],
    ids=["no sub-protocol", "another sub-protocol", "a page of another site", "a name that is not ours"],
)
async def test_upgrades_that_are_refused(broker: RunningBroker, more: dict[str, Any], status: int) -> None:
    with pytest.raises(websockets.InvalidStatus) as caught:
        async with opened(broker, **more):
            pass
    assert caught.value.response.status_code in (status, 400, 403) and not broker.service.peers.connections


async def test_text_is_refused_and_says_so(broker: RunningBroker) -> None:
    async with opened(broker) as connection:
        await connection.send("{}")
        assert await close_of(connection) == (1007, f"{SUBPROTOCOL} has no text messages: send binary ones")


async def test_empty_messages_without_end_are_refused(broker: RunningBroker) -> None:
    async with opened(broker) as connection:
        for _ in range(EMPTY_MESSAGES_MAX + 1):
            await connection.send(b"")
        assert (await close_of(connection))[0] == 1007


async def test_frames_may_be_cut_anywhere(broker: RunningBroker) -> None:
    async with opened(broker) as connection:
        for byte in CONNECT:
            await connection.send(bytes([byte]))
        await connection.send([frames.PING[:3], frames.PING[3:], frames.PING])  # one message in three fragments
        received = b""
        while received.count(frames.PONG) < 2:
            answer = await connection.recv()
            assert isinstance(answer, bytes)
            received += answer


@pytest.mark.parametrize("fragments", [1, 50])
async def test_a_stranger_cannot_make_the_broker_hold_a_large_message(broker: RunningBroker, fragments: int) -> None:
    async with opened(broker) as connection:
        size = 2 * EARLY_BYTES_MAX
        parts = [bytes(size // fragments)] * fragments
        try:
            await connection.send(parts if fragments > 1 else parts[0])
        except websockets.ConnectionClosed:
            pass
        await lost(connection)
    await eventually(lambda: not broker.service.peers.connections)


async def signed_in(broker: RunningBroker, connection: ClientConnection) -> None:
    token = broker.token("owner").encode()
    body = pb.Connect(client_version="test", protocol_version=20, auth_method_name="token", auth_data=token)
    await connection.send(frames.command(pb.Command.CONNECT, connect=body))
    answer = await connection.recv()
    assert isinstance(answer, bytes) and frames.decode(answer[4:]).type == pb.Command.CONNECTED


async def test_who_is_signed_in_and_silent_takes_no_place_of_the_listener(tmp_path: Path) -> None:
    """Its second message freed the place: a key whose clients only listen shut the port for everybody."""
    settings: dict[str, Any] = {"http_connections_max": 2, "connections_unauthenticated_max": 2}
    async with running_broker(tmp_path, **settings) as broker, AsyncExitStack() as stack:
        for _ in range(24):
            await signed_in(broker, await stack.enter_async_context(opened(broker)))
        assert await taken(broker) == 0
        assert len(broker.service.peers.connections) == 24
        assert await ask(broker.ws_port, "/nothing") == 404


async def test_the_first_message_after_sign_in_may_be_large(broker: RunningBroker) -> None:
    """The limit of strangers was still on for it."""
    async with opened(broker) as connection:
        await signed_in(broker, connection)
        ping_count = 3 * EARLY_BYTES_MAX // len(frames.PING)
        await connection.send(frames.PING * ping_count)
        pongs = 0
        while pongs < ping_count:
            answer = await connection.recv()
            assert isinstance(answer, bytes)
            pongs += answer.count(frames.PONG)


async def test_a_stranger_that_says_nothing_is_disconnected(broker: RunningBroker) -> None:
    async with opened(broker) as connection:
        await lost(connection)
        assert broker.service.peers.refused["no CONNECT came"] == 1


async def test_a_frame_over_the_limit_ends_the_connection(broker: RunningBroker) -> None:
    async with opened(broker) as connection:
        await connection.send(CONNECT)
        await connection.recv()
        await connection.send((1 << 30).to_bytes(4, "big") + bytes(8))
        await lost(connection)


async def test_a_peer_that_does_not_read_holds_little_stops_nobody_and_may_read_on(broker: RunningBroker) -> None:
    """What it was to get stays in the log, but for what the sockets and one message take."""
    large, count = bytes(1 << 20), 16
    subscribe = pb.Subscribe(topic=TOPIC, subscription="stuck", sub_type=pb.Subscribe.Exclusive, consumer_id=1, request_id=1)
    sign_in = pb.Connect(
        client_version="test", protocol_version=20, auth_method_name="token", auth_data=broker.token("owner").encode()
    )
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    narrow.connect(("127.0.0.1", broker.ws_port))
    async with opened(broker, sock=narrow, max_queue=1, max_size=None) as stuck:
        await stuck.send(frames.command(pb.Command.CONNECT, connect=sign_in))
        await stuck.send(frames.command(pb.Command.SUBSCRIBE, subscribe=subscribe))
        parser, commands = Parser(5 << 20), []
        while pb.Command.SUCCESS not in commands:
            commands += [event.command.type for event in parser.receive(bytes(await stuck.recv(decode=False)))]
        await stuck.send(frames.command(pb.Command.FLOW, flow=pb.Flow(consumer_id=1, message_permits=1000)))
        (peer,) = broker.service.peers.connections
        async with (
            magnetar.connect(broker.ws_url, key=broker.token("owner")) as client,
            client.consumer(TOPIC, "other") as other,
            client.producer(TOPIC, batching=False) as producer,
        ):
            for _ in range(count):
                await producer.send(large)
                await other.ack(await other.receive(timeout_s=10))
        assert isinstance(peer, Connection) and not peer.closed and peer.transport.get_write_buffer_size() < 4 * len(large)
        while commands.count(pb.Command.MESSAGE) < count:
            commands += [event.command.type for event in parser.receive(bytes(await stuck.recv(decode=False)))]
