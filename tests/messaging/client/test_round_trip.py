"""The SDK over real sockets against the broker's WebSocket listener (with stores in memory behind it)."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trustme

from messaging import client as magnetar
from messaging.client import errors
from tests.support.brokers.http_edge import FIXED, bound, running_edge
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"


async def test_produce_consume_acknowledge() -> None:
    async with running_edge() as edge:
        async with (
            magnetar.connect(edge.ws_url, key=edge.token("app@acme")) as client,
            client.consumer(TOPIC, "billing") as consumer,
            client.producer(TOPIC) as producer,
        ):
            message_id = await producer.send("grüße".encode(), key="k", properties={"a": "ü"}, event_time_ms=1_600_000_000_000)
            message = await consumer.receive(timeout_s=10)
            assert message.id == message_id
            assert (message.payload.decode(), message.key, message.properties) == ("grüße", "k", {"a": "ü"})
            assert message.event_time_ms == 1_600_000_000_000
            await consumer.ack(message)
        assert edge.acknowledged(TOPIC) == {0}, "closing waits until acknowledgements were read"
        assert not edge.subscription(TOPIC).consumers and not edge.topics[TOPIC].producers


async def test_a_thousand_messages_keep_their_order() -> None:
    async with (
        running_edge() as edge,
        magnetar.connect(edge.ws_url) as client,
        client.consumer("orders", "s", unacknowledged_max=50) as consumer,
        client.producer("orders", pending_max=100) as producer,
    ):

        async def produce() -> None:
            await asyncio.gather(*(producer.send(number.to_bytes(2)) for number in range(1000)))

        producing = asyncio.create_task(produce())
        for number in range(1000):
            message = await consumer.receive(timeout_s=10)
            assert int.from_bytes(message.payload) == number
            await consumer.ack(message)
        await producing


async def test_a_broker_that_restarts_loses_nothing() -> None:
    topic = "persistent://public/default/orders"
    async with running_edge() as edge, magnetar.connect(edge.ws_url) as client:
        producer = await client.producer("orders")
        consumer = await client.consumer("orders", "s")
        await producer.send(b"before")
        edge.sessions.hold_receipts()
        pending = producer.send_nowait(b"during")
        await eventually(lambda: edge.entries(topic) == 2)
        port = edge.listeners.ws_port
        await edge.listeners.stop()
        edge.sessions.lose_receipts()
        pending_too = producer.send_nowait(b"while away")
        await edge.listen(port)
        await asyncio.gather(pending, pending_too)
        seen: set[bytes] = set()
        while seen != {b"before", b"during", b"while away"}:
            message = await consumer.receive(timeout_s=10)
            seen.add(message.payload)
            await consumer.ack(message)
        # Stored twice, because the namespace does not ask for deduplication, but under one sequence id.
        stored = [(message.payload, message.sequence_id) for message in await edge.stored(topic)]
        assert [message for message in stored if message[0] == b"during"] == [(b"during", 1)] * 2
        await producer.close()
        await consumer.close()


async def test_errors_of_the_broker_are_typed() -> None:
    async with running_edge() as edge:
        async with magnetar.connect(edge.ws_url, key="forged") as client:
            with pytest.raises(errors.AuthenticationFailed, match="make a new key"):
                await client.producer(TOPIC)
        async with magnetar.connect(edge.ws_url, key=edge.token("someone@other")) as client:
            with pytest.raises(errors.NotAuthorized, match="lacks 'produce'"):
                await client.producer(TOPIC)
            with pytest.raises(errors.NotAuthorized, match="lacks 'consume'"):
                await client.consumer(TOPIC, "s")
        async with magnetar.connect(edge.ws_url, key=edge.token("app@acme")) as client:
            with pytest.raises(errors.TopicNotFound, match="create it"):
                await client.producer(f"{FIXED}/missing")
            async with client.consumer(TOPIC, "s"):
                with pytest.raises(errors.ConsumerBusy, match="use Shared"):
                    await client.consumer(TOPIC, "s")
        edge.sessions.refuse_to_publish(errors.QuotaExceeded("the backlog quota is passed: consume first"))
        async with magnetar.connect(edge.ws_url, key=edge.token("app@acme")) as client, client.producer(TOPIC) as producer:
            with pytest.raises(errors.SendFailed, match="backlog quota"):
                await producer.send(b"x")


async def test_a_message_the_broker_finds_too_large_does_not_stop_the_others() -> None:
    async with (
        running_edge(message_bytes_max=1000) as edge,
        magnetar.connect(edge.ws_url) as client,
        client.producer("orders") as producer,
    ):
        slightly, far, fine = (producer.send_nowait(b"x" * size) for size in (2000, 200_000, 10))
        with pytest.raises(errors.SendFailed, match="at most 1000"):
            await slightly
        with pytest.raises(errors.MessageTooLarge):
            await far
        await fine


async def test_nothing_listens_there() -> None:
    with bound() as sock:
        url = f"ws://127.0.0.1:{sock.getsockname()[1]}"
        async with magnetar.connect(url, open_timeout_s=0.2) as client:
            with pytest.raises(errors.NotReady, match="check the URL"):
                await client.producer("orders")


async def test_over_tls_with_a_certificate_that_is_checked() -> None:
    authority = trustme.CA()
    server, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(trusting)
    async with running_edge(tls=server) as edge:
        url = edge.ws_url.replace("ws://", "wss://")
        async with magnetar.connect(url, tls=trusting) as client, client.producer("orders") as producer:
            await producer.send(b"x")
        async with magnetar.connect(url, open_timeout_s=0.2) as client:
            with pytest.raises(errors.NotReady, match="certificate"):
                await client.producer("orders")
