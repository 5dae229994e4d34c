"""Delivery times that nobody means, and delayed messages that are to cost others something."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.run_jobs import Merge, Seal
from messaging.broker.runtime.topics.delayed.timers import MERGES_MAX, SEALS_MAX
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import DiskFull
from tests.support.clients.consuming import TOPIC, texts
from tests.support.clients.publishing import producing, receipts
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

NOW_MS = 1_700_000_000_000
NEVER_MS = 2**63 - 1
PAST = (-(2**63), -1, 0, 1, NOW_MS - 1)
FUTURE = (NOW_MS + 3_600_000, 2**52, 2**62, NEVER_MS - 1, NEVER_MS)
SEALED = 5


def frame(number: int, at_ms: int, count: int = 0) -> bytes:
    metadata = pb.Metadata(producer_name="p", sequence_id=number, publish_time=1, deliver_at_time=at_ms)
    if count:
        metadata.num_messages_in_batch = count
    return frames.build_send(1, number, metadata, b"%d" % number)


@pytest.fixture
async def clock(world: BrokerWorld) -> Clock:
    made = Clock(NOW_MS)
    give(world.service, made)
    world.service.sweep_memory()
    world.service.topics.services.memory.delayed_seal_entries = SEALED
    return made


async def consuming(world: BrokerWorld, name: str = "s") -> RawClient:
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, name, permits=10_000)
    return consumer


@pytest.mark.parametrize("full", [False, True])
async def test_times_that_nobody_means(world: BrokerWorld, clock: Clock, full: bool) -> None:
    """What is over comes at once; what is far waits, stored or not, and comes when nothing is delayed any more."""
    consumer, producer = await consuming(world), await producing(world)
    producer.write(*(frame(number, at_ms) for number, at_ms in enumerate(PAST)))
    await receipts(producer, len(PAST))
    assert [int(text) for text in texts(await consumer.messages(len(PAST)))] == list(range(len(PAST)))
    if full:
        world.ledgers.fail_next("create", DiskFull("full"))
    producer.write(*(frame(10 + number, at_ms) for number, at_ms in enumerate(FUTURE)))
    await receipts(producer, len(FUTURE))
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await eventually(lambda: world.service.topics.services.loops.dispatching.failures if full else topic.ledger.record.delayed_runs)
    producer.write(send_frame(20, b"20"))
    assert texts(await consumer.messages(1)) == [b"20"]
    clock.pass_(3_600_001)
    world.service.sweep_memory()
    assert texts(await consumer.messages(1)) == [b"10"]
    assert await consumer.quiet() == []
    await set_policies(world, delayed_delivery=False)
    numbers = sorted(int(text) for text in texts(await consumer.messages(len(FUTURE) - 1)))
    assert numbers == list(range(11, 10 + len(FUTURE)))


async def test_due_messages_do_not_wait_for_delays_that_others_store(world: BrokerWorld, clock: Clock) -> None:
    """Tenants that fill the index keep all those busy who seal and merge."""
    consumer, producer = await consuming(world), await producing(world)
    producer.write(*(frame(number, NOW_MS + 3_600_000) for number in range(SEALED)))
    await receipts(producer, SEALED)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await eventually(lambda: topic.ledger.record.delayed_runs)
    timers = world.service.topics.services.loops.delay_timers
    async with AsyncExitStack() as stack:
        for noisy in range(SEALS_MAX):
            await stack.enter_async_context(timers.turn(Seal([], [], 0), f"noisy-{noisy}"))
        for noisy in range(MERGES_MAX):
            await stack.enter_async_context(timers.turn(Merge([], 0), f"noisy-{noisy}"))
        clock.pass_(3_600_000)
        world.service.sweep_memory()
        assert len(texts(await consumer.messages(SEALED))) == SEALED


async def test_a_topic_of_very_many_ledgers_is_not_measured_at_every_turn(
    world: BrokerWorld, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As somebody makes them who unloads it for a day."""
    await consuming(world)
    producer = await producing(world)
    producer.write(frame(0, NOW_MS + 3_600_000))
    await receipts(producer, 1)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    delays = topic.subscriptions.table["s"].state.delays
    assert delays is not None
    last = topic.ledger_list.last_id
    for ledger_id in range(last + 1, last + 5_000):
        delays.index.add(ledger_id, [(0, NOW_MS + 7_200_000)])
    measured: list[int] = []
    count = entry_sets.memory_bytes
    monkeypatch.setattr(entry_sets, "memory_bytes", lambda sets: measured.append(len(sets)) or count(sets))
    for number in range(1, 30):
        producer.write(frame(number, NOW_MS + 3_600_000))
    await receipts(producer, 29)
    assert len([ledgers for ledgers in measured if ledgers >= 4_000]) <= 1
