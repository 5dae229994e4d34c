"""Opening a WebSocket: paths, parameters, the status of a refusal, TLS and shares of connections."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import AsyncExitStack

import pytest
import trustme
import websockets

from messaging.broker.http.websocket.frames import position_text
from messaging.errors import (
    AuthenticationFailed,
    ConsumerBusy,
    IncompatibleSchema,
    MagnetarError,
    NotReady,
    ProducerFenced,
    QuotaExceeded,
    TopicTerminated,
)
from tests.messaging.broker_http.addresses import CONSUMER, PRODUCER, READER, TOPIC
from tests.support.brokers.http_edge import Edge, receive_json, running_edge, send_json
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ws/v2/producer/persistent/public/default", 400),
        ("/ws/v2/consumer/persistent/public/default/orders", 400),
        ("/ws/v2/producer/imaginary/public/default/orders", 400),
        ("/ws/v2/producer/persistent/pub%20lic/default/orders", 400),
        ("/ws/v2/producer/persistent/public/default/a/b", 400),
        ("/ws/v2/producer/persistent/public/default/a%2541", 400),
        ("/ws/v2/producer/persistent/public%2Fdefault/x/orders", 400),
        ("/ws/v2/producer/persistent/public/default/%ff", 400),
        ("/ws/v2/consumer/persistent/public/default/orders/%00", 400),
        (PRODUCER + "?maxPendingMessages=x", 400),
        (CONSUMER + "?receiverQueueSize=-1", 400),
        (READER + "?messageId=nonsense", 400),
        ("/ws/v2/admin/persistent/public/default/orders", 404),
        ("/ws/v1/producer/persistent/public/default/orders", 404),
        ("/", 404),
        ("/ws/v2/producer/persistent/acme/fixed/missing", 404),
        ("/ws/v2/consumer/persistent/acme/fixed/missing/s", 404),
        ("/ws/v2/reader/persistent/acme/fixed/missing", 500),
    ],
)
async def test_bad_paths_and_parameters_have_pulsars_status(
    edge: Edge, path: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Authorization": f"Bearer {edge.token('admin')}"}
    got, body = await edge.refused(path, additional_headers=headers)
    assert got == status and body["reason"] and body["code"], path
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]  # a peer's mistake is no error of ours
    assert edge.topics.keys() <= {TOPIC}
    assert not any(topic.producers or topic.subscriptions.table for topic in edge.topics.values())


@pytest.mark.parametrize(
    ("error", "status", "reader_status"),
    [
        (AuthenticationFailed("x"), 401, 401),
        (ConsumerBusy("x"), 409, 500),
        (ProducerFenced("x"), 409, 500),
        (IncompatibleSchema("x"), 409, 500),
        (QuotaExceeded("x"), 503, 500),
        (TopicTerminated("x"), 503, 500),
        (NotReady("x"), 503, 500),
        (MagnetarError("x"), 500, 500),
    ],
)
async def test_errors_of_opening_have_pulsars_status(edge: Edge, error: MagnetarError, status: int, reader_status: int) -> None:
    edge.sessions.refuse_to_open(error)
    for path, expected in ((PRODUCER, status), (CONSUMER, status), (READER, reader_status)):
        got, body = await edge.refused(path)
        assert (got, body["code"]) == (expected, error.code)


async def test_an_exclusive_subscription_and_a_producer_name_are_taken_once(edge: Edge) -> None:
    async with edge.connect(CONSUMER), edge.connect(PRODUCER + "?producerName=p"):
        assert (await edge.refused(CONSUMER))[0] == 409
        assert (await edge.refused(PRODUCER + "?producerName=p"))[0] == 409


async def test_an_unexpected_failure_is_logged_and_told_without_its_cause(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    edge.sessions.refuse_to_open(RuntimeError("the cause"))
    status, body = await edge.refused(PRODUCER)
    assert status == 500 and "the cause" not in body["message"]
    assert any("websocket could not be opened" in record.message for record in caplog.records)


async def test_names_are_decoded(edge: Edge) -> None:
    async with edge.connect("/ws/v2/consumer/persistent/public/default/caf%C3%A9/sub%2Fscription"):
        [subscription] = edge.topics["persistent://public/default/café"].subscriptions.table
        assert subscription == "sub/scription"


async def test_non_persistent_topics_have_their_domain(edge: Edge) -> None:
    async with edge.connect(PRODUCER.replace("persistent", "non-persistent")):
        assert edge.sessions.topics == [TOPIC.replace("persistent", "non-persistent")]
        assert TOPIC not in edge.topics


async def test_websockets_have_their_share_of_connections_and_superusers_a_reserve() -> None:
    """Of 8 one is kept for superusers; whoever comes without a key has as many as are left for everybody else, and no more."""
    async with running_edge(connections_max=8) as edge, AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(edge.connect(PRODUCER))
        status, body = await edge.refused(PRODUCER)
        assert (status, "connections_max = 8" in body["message"]) == (503, True)
        async with edge.connect(PRODUCER, additional_headers={"Authorization": f"Bearer {edge.token('admin')}"}):
            pass
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.listeners.ws_port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in await reader.readline()  # full is not dead
        writer.close()
        await stack.aclose()
        await eventually(lambda: edge.broker.peers.shares.authenticated == 0)
        async with edge.connect(PRODUCER):
            pass


async def test_over_tls() -> None:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    async with running_edge(tls=server) as edge:
        url = f"wss://127.0.0.1:{edge.listeners.ws_port}{PRODUCER}"
        async with websockets.connect(url, ssl=client, proxy=None) as producer:
            await send_json(producer, payload="AA==")
            receipt = await receive_json(producer)
            [stored] = await edge.stored(TOPIC)
            assert (receipt["result"], receipt["messageId"]) == ("ok", position_text(stored.position))
