"""Peers that come and go leave nothing behind that waits for the garbage collector: ten million frames of hostile peers had left
8,000 dead connections, with their subscriptions and tracebacks, in memory that nobody accounted for."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from messaging.broker.runtime.wire.connection import Connection
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Connection]]]:
    """Every connection made, while nothing is collected."""
    made: list[weakref.ref[Connection]] = []
    connection_made = Connection.connection_made

    def remember(self: Connection, transport: asyncio.BaseTransport) -> None:
        made.append(weakref.ref(self))
        connection_made(self, transport)

    monkeypatch.setattr(Connection, "connection_made", remember)
    gc.collect()
    gc.disable()
    yield made
    gc.enable()


async def says_nothing(client: RawClient) -> None:
    pass


async def publishes_and_subscribes(client: RawClient) -> None:
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, permits=10)
    client.write(send_frame(0, b"hello"))
    assert {(await client.next()).name, (await client.next()).name} == {"SEND_RECEIPT", "MESSAGE"}


async def asks_what_is_refused(client: RawClient) -> None:
    for kind in (pb.Command.UNSUBSCRIBE, pb.Command.SEEK, pb.Command.GET_LAST_MESSAGE_ID):
        client.say(kind, consumer_id=99, request_id=5)
        await client.expect("ERROR")
    client.say(pb.Command.LOOKUP, topic="no such name", request_id=6)
    await client.expect("LOOKUP_RESPONSE")


@pytest.mark.parametrize("act", [says_nothing, publishes_and_subscribes, asks_what_is_refused])
async def test_a_connection_that_is_gone_is_freed_without_the_collector(
    act: object, world: BrokerWorld, seen: list[weakref.ref[Connection]]
) -> None:
    assert callable(act)
    client = await world.connected("superuser")
    await act(client)
    await client.close()
    world.clients.clear()
    del client
    await eventually(lambda: not world.service.peers.connections)
    await eventually(lambda: [reference() for reference in seen] == [None])


async def test_a_connection_that_breaks_the_protocol_is_freed_without_the_collector(
    world: BrokerWorld, seen: list[weakref.ref[Connection]]
) -> None:
    client = await world.connected("superuser")
    client.write(b"\0\0\0\x08\0\0\0\x04\xff\xff\xff\xff")
    await client.gone()
    await client.close()
    world.clients.clear()
    del client
    await eventually(lambda: [reference() for reference in seen] == [None])
