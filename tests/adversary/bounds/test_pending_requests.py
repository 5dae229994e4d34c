"""Requests without end: a connection is read no further until some are answered and answers are read; it is never cut for them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from messaging.broker.runtime.ownership.owners import Elsewhere, LookupClient
from messaging.broker.runtime.wire.connection import Connection
from messaging.broker.runtime.wire.pending_requests import REQUESTS_MAX, WAITING_MAX, PendingRequests
from messaging.errors import NotReady
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import TopicName
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"


def connection_of(world: BrokerWorld, version: str = "raw") -> Connection:
    (connection,) = [
        connection
        for connection in world.service.peers.connections
        if isinstance(connection, Connection) and connection.client_version == version
    ]
    return connection


async def test_requests_beyond_the_bound_wait_and_all_are_answered(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 of them cut the connection: a stock client could not subscribe to 2,500 partitions."""
    client = await world.connected("owner")
    go_on = asyncio.Event()
    real = world.service.require_namespace

    async def slow(namespace: str) -> None:
        await go_on.wait()
        await real(namespace)

    monkeypatch.setattr(world.service, "require_namespace", slow)
    asked = [client.say(pb.Command.LOOKUP, topic=TOPIC) for _ in range(3000)]
    connection = connection_of(world)
    await eventually(lambda: connection.requests.count == REQUESTS_MAX)
    for _ in range(20):
        await asyncio.sleep(0)
    assert connection.requests.count == REQUESTS_MAX
    sessions = world.service.memory_limiter.sessions
    assert sessions.tenants["acme"] >= connection.requests.size_bytes > 0
    assert not connection.throttle.reading
    go_on.set()
    answers = [(await client.expect("LOOKUP_RESPONSE")).request_id for _ in asked]
    assert answers == asked
    await client.quiet()
    assert (connection.requests.count, connection.requests.size_bytes, sessions.used_bytes) == (0, 0, 0)


