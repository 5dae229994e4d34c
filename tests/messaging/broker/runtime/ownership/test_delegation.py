"""Connections on behalf of clients: brokers of this machine make them, and nobody else can."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from messaging import client as magnetar
from messaging.broker.http.websocket.binary import BINARY_PATTERN, SUBPROTOCOL
from messaging.broker.runtime.ownership.delegation import DelegatedClient, DelegationVerifier, act_for, delegated_client
from messaging.broker.runtime.wire.websocket_proxy import place_of_other
from messaging.client import errors
from messaging.errors import AuthenticationFailed, NotReady
from messaging.identity import service_token
from messaging.permissions.model import Principal
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.fleet import running_fleet
from tests.support.brokers.running_broker import RunningBroker, running_broker
from tests.support.clients.raw_client import RawClient
from tests.support.waiting import eventually

TOPICS = [f"persistent://acme/orders/t{number}" for number in range(8)]
ADMIN = DelegatedClient(role="admin", key_id="superuser")


@pytest.fixture
async def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[list[RunningBroker]]:
    folder = tmp_path / request.node.name  # that no other test had: service tokens are kept by folder
    folder.mkdir()
    async with running_fleet(folder, 2) as brokers:
        yield brokers


async def topics_of(broker: RunningBroker) -> list[str]:
    return [text for text in TOPICS if await broker.service.owners.where(parse_topic(text)) is None]


async def answer_to(port: int, connect: pb.Connect) -> pb.Command:
    client = await RawClient.open(port)
    try:
        client.write(frames.command(pb.Command.CONNECT, connect=connect))
        return (await client.next()).command
    finally:
        await client.close()


def on_behalf(broker: RunningBroker, client: DelegatedClient) -> pb.Connect:
    connect = pb.Connect(client_version="test", protocol_version=20)
    act_for(broker.service.settings, connect, client)
    return connect


# --- who may say for whom


async def test_a_broker_says_who_its_client_is(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    client = DelegatedClient(role="reader@acme", key_id="reader", address="203.0.113.7")
    assert (await answer_to(second.port, on_behalf(first, client))).type == pb.Command.CONNECTED
    raw = await RawClient.open(second.port)
    raw.write(frames.command(pb.Command.CONNECT, connect=on_behalf(first, client)))
    await raw.expect("CONNECTED")
    raw.say(pb.Command.PRODUCER, topic=(await topics_of(second))[0], producer_id=1)
    assert (await raw.expect("ERROR")).error == pb.AuthorizationError
    (peer,) = (peer for peer in second.service.peers.connections if not peer.closed)
    assert peer.principal is not None and (peer.principal.role, peer.principal.address) == ("reader@acme", "203.0.113.7")
    await raw.close()


@pytest.mark.parametrize("who", ["a key", "the web process", "a worker", "nobody"])
async def test_nobody_else_says_who_a_client_is(fleet: list[RunningBroker], who: str) -> None:
    first, second = fleet
    connect = on_behalf(first, ADMIN)
    if who == "a key":
        connect.auth_data = first.token("superuser").encode()
    elif who == "nobody":
        connect.ClearField("auth_data")
    else:
        connect.auth_data = service_token(first.service.settings, "web" if who == "the web process" else "worker").encode()
    answer = await answer_to(second.port, connect)
    assert answer.type == pb.Command.ERROR and answer.error.error == pb.AuthenticationError
    connect.auth_method_name = "token"
    answer = await answer_to(second.port, connect)
    assert answer.type == pb.Command.ERROR and answer.error.error == pb.AuthenticationError


async def test_a_key_that_was_revoked_is_refused_there_as_well(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    await second.revoke("owner")
    answer = await answer_to(second.port, on_behalf(first, DelegatedClient(role="owner@acme", key_id="owner")))
    assert answer.type == pb.Command.ERROR and "revoked" in answer.error.message


async def test_one_broker_alone_believes_nobody(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as alone:
        answer = await answer_to(alone.port, on_behalf(alone, ADMIN))
        assert answer.type == pb.Command.ERROR and "connect directly" in answer.error.message


async def test_what_is_not_said_well_or_from_another_machine_is_refused(fleet: list[RunningBroker]) -> None:
    first, _ = fleet
    verifier, now_ms = DelegationVerifier(first.service.settings), first.service.now_ms()
    connect = on_behalf(first, ADMIN)
    assert verifier.verified(connect, now_ms, from_brokers=True) == ADMIN
    with pytest.raises(AuthenticationFailed, match="connect directly"):
        verifier.verified(connect, now_ms, from_brokers=False)
    with pytest.raises(AuthenticationFailed):
        verifier.verified(connect, now_ms + 120_000, from_brokers=True)
    for text in ("admin", "{}", msgspec.json.encode({"role": "x" * 1025}).decode()):
        connect.original_principal = text
        with pytest.raises(AuthenticationFailed, match="cannot be read"):
            verifier.verified(connect, now_ms, from_brokers=True)
    connect.auth_data = b"\xff"
    with pytest.raises(AuthenticationFailed, match="ASCII"):
        verifier.verified(connect, now_ms, from_brokers=True)
    connect.auth_method_name = "token"
    with pytest.raises(AuthenticationFailed, match="only brokers"):
        verifier.verified(connect, now_ms, from_brokers=True)


def test_nobody_acts_for_a_service() -> None:
    service = Principal("service:web", service=True)
    assert not delegated_client(service).principal.service
    assert delegated_client(Principal("r@t", "k", expires_ms=1, address="a")).principal == Principal("r@t", "k", expires_ms=1)


# --- the binary protocol over WebSockets


def opened(broker: RunningBroker) -> connect:
    return connect(broker.ws_url + BINARY_PATTERN, subprotocols=[Subprotocol(SUBPROTOCOL)], proxy=None)


def wanting(broker: RunningBroker, wanted: str) -> pb.Connect:
    connect = pb.Connect(client_version="t", protocol_version=20, proxy_to_broker_url=wanted)
    connect.auth_method_name, connect.auth_data = "token", broker.token("owner").encode()
    return connect


async def heard(connection: ClientConnection) -> pb.Command:
    data = await connection.recv()
    assert isinstance(data, bytes)
    return frames.decode(data[4:])


async def test_the_sdk_reaches_the_topics_of_all_brokers_over_a_websocket(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    assert await topics_of(first) and await topics_of(second)
    async with magnetar.connect(first.ws_url, key=first.token("owner")) as client:
        for topic in TOPICS:
            async with client.producer(topic) as producer, client.consumer(topic, "s", initial="earliest") as consumer:
                for number in range(50):
                    producer.send_nowait(b"%d" % number)
                await producer.send(bytes(1_000_000))
                for number in range(50):
                    assert (await consumer.receive(timeout_s=10)).payload == b"%d" % number
                assert len((await consumer.receive(timeout_s=10)).payload) == 1_000_000
        assert first.service.peers.shares.by_tenant["acme"] == 2
        assert second.service.peers.shares.by_tenant["acme"] == 0
        assert {text for text in second.service.topics.loaded if "acme" in text} == set(await topics_of(second))
    await eventually(lambda: not second.service.peers.connections)
    await eventually(lambda: not first.service.peers.shares.by_tenant["acme"])


async def test_a_revoked_key_ends_what_was_passed_on(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    (topic, *_) = await topics_of(second)
    async with magnetar.connect(first.ws_url, key=first.token("writer")) as client:
        with pytest.raises(errors.NotAuthorized):
            await client.subscribe(topic, "s")
    async with magnetar.connect(first.ws_url, key=first.token("owner")) as client, client.consumer(topic, "s") as consumer:
        await second.revoke("owner")
        await first.revoke("owner")
        with pytest.raises(errors.Closed) as caught:
            await consumer.receive(timeout_s=10)
        assert isinstance(caught.value.__cause__, errors.AuthenticationFailed)


async def test_only_brokers_of_the_fleet_are_connected_to(fleet: list[RunningBroker]) -> None:
    first, _ = fleet
    for wanted in ("127.0.0.1:1", "pulsar://127.0.0.1:1", "example.com:6650", "x" * 1024):
        async with opened(first) as connection:
            await connection.send(frames.command(pb.Command.CONNECT, connect=wanting(first, wanted)))
            assert "no broker of this platform" in (await heard(connection)).error.message


async def test_over_tls_a_broker_is_named_by_its_address_there(fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    """On another machine its plain address is of that machine's loopback, as this broker's is of this one's."""
    first, second = fleet
    told = {"broker_url": first.service.addresses.broker_url, "broker_url_tls": "pulsar+ssl://m2:6651", "internal_url": ""}
    monkeypatch.setattr(first.service.owners, "others", lambda kind: [told[kind]])
    assert place_of_other(first.service, "pulsar+ssl://m2:6651") == first.service.dialler.place_of(told)
    assert place_of_other(first.service, first.service.addresses.broker_url) is None
    with pytest.raises(NotReady):
        place_of_other(first.service, f"127.0.0.1:{second.port}")


