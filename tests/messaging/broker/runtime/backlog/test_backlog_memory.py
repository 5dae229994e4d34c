"""The memory that reads for consumers that are behind take: one budget for all, shared among tenants, and all of it given back."""

from __future__ import annotations

import sys

from messaging.broker.core.backlog.plan import FIRST_READ_BYTES
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.runtime.topics.backlog.scheduler import BacklogScheduler
from messaging.broker.runtime.topics.dispatch.dispatcher import Dispatcher
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import READ_BYTES
from tests.support.clients.raw_client import send_frame
from tests.support.long_topic import TOPIC, payload, pending_reads, read_all, reader, resting, stored
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

C = pb.Command


async def test_what_was_read_is_given_back_at_the_end(world: BrokerWorld) -> None:
    await stored(world, 40)
    client = await reader(world, 1000)
    await read_all(client, 40)
    world.service.sweep_memory()
    world.service.sweep_memory()
    assert world.service.memory_limiter.catch_up.used_bytes == 0
    assert world.service.backlog_scheduler.readers == {}


async def test_a_topic_that_closes_gives_back_what_it_reads(world: BrokerWorld) -> None:
    topic = await stored(world, 40)
    world.ledgers.delay("open")
    client = await reader(world, 1000)
    await eventually(lambda: pending_reads(topic) > 0)
    await world.service.topics.unload(topic.name)
    await eventually(lambda: world.service.memory_limiter.catch_up.used_bytes == 0)
    assert world.service.backlog_scheduler.readers == {}
    assert await client.expect("CLOSE_CONSUMER")


async def test_a_consumer_without_permits_keeps_one_read_and_then_none(world: BrokerWorld) -> None:
    client = await resting(world, 60, taken=2)
    account = world.service.memory_limiter.catch_up
    both = account.used_bytes
    world.service.sweep_memory()
    assert FIRST_READ_BYTES // 2 <= account.used_bytes <= both - READ_BYTES // 2
    world.service.sweep_memory()
    assert account.used_bytes == 0
    client.say(C.FLOW, consumer_id=1, message_permits=1000)
    await read_all(client, 60, first=2)


def test_large_reads_are_for_large_budgets() -> None:
    """Several of the largest size have room at once."""
    sizes = {
        budget_mib: BacklogScheduler(MemoryLimiter(budget_mib << 20).catch_up).read_bytes(4 << 20)
        for budget_mib in (16, 128, 256, 4096)
    }
    assert sizes == {16: 1 << 20, 128: 2 << 20, 256: 4 << 20, 4096: 4 << 20}
    assert BacklogScheduler(MemoryLimiter(4096 << 20).catch_up).read_bytes(READ_BYTES) == READ_BYTES


async def test_short_memory_is_taken_from_those_who_take_nothing(make_world: MakeWorld) -> None:
    world = await make_world(memory_budget_bytes=16 << 20)  # 4 MiB of it for catching up
    resting = []
    for number in range(8):
        await stored(world, 40, f"{TOPIC}-{number}")
        resting.append(await reader(world, 1, topic=f"{TOPIC}-{number}"))
        await read_all(resting[-1], 1)
    account = world.service.memory_limiter.catch_up
    await eventually(lambda: world.service.backlog_scheduler.reads_waiting == 0)
    assert account.used_bytes <= account.limit_bytes
    for client in resting:  # each goes on all the same
        client.say(C.FLOW, consumer_id=1, message_permits=1000)
        await read_all(client, 40, first=1)
    assert account.used_bytes <= account.limit_bytes


async def test_memory_denied_to_one_tenant_is_there_for_another(make_world: MakeWorld) -> None:
    world = await make_world(memory_budget_bytes=16 << 20)
    account = world.service.memory_limiter.catch_up
    await stored(world, 30)
    account.take("acme", account.limit_bytes // 2)  # as if many of its consumers were served
    stranger = await world.connected("superuser")
    other = "persistent://other/things/long"
    await stranger.producer(other, producer_id=7)
    for index in range(30):
        stranger.write(send_frame(index, payload(index), producer_id=7))
        await stranger.expect("SEND_RECEIPT")
    denied = await reader(world, 1000)
    await eventually(lambda: world.service.backlog_scheduler.reads_waiting == 1)
    await stranger.subscribe(other, permits=1000, sub_type=pb.Subscribe.Exclusive)
    await read_all(stranger, 30)
    assert world.service.backlog_scheduler.reads_waiting == 1
    assert await denied.quiet() == []
    world.service.backlog_scheduler.resized("acme", account.limit_bytes // 2, 0)
    await read_all(denied, 30)


async def test_a_dispatcher_that_reads_nothing_takes_little(world: BrokerWorld) -> None:
    topic = await stored(world, 1)
    dispatcher = Dispatcher(topic)
    tail = dispatcher.cache
    assert sys.getsizeof(dispatcher) + sys.getsizeof(tail) <= 250
    for part in (dispatcher, tail):
        assert not hasattr(part, "__dict__")
        held = [getattr(part, name) for name in type(part).__slots__]
        assert not [one for one in held if isinstance(one, list | dict | set) or callable(one)]
