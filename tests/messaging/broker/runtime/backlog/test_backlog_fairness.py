"""Nobody who is behind holds others up: a piece a turn, no waiting for another's storage, and little kept for who never reads."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, ClassVar, cast

import pytest

from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.backlog.scheduler import TURN_BYTES, BacklogScheduler
from messaging.broker.runtime.topics.dispatch.dispatcher import Dispatcher
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import send_frame
from tests.support.long_topic import SIZE, TOPIC, payload, read_all, reader, stored
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

C = pb.Command


async def test_who_is_behind_is_served_a_piece_a_turn(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await stored(world, 60)
    pieces: list[int] = []
    hand_out = Dispatcher.dispatch_backlog

    def counted(dispatcher: Any, subscription: Subscription, bytes_max: int) -> bool:
        before = dispatcher.bytes_out
        more = hand_out(dispatcher, subscription, bytes_max)
        pieces.append(dispatcher.bytes_out - before)
        return more

    monkeypatch.setattr(Dispatcher, "dispatch_backlog", counted)
    client = await reader(world, 1000)
    await read_all(client, 60)
    assert max(pieces) <= TURN_BYTES + 2 * SIZE
    assert sum(pieces) >= 60 * SIZE


class Everlasting:
    """Stands for a topic whose reader always takes more."""

    order: ClassVar[list[str]] = []

    def __init__(self, tenant: str, stop_after: int) -> None:
        self.tenant = tenant
        self.topic_name = "endless"
        self.turns = 0
        self._stop_after = stop_after

    def dispatch_backlog(self, subscription: object, bytes_max: int) -> bool:
        self.turns += 1
        self.order.append(self.tenant)
        return self.turns < self._stop_after


async def test_all_who_are_behind_get_their_turns() -> None:
    backlog_scheduler = BacklogScheduler(MemoryLimiter(1 << 20).catch_up)
    Everlasting.order.clear()
    greedy = [Everlasting("acme", 30) for _ in range(10)]
    other = Everlasting("globex", 30)
    for dispatcher in (*greedy, other):
        backlog_scheduler.schedule(cast(Any, dispatcher), cast(Any, None))
    await eventually(lambda: all(dispatcher.turns == 30 for dispatcher in (*greedy, other)))
    assert Everlasting.order[:60].count("globex") == 30  # ten of one tenant have together what one of another has


async def test_who_reads_the_tail_is_served_while_another_waits_for_storage(world: BrokerWorld) -> None:
    await stored(world, 50)
    ingress_limiter = world.ledgers.delay("open")
    slow = await reader(world, 1000, "slow")
    tail = await reader(world, 1000, "tail", initial_position=pb.Subscribe.Latest)
    publisher = await world.connected("owner")
    await publisher.producer(TOPIC, producer_id=3)
    publisher.write(send_frame(50, payload(50), producer_id=3))
    assert (await tail.next()).text[:6] == b"000050"
    ingress_limiter.set()
    await read_all(slow, 51)


async def silent_consumer(world: BrokerWorld, permits: int, name: str) -> socket.socket:
    """A socket that says what a consumer says and then never reads."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await loop.sock_connect(sock, ("127.0.0.1", world.port))
    connect = pb.Connect(client_version="silent", auth_method_name="token", auth_data=world.token("owner").encode())
    subscribe = pb.Subscribe(
        topic=TOPIC,
        subscription=name,
        sub_type=pb.Subscribe.Exclusive,
        consumer_id=1,
        request_id=1,
        initial_position=pb.Subscribe.Earliest,
    )
    await loop.sock_sendall(sock, frames.command(C.CONNECT, connect=connect))
    await loop.sock_recv(sock, 4096)  # CONNECTED
    await loop.sock_sendall(sock, frames.command(C.SUBSCRIBE, subscribe=subscribe))
    await loop.sock_recv(sock, 4096)  # SUCCESS
    flow = pb.Flow(consumer_id=1, message_permits=permits)
    await loop.sock_sendall(sock, frames.command(C.FLOW, flow=flow))
    return sock


@pytest.mark.parametrize("permits", [1000, 1_000_000])
async def test_a_consumer_that_never_reads_holds_little_and_others_go_on(world: BrokerWorld, permits: int) -> None:
    topic = await stored(world, 200)
    sock = await silent_consumer(world, permits, "silent")
    try:
        silent = topic.subscriptions.table["silent"]
        await eventually(lambda: any(not one.sink.writable for one in silent.consumers))
        other = await reader(world, permits, "other")
        await read_all(other, 200)
        publisher = await world.connected("owner")
        await publisher.producer(TOPIC, producer_id=3)
        publisher.write(*(send_frame(index, payload(index), producer_id=3) for index in range(200, 220)))
        await read_all(other, 220, first=200)
        memory_limiter = world.service.memory_limiter
        assert 0 < memory_limiter.egress.used_bytes <= (1 << 20) + TURN_BYTES + 2 * SIZE
        assert memory_limiter.egress.tenants == {"acme": memory_limiter.egress.used_bytes}
        assert silent.bytes_out < 100 * SIZE
    finally:
        sock.close()
    await eventually(lambda: world.service.memory_limiter.egress.used_bytes == 0)


async def test_the_less_memory_is_left_the_less_may_pile_up_for_one(make_world: MakeWorld) -> None:
    world = await make_world(memory_budget_bytes=16 << 20)
    topic = await stored(world, 200)
    egress = world.service.memory_limiter.egress
    egress.take("acme", egress.limit_bytes)  # as if many others did not read
    sock = await silent_consumer(world, 1_000_000, "silent")
    try:
        await eventually(lambda: not next(iter(topic.subscriptions.table["silent"].consumers)).sink.writable)
        assert egress.used_bytes - egress.limit_bytes <= TURN_BYTES + 2 * SIZE
        quick = await reader(world, 1000, "quick")  # who reads is served all the same
        await read_all(quick, 200)
    finally:
        sock.close()
        egress.give("acme", egress.limit_bytes)
