"""Consumers that are behind: large reads, shared and read ahead, under one budget; and consumers that do not read."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from messaging.broker.core.accountant import Accountant
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.admin.stats import internal_stats
from messaging.broker.runtime.topics.behind import AHEAD_READS, READ_BYTES, TURN_BYTES, Behind, _Reader
from messaging.broker.runtime.topics.catch_up import CatchUp
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.seam import Corrupt, Position, Unavailable
from tests.messaging.broker.runtime.conftest import BrokerWorld, MakeWorld
from tests.messaging.broker.runtime.raw_client import RawClient, send_frame
from tests.waiting import eventually

C = pb.Command
TOPIC = "persistent://acme/orders/long"
SIZE = 60_000


def payload(index: int) -> bytes:
    return b"%06d" % index + bytes(SIZE - 6)


async def stored(world: BrokerWorld, count: int, topic: str = TOPIC, size: int = SIZE) -> Topic:
    """A topic with `count` messages that nobody has read: none of them is in memory."""
    client = await world.connected("owner")
    await client.producer(topic)
    for index in range(count):
        client.write(send_frame(index, payload(index)[:size]))
        await client.expect("SEND_RECEIPT")
    return world.service.topics.loaded[topic]


async def reader(world: BrokerWorld, permits: int, name: str = "s", topic: str = TOPIC, **fields: Any) -> RawClient:
    client = await world.connected("owner")
    await client.subscribe(topic, name, permits=permits, sub_type=pb.Subscribe.Exclusive, **fields)
    return client


def behind(topic: Topic) -> Behind:
    found = topic.outlet.behind
    assert found is not None
    return found


async def read_all(client: RawClient, count: int, first: int = 0) -> None:
    for index in range(first, count):
        body = (await client.next()).text
        assert body[:6] == b"%06d" % index


async def test_a_consumer_reads_a_long_topic_from_its_beginning(world: BrokerWorld) -> None:
    await stored(world, 100)
    client = await reader(world, 1000)
    await read_all(client, 100)
    reads = world.service.catch_up.reads
    assert reads <= 1 + 100 * SIZE // READ_BYTES + 2
    assert reads >= 100 * SIZE // (2 * READ_BYTES)


async def test_the_next_read_is_fetched_while_one_is_sent(world: BrokerWorld) -> None:
    topic = await stored(world, 40)
    client = await reader(world, 1)
    await read_all(client, 1)
    (held,) = behind(topic).readers.values()
    await eventually(lambda: bool(held.ahead) and held.ahead[0].there)
    assert held.current is not None
    assert held.ahead[0].first == Position(held.current.first.ledger_id, held.current.blocks[-1].last_entry + 1)
    assert world.service.catch_up.reads == 2  # and no further: the consumer takes nothing
    client.say(C.FLOW, consumer_id=1, message_permits=100)
    await read_all(client, 40, first=1)


@asynccontextmanager
async def by_hand(world: BrokerWorld, topic: Topic, count: int) -> AsyncIterator[tuple[Subscription, _Reader]]:
    """A consumer whose first read is there and who is handed out nothing but by hand; in the end it gets all `count` messages."""
    world.service.catch_up._turn_due = True
    client = await reader(world, count)
    await eventually(lambda: any(one.wants() for one in topic.subscriptions.values()))
    (subscription,) = topic.subscriptions.values()
    assert not topic.outlet.dispatch_behind(subscription, 1)  # nothing is there yet
    (held,) = behind(topic).readers.values()
    await eventually(lambda: held.current is not None and held.current.there)
    yield subscription, held
    world.service.catch_up._turn_due = False
    world.service.catch_up.serve(topic.outlet, subscription)
    await read_all(client, count)


async def test_several_reads_wait_for_a_consumer_that_takes_more(world: BrokerWorld) -> None:
    topic = await stored(world, 100)
    async with by_hand(world, topic, 100) as (subscription, held):
        assert topic.outlet.dispatch_behind(subscription, 1)
        await eventually(lambda: len(held.ahead) == AHEAD_READS and held.ahead[-1].there)
        assert held.current is not None
        reads = [held.current, *held.ahead]
        for before, after in pairwise(reads):
            assert after.first == Position(before.first.ledger_id, before.blocks[-1].last_entry + 1)
        assert world.service.catch_up.reads == len(reads)  # and no further


async def test_two_reads_are_under_way_at_a_time(world: BrokerWorld) -> None:
    """Where the second begins is known before the first is there."""
    topic = await stored(world, 100)
    async with by_hand(world, topic, 100) as (subscription, held):
        gate = world.ledgers.delay("read")
        for _ in range(3):
            assert topic.outlet.dispatch_behind(subscription, 1)
        assert [read.there for read in held.ahead] == [False] * AHEAD_READS
        assert held.current is not None
        for before, after in pairwise([held.current, *held.ahead]):
            assert after.first == Position(before.first.ledger_id, before.stop_entry)
        await eventually(lambda: world.ledgers.calls.count("read") == 1 + AHEAD_READS)
        gate.set()


async def test_a_read_that_brings_less_than_was_forecast_loses_nothing(world: BrokerWorld) -> None:
    topic = await stored(world, 60)
    ledger_id = topic.ledger.record.ledgers[0].ledger_id
    for entry in (12, 30):
        world.ledgers.damage(ledger_id, entry)
    client = await reader(world, 100)
    for index in (*range(12), *range(13, 30), *range(31, 60)):
        assert (await client.next()).text[:6] == b"%06d" % index


async def test_subscriptions_at_the_same_place_share_what_is_read(world: BrokerWorld) -> None:
    topic = await stored(world, 60)
    clients = [await reader(world, 0, f"s{number}") for number in range(5)]
    gate = world.ledgers.delay("open")
    for client in clients:
        client.say(C.FLOW, consumer_id=1, message_permits=1000)
    await eventually(lambda: topic.outlet.behind is not None and len(behind(topic).readers) == 5)
    cursors = internal_stats(topic)["cursors"]
    assert [cursors[f"s{number}"]["pendingReadOps"] for number in range(5)] == [1] * 5
    gate.set()
    for client in clients:
        await read_all(client, 60)
    alone = 2 + 60 * SIZE // READ_BYTES + 1
    assert world.service.catch_up.reads <= alone + 5  # they drift apart near the end, where reads are small
    assert world.service.catch_up.reads_joined >= 4


async def test_what_was_read_is_given_back_at_the_end(world: BrokerWorld) -> None:
    topic = await stored(world, 40)
    client = await reader(world, 1000)
    await read_all(client, 40)
    world.service.catch_up.sweep()
    world.service.catch_up.sweep()
    assert topic.outlet.behind is None
    assert world.service.accountant.catch_up.used_bytes == 0
    assert world.service.catch_up.behind == {}


async def test_a_consumer_without_permits_keeps_one_read_and_then_none(world: BrokerWorld) -> None:
    topic = await stored(world, 60)
    client = await reader(world, 2)
    await read_all(client, 2)
    (held,) = behind(topic).readers.values()
    await eventually(lambda: bool(held.ahead) and held.ahead[0].there)
    world.service.catch_up.sweep()
    assert not held.ahead and held.current is not None
    assert world.service.accountant.catch_up.used_bytes == held.current.size_bytes
    world.service.catch_up.sweep()
    assert world.service.accountant.catch_up.used_bytes == 0
    client.say(C.FLOW, consumer_id=1, message_permits=1000)
    await read_all(client, 60, first=2)


async def test_short_memory_is_taken_from_those_who_take_nothing(make_world: MakeWorld) -> None:
    world = await make_world(memory_budget_bytes=16 << 20)  # 4 MiB of it for catching up
    resting = []
    for number in range(8):
        await stored(world, 40, f"{TOPIC}-{number}")
        resting.append(await reader(world, 1, topic=f"{TOPIC}-{number}"))
        await read_all(resting[-1], 1)
    account = world.service.accountant.catch_up
    await eventually(lambda: world.service.catch_up.reads_waiting == 0)
    assert account.used_bytes <= account.limit_bytes
    for client in resting:  # each goes on all the same
        client.say(C.FLOW, consumer_id=1, message_permits=1000)
        await read_all(client, 40, first=1)
    assert account.used_bytes <= account.limit_bytes


async def test_memory_denied_to_one_tenant_is_there_for_another(make_world: MakeWorld) -> None:
    world = await make_world(memory_budget_bytes=16 << 20)
    account = world.service.accountant.catch_up
    await stored(world, 30)
    account.take("acme", account.limit_bytes // 2)  # as if many of its consumers were served
    stranger = await world.connected("superuser")
    other = "persistent://other/things/long"
    await stranger.producer(other, producer_id=7)
    for index in range(30):
        stranger.write(send_frame(index, payload(index), producer_id=7))
        await stranger.expect("SEND_RECEIPT")
    denied = await reader(world, 1000)
    await eventually(lambda: world.service.catch_up.reads_waiting == 1)
    await stranger.subscribe(other, permits=1000, sub_type=pb.Subscribe.Exclusive)
    await read_all(stranger, 30)
    assert world.service.catch_up.reads_waiting == 1
    assert await denied.quiet() == []
    world.service.catch_up.resized("acme", account.limit_bytes // 2, 0)
    await read_all(denied, 30)


async def test_who_is_behind_is_served_a_piece_a_turn(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await stored(world, 60)
    pieces: list[int] = []
    hand_out = type(topic.outlet).dispatch_behind

    def counted(outlet: Any, subscription: Subscription, bytes_max: int) -> bool:
        before = outlet.bytes_out
        more = hand_out(outlet, subscription, bytes_max)
        pieces.append(outlet.bytes_out - before)
        return more

    monkeypatch.setattr(type(topic.outlet), "dispatch_behind", counted)
    client = await reader(world, 1000)
    await read_all(client, 60)
    assert max(pieces) <= TURN_BYTES + 2 * SIZE
    assert sum(pieces) >= 60 * SIZE


async def test_a_corrupt_entry_is_passed_over_by_all_who_wait_for_it(world: BrokerWorld) -> None:
    topic = await stored(world, 5)
    ledger_id = topic.chain.last.ledger_id
    clients = [await reader(world, 0, f"s{number}") for number in range(2)]
    gate = world.ledgers.delay("open")
    world.ledgers.fail_next("read", Corrupt("injected", ledger_id, 0))
    for client in clients:
        client.say(C.FLOW, consumer_id=1, message_permits=10)
    await eventually(lambda: topic.outlet.behind is not None and len(behind(topic).readers) == 2)
    gate.set()
    for client in clients:
        await read_all(client, 5, first=1)


async def test_a_read_that_fails_is_tried_again(world: BrokerWorld) -> None:
    await stored(world, 3)
    world.ledgers.fail_next("read", Unavailable("injected"))
    client = await reader(world, 10)
    await read_all(client, 3)


async def test_a_topic_that_closes_gives_back_what_it_reads(world: BrokerWorld) -> None:
    topic = await stored(world, 40)
    world.ledgers.delay("open")
    client = await reader(world, 1000)
    await eventually(lambda: topic.outlet.behind is not None)
    await world.service.topics.unload(topic.name)
    await eventually(lambda: world.service.accountant.catch_up.used_bytes == 0)
    assert world.service.catch_up.behind == {}
    assert await client.expect("CLOSE_CONSUMER")


async def test_entries_sent_again_do_not_disturb_the_place_where_reading_goes_on(world: BrokerWorld) -> None:
    topic = await stored(world, 40)
    client = await world.connected("owner")
    await client.subscribe(TOPIC, permits=30)  # Shared
    found = await client.messages(30)
    first = found[0].body.message_id
    ids = [pb.MessageId(ledger_id=first.ledger_id, entry_id=first.entry_id)]
    (held,) = behind(topic).readers.values()
    current = held.current
    client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=ids)
    client.say(C.FLOW, consumer_id=1, message_permits=1)
    assert (await client.next()).body.message_id.entry_id == first.entry_id
    assert held.current is current
    client.say(C.FLOW, consumer_id=1, message_permits=100)
    await read_all(client, 40, first=30)


# --- consumers that do not read


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
        silent = topic.subscriptions["silent"]
        await eventually(lambda: any(not one.sink.writable for one in silent.consumers))
        other = await reader(world, permits, "other")
        await read_all(other, 200)
        publisher = await world.connected("owner")
        await publisher.producer(TOPIC, producer_id=3)
        publisher.write(*(send_frame(index, payload(index), producer_id=3) for index in range(200, 220)))
        await read_all(other, 220, first=200)
        accountant = world.service.accountant
        assert 0 < accountant.egress.used_bytes <= (1 << 20) + TURN_BYTES + 2 * SIZE
        assert accountant.egress.tenants == {"acme": accountant.egress.used_bytes}
        assert silent.bytes_out < 100 * SIZE
    finally:
        sock.close()
    await eventually(lambda: world.service.accountant.egress.used_bytes == 0)


async def test_the_less_memory_is_left_the_less_may_pile_up_for_one(make_world: MakeWorld) -> None:
    world = await make_world(memory_budget_bytes=16 << 20)
    topic = await stored(world, 200)
    egress = world.service.accountant.egress
    egress.take("acme", egress.limit_bytes)  # as if many others did not read
    sock = await silent_consumer(world, 1_000_000, "silent")
    try:
        await eventually(lambda: not topic.subscriptions["silent"].consumers[0].sink.writable)
        assert egress.used_bytes - egress.limit_bytes <= TURN_BYTES + 2 * SIZE
        quick = await reader(world, 1000, "quick")  # who reads is served all the same
        await read_all(quick, 200)
    finally:
        sock.close()
        egress.give("acme", egress.limit_bytes)


async def test_who_reads_the_tail_is_served_while_another_waits_for_storage(world: BrokerWorld) -> None:
    await stored(world, 50)
    gate = world.ledgers.delay("open")
    slow = await reader(world, 1000, "slow")
    tail = await reader(world, 1000, "tail", initial_position=pb.Subscribe.Latest)
    publisher = await world.connected("owner")
    await publisher.producer(TOPIC, producer_id=3)
    publisher.write(send_frame(50, payload(50), producer_id=3))
    assert (await tail.next()).text[:6] == b"000050"
    gate.set()
    await read_all(slow, 51)


# --- turns


class Everlasting:
    """Stands for a topic whose reader always takes more."""

    order: ClassVar[list[str]] = []

    def __init__(self, tenant: str, stop_after: int) -> None:
        self.topic = SimpleNamespace(name=SimpleNamespace(tenant=tenant))
        self.turns = 0
        self._stop_after = stop_after

    def dispatch_behind(self, subscription: object, bytes_max: int) -> bool:
        self.turns += 1
        self.order.append(self.topic.name.tenant)
        return self.turns < self._stop_after


async def test_all_who_are_behind_get_their_turns() -> None:
    catch_up = CatchUp(Accountant(1 << 20).catch_up)
    Everlasting.order.clear()
    greedy = [Everlasting("acme", 30) for _ in range(10)]
    other = Everlasting("globex", 30)
    for outlet in (*greedy, other):
        catch_up.serve(cast(Any, outlet), cast(Any, None))
    await eventually(lambda: all(outlet.turns == 30 for outlet in (*greedy, other)))
    assert Everlasting.order[:60].count("globex") == 30  # ten of one tenant have together what one of another has


async def test_an_outlet_that_reads_nothing_takes_little(world: BrokerWorld) -> None:
    topic = await stored(world, 1)
    outlet, tail = topic.outlet, topic.outlet.tail
    assert sys.getsizeof(outlet) + sys.getsizeof(tail) <= 250
    for part in (outlet, tail):
        assert not hasattr(part, "__dict__")
        held = [getattr(part, name) for name in type(part).__slots__]
        assert not [one for one in held if isinstance(one, list | dict | set) or callable(one)]
