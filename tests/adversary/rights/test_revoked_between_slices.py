"""A revoked key may do nothing in the time until its connection is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.broker.runtime import peers
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import MagnetarError, NotReady
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.clients.raw_client import send_frame
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
TOPIC = "persistent://acme/orders/t"


@pytest.fixture(autouse=True)
def long_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn of none has come."""
    monkeypatch.setattr(peers, "ENDS_A_TURN", 0)


def connection_of(world: BrokerWorld, key: str) -> Any:
    [connection] = [peer for peer in world.service.peers.connections if peer.principal is not None and peer.principal.key_id == key]
    return connection


class Listener:
    def __init__(self) -> None:
        self.delivered = 0

    def deliver(self, messages: Any) -> None:
        self.delivered += len(messages)

    def closed(self, error: MagnetarError | None) -> None: ...

    def end_of_topic(self) -> None: ...


async def test_it_publishes_nothing(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await world.connected("writer")
    await client.producer(TOPIC)
    client.write(send_frame(0, b"one"))
    await client.expect("SEND_RECEIPT")
    connection = connection_of(world, "writer")
    world.service.peers.end_keys({"writer"})
    connection.data_received(send_frame(1, b"smuggled"))
    monkeypatch.setattr(peers, "ENDS_A_TURN", 50)
    await client.gone()
    await asyncio.wait_for(world.service.topics.unload(parse_topic(TOPIC)), 10)  # whatever was on its way to the log
    await world.service.topics.get(parse_topic(TOPIC), create=False)
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 1


async def test_it_moves_no_subscription(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=1)
    connection = connection_of(world, "reader")
    world.service.peers.end_keys({"reader"})
    connection.data_received(frames.command(C.UNSUBSCRIBE, unsubscribe=pb.Unsubscribe(consumer_id=1, request_id=9)))
    monkeypatch.setattr(peers, "ENDS_A_TURN", 50)
    assert await client.gone() == []
    assert list(world.service.topics.loaded[TOPIC].subscriptions.table) == ["s"]


async def test_it_is_sent_nothing(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = await world.connected("reader")
    await reader.subscribe(TOPIC, permits=10)
    writer = await world.connected("writer")
    await writer.producer(TOPIC)
    world.service.peers.end_keys({"reader"})
    writer.write(send_frame(0, b"one"))
    await writer.expect("SEND_RECEIPT")
    monkeypatch.setattr(peers, "ENDS_A_TURN", 50)
    assert await reader.gone() == []


async def test_a_session_of_it_publishes_nothing(world: BrokerWorld) -> None:
    principal = await world.service.authenticate(world.token("writer"), local=True)
    producer = await world.sessions.open_producer(principal, TOPIC, None, Listener())
    world.service.peers.end_keys({"writer"})
    answered = asyncio.get_running_loop().create_future()
    producer.publish([OutgoingMessage(b"smuggled")], lambda positions, error: answered.set_result(error))
    assert isinstance(await answered, NotReady)
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 0


async def test_a_session_of_it_receives_and_acknowledges_nothing(world: BrokerWorld) -> None:
    principal = await world.service.authenticate(world.token("reader"), local=True)
    listener = Listener()
    consumer = await world.sessions.open_consumer(principal, TOPIC, "s", "Shared", "earliest", True, None, listener)
    world.service.peers.end_keys({"reader"})
    consumer.flow(10)
    writer = await world.connected("writer")
    await writer.producer(TOPIC)
    writer.write(send_frame(0, b"one"))
    await writer.expect("SEND_RECEIPT")
    assert listener.delivered == 0
    with pytest.raises(NotReady):
        await consumer.unsubscribe()
    assert "s" in world.service.topics.loaded[TOPIC].subscriptions.table
