"""The listener on which brokers of other machines speak on behalf of clients: by certificate and token."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from messaging import client as magnetar
from messaging.broker.runtime.ownership.delegation import DelegatedClient, act_for
from messaging.broker.runtime.ownership.dialling import BrokerDialler, BrokerPlace
from messaging.errors import NotReady
from messaging.identity import service_token
from messaging.internal_tls import InternalClientTls
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.settings import load
from tests.support.brokers.fleet import fleet_broker
from tests.support.brokers.running_broker import RunningBroker
from tests.support.clients.raw_client import Closed, RawClient
from tests.support.process_certificates import ProcessCertificates
from tests.support.waiting import eventually

TOPICS = [f"persistent://acme/orders/t{number}" for number in range(8)]
READER = DelegatedClient(role="reader@acme", key_id="reader")


@pytest.fixture
async def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[list[RunningBroker]]:
    folder = tmp_path / request.node.name  # that no other test had: service tokens are kept by folder
    folder.mkdir()
    certificates = ProcessCertificates(tmp_path).settings
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(fleet_broker(folder, number, 2, **certificates)) for number in (1, 2)]


def place_of(broker: RunningBroker) -> BrokerPlace:
    parts = urlsplit(broker.service.addresses.internal_url)
    assert parts.scheme == "pulsar+ssl" and parts.hostname and parts.port
    return BrokerPlace(parts.hostname, parts.port, True)


def context_of(broker: RunningBroker, service: str) -> ssl.SSLContext:
    return InternalClientTls(broker.service.settings, service).context()


async def answer_to(broker: RunningBroker, context: ssl.SSLContext, connect: pb.Connect) -> pb.Command:
    place = place_of(broker)
    client = RawClient(*await asyncio.open_connection(place.host, place.port, ssl=context))
    try:
        client.write(frames.command(pb.Command.CONNECT, connect=connect))
        return (await client.next()).command
    finally:
        await client.close()


def on_behalf(broker: RunningBroker) -> pb.Connect:
    connect = pb.Connect(client_version="test", protocol_version=20)
    act_for(broker.service.settings, connect, READER)
    return connect


async def test_websockets_reach_the_topics_of_the_other_broker_over_it(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    await eventually(lambda: first.service.owners.others("internal_url"))
    assert {await first.service.owners.where(parse_topic(text)) is None for text in TOPICS} == {True, False}
    over: set[bool] = set()
    async with magnetar.connect(first.ws_url, key=first.token("owner")) as client:
        for topic in TOPICS:
            async with client.producer(topic) as producer, client.consumer(topic, "s", initial="earliest") as consumer:
                await producer.send(bytes(300_000))
                assert len((await consumer.receive(timeout_s=10)).payload) == 300_000
                over |= {peer.of_broker for peer in second.service.peers.connections if hasattr(peer, "of_broker")}
    assert over == {True}


async def test_a_broker_is_believed_and_whoever_has_only_one_of_both_is_not(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    connect = on_behalf(first)
    assert (await answer_to(second, context_of(first, "broker"), connect)).type == pb.Command.CONNECTED
    for service in ("web", "worker"):
        before = second.service.peers.refused["no broker"]
        with pytest.raises(Closed):
            await answer_to(second, context_of(first, service), connect)  # whose token is good
        assert second.service.peers.refused["no broker"] == before + 1
        connect.auth_data = service_token(first.service.settings, service).encode()
        answer = await answer_to(second, context_of(first, "broker"), connect)
        assert answer.type == pb.Command.ERROR and answer.error.error == pb.AuthenticationError
        connect = on_behalf(first)
    folder = Path(first.service.settings.data_dir) / "of-others"
    folder.mkdir()
    foreign = load({}, data_dir=first.service.settings.data_dir, **ProcessCertificates(folder).settings)
    with pytest.raises((ssl.SSLError, ConnectionError, Closed)):
        await answer_to(second, InternalClientTls(foreign, "broker").context(), connect)


async def test_a_key_of_a_client_is_of_no_use_there(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    connect = pb.Connect(client_version="t", protocol_version=20, auth_method_name="token", auth_data=first.token("owner").encode())
    answer = await answer_to(second, context_of(first, "broker"), connect)
    assert answer.type == pb.Command.ERROR and "for brokers" in answer.error.message


async def test_nothing_is_said_to_whoever_is_no_broker(fleet: list[RunningBroker]) -> None:
    first, _ = fleet
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heard.append(await reader.read(100))
        except ConnectionError:
            heard.append(b"")
        writer.close()

    settings = first.service.settings
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(
        settings.internal_tls_cert_file.format(service="web"), settings.internal_tls_key_file.format(service="web")
    )
    async with await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotReady, match="certificate of web"):
            await BrokerDialler(settings).dial(lambda: pytest.fail("it speaks"), BrokerPlace("127.0.0.1", port, True))
        await eventually(lambda: heard)
    assert heard == [b""]