async def test_over_tcp_nobody_is_passed_on_and_without_a_key_nobody_at_all(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    body = wanting(first, f"127.0.0.1:{second.port}")
    assert "connect directly" in (await answer_to(first.port, body)).error.message
    body.auth_data = b"forged"
    async with opened(first) as connection:
        await connection.send(frames.command(pb.Command.CONNECT, connect=body))
        assert (await heard(connection)).error.error == pb.AuthenticationError
    assert not second.service.peers.connections


async def test_a_broker_that_is_gone_is_said_to_be(fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = fleet
    monkeypatch.setattr(first.service.owners, "others", lambda kind: ["pulsar://127.0.0.1:1" if kind == "broker_url" else ""])
    async with opened(first) as connection:
        await connection.send(frames.command(pb.Command.CONNECT, connect=wanting(first, "127.0.0.1:1")))
        assert (await heard(connection)).error.error == pb.ServiceNotReady


async def test_the_other_broker_ends_a_websocket_with_its_connection(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    await eventually(lambda: first.service.owners.others("broker_url"))
    async with opened(first) as connection:
        await connection.send(frames.command(pb.Command.CONNECT, connect=wanting(first, f"127.0.0.1:{second.port}")))
        assert (await heard(connection)).type == pb.Command.CONNECTED
        (peer,) = second.service.peers.connections
        peer.transport.abort()  # type: ignore[attr-defined]
        await connection.wait_closed()