async def test_look_ups_that_wait_hold_up_nothing_behind_them(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 of them, of topics whose broker was gone, held messages and pings of their own connection for up to 14 s."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await client.quiet()
    before_bytes = world.service.memory_limiter.sessions.used_bytes
    somebody_serves = asyncio.Event()

    async def found(name: TopicName, *, sent: bool = False, client: LookupClient) -> Elsewhere | None:
        with client.place() as there_is_one:
            if not there_is_one:
                raise NotReady("the broker that had the topic is gone; try again in a moment")
            await somebody_serves.wait()
        return None

    monkeypatch.setattr(world.service.owners, "found", found)
    asked = [client.say(pb.Command.LOOKUP, topic=TOPIC) for _ in range(WAITING_MAX + 700)]
    connection = connection_of(world)
    await eventually(lambda: connection.requests.waiting == connection.requests.count == WAITING_MAX)
    assert connection.requests.waiting_bytes == connection.requests.size_bytes, "all of a frame waits, not its body alone"
    client.write(send_frame(0, b"behind them"))
    client.write(frames.PING)
    answers = [await client.next() for _ in range(700 + 2)]
    refused = [answer.body for answer in answers if answer.name == "LOOKUP_RESPONSE"]
    assert {answer.name for answer in answers} == {"LOOKUP_RESPONSE", "SEND_RECEIPT", "PONG"}
    assert [answer.request_id for answer in refused] == asked[WAITING_MAX:]
    assert {answer.error for answer in refused} == {pb.ServiceNotReady}
    assert connection.throttle.reading and connection.requests.waiting == WAITING_MAX
    somebody_serves.set()
    assert [(await client.expect("LOOKUP_RESPONSE")).request_id for _ in range(WAITING_MAX)] == asked[:WAITING_MAX]
    assert (connection.requests.waiting, connection.requests.waiting_bytes, connection.requests.count) == (0, 0, 0)
    assert world.service.memory_limiter.sessions.used_bytes == before_bytes


async def test_a_connection_with_pending_requests_holds_up_no_other(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    full, free = await world.connected("owner"), await world.connected("stranger")
    never = asyncio.Event()

    async def slow(namespace: str) -> None:
        if namespace.startswith("acme"):
            await never.wait()

    monkeypatch.setattr(world.service, "require_namespace", slow)
    for _ in range(2000):
        full.say(pb.Command.LOOKUP, topic=TOPIC)
    await eventually(lambda: any(connection.requests.count == REQUESTS_MAX for connection in world.service.peers.connections))
    free.say(pb.Command.LOOKUP, topic="persistent://other/things/t")
    await free.expect("LOOKUP_RESPONSE")
    await full.close()
    never.set()
    await eventually(lambda: len(world.service.peers.connections) == 1)
    assert world.service.memory_limiter.sessions.used_bytes == 0


async def test_listings_that_nobody_reads_are_not_made(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """49 KB of pipelined topic listings cost 2 GB: every answer was made, and waited for a peer that did not read."""
    names = [f"persistent://acme/orders/a-topic-of-some-length-{number:06}" for number in range(20_000)]
    made = 0

    async def listed(namespace: str) -> list[str]:
        nonlocal made
        made += 1
        return list(names)

    monkeypatch.setattr(world.service, "topic_names", listed)
    client = await world.connected("owner")
    transport = client.writer.transport
    assert isinstance(transport, asyncio.ReadTransport)
    transport.pause_reading()
    frame, _ = client.frame(pb.Command.GET_TOPICS_OF_NAMESPACE, namespace="acme/orders")
    asked = 49_000 // len(frame)
    client.write(frame * asked)
    connection = connection_of(world)
    await eventually(lambda: not connection.out.writable)
    for _ in range(50):
        await asyncio.sleep(0)
    egress = world.service.memory_limiter.egress
    assert made <= 12, "what the kernel's buffers hold, one that is in ours, and one that is being made"
    assert 0 < egress.used_bytes <= 3 * 20_000 * 130
    other = await world.connected("stranger")
    assert await other.quiet() == []
    await client.close()
    await eventually(
        lambda: egress.used_bytes == 0 and not any(connection.requests.count for connection in world.service.peers.connections)
    )
    assert made <= 12, "nor for a peer that is gone"


async def test_a_client_that_asks_and_never_reads_is_ended(world: BrokerWorld) -> None:
    """It is read no further, so that its silence says nothing: what it leaves unread does."""
    client = await world.connected("owner")
    connection = connection_of(world)
    connection.out.writable = False
    unread = [2_000_000, 1_500_000, 1_500_000]
    connection.transport = connection.out.transport = cast(asyncio.Transport, UnreadResponses(connection.transport, unread))
    for _ in range(3):
        assert not connection.closed
        connection.liveness.keep_alive()
    assert connection.closed and world.service.peers.refused["peer does not read"] == 1
    assert await client.gone() == []


class UnreadResponses:
    """A transport that says how much the peer has left unread, look by look."""

    def __init__(self, transport: asyncio.Transport, unread: list[int]) -> None:
        self._transport = transport
        self._unread = unread

    def get_write_buffer_size(self) -> int:
        return self._unread.pop(0) if len(self._unread) > 1 else self._unread[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def test_listings_are_answered_one_after_the_other_to_who_reads(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    asked = [client.say(pb.Command.GET_TOPICS_OF_NAMESPACE, namespace="acme/orders") for _ in range(200)]
    answers = [await client.expect("GET_TOPICS_OF_NAMESPACE_RESPONSE") for _ in asked]
    assert [answer.request_id for answer in answers] == asked
    assert list(answers[-1].topics) == [TOPIC]
    assert world.service.peers.listings.made == 200
    assert world.service.memory_limiter.egress.used_bytes == 0


async def test_names_and_metadata_count_and_have_a_bound(world: BrokerWorld) -> None:
    """330,000 pairs of producer metadata were kept, and counted nowhere."""
    sessions = world.service.memory_limiter.sessions
    client = await world.connected("owner")
    pairs = [pb.KeyValue(key=f"k{number}", value="v" * 100) for number in range(200)]
    await client.producer(TOPIC, metadata=pairs)
    await client.subscribe(TOPIC, metadata=pairs)
    assert sessions.tenants["acme"] > 2 * 200 * 102
    client.say(pb.Command.CLOSE_CONSUMER, consumer_id=1)
    client.say(pb.Command.CLOSE_PRODUCER, producer_id=1)
    assert [(await client.next()).name for _ in range(2)] == ["SUCCESS"] * 2
    await client.quiet()
    assert sessions.used_bytes == 0
    sessions.take("acme", sessions.limit_bytes)
    client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=2)
    assert "use all memory" in (await client.expect("ERROR")).message
    sessions.give("acme", sessions.limit_bytes)
    sessions.take("hostile", sessions.limit_bytes)
    await client.producer(TOPIC, producer_id=3)  # this tenant holds little
    sessions.give("hostile", sessions.limit_bytes)
    await client.close()
    await eventually(lambda: sessions.used_bytes == 0)


async def test_commands_that_wait_for_their_turn_count_for_their_tenant(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    connection = connection_of(world)
    flow = frames.command(pb.Command.FLOW, flow=pb.Flow(consumer_id=1, message_permits=1))
    connection.data_received(flow * 10_000)
    assert world.service.memory_limiter.sessions.tenants == {"acme": len(flow) * 10_000}
    assert not connection.throttle.reading
    assert await client.quiet() == []
    assert world.service.memory_limiter.sessions.used_bytes == 0
    assert connection.throttle.reading


async def test_a_peer_that_leaves_in_the_middle_leaves_nothing_behind(world: BrokerWorld) -> None:
    for _ in range(3):
        client: RawClient = await world.connected("owner")
        await client.subscribe(TOPIC)
        for _ in range(600):
            client.say(pb.Command.CONSUMER_STATS, consumer_id=1)
        await client.close()
    await eventually(lambda: not world.service.peers.connections)
    await eventually(lambda: world.service.memory_limiter.sessions.used_bytes == 0)
    assert world.service.memory_limiter.egress.used_bytes == 0


class Full:
    """Memory of which nothing is left."""

    def allows(self, size: int) -> bool:
        return False

    def change(self, more: int) -> None: ...


def test_look_ups_that_wait_do_not_make_room_in_memory_that_is_full() -> None:
    """Each would be admitted as if it were the only request of its connection."""
    requests = PendingRequests(cast(Any, SimpleNamespace(writable=True)), cast(Any, Full()))
    assert requests.admits(pb.Command.LOOKUP, 100)
    requests.begin(100)
    with requests.place(100) as waits:
        assert waits and not requests.admits(pb.Command.LOOKUP, 100)
    requests.end(100)
    assert requests.admits(pb.Command.LOOKUP, 100)
