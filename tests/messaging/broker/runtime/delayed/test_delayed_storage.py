"""The index of delayed messages in storage: restarts, kills, damage, a full disk. 20 entries are sealed at a time."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from messaging.broker.runtime.topics.dispatch import dispatcher
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import DiskFull
from messaging.storage.managed.orphans import collect_orphans
from messaging.storage.meta_store import DelayedRun
from tests.support.clients.consuming import TOPIC, ack, id_of, texts
from tests.support.clients.publishing import producing, receipts
from tests.support.clients.raw_client import RawClient, delayed_frame, send_frame
from tests.support.clock import Clock, give
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

START_MS = 1_700_000_000_000
SEALED = 20
HOUR_MS = 3_600_000


@pytest.fixture
async def world(make_world: MakeWorld) -> BrokerWorld:
    return begun(await make_world(), START_MS)[0]


def begun(world: BrokerWorld, now_ms: int) -> tuple[BrokerWorld, Clock]:
    clock = Clock(now_ms)
    give(world.service, clock)
    world.service.sweep_memory()
    world.service.topics.services.memory.delayed_seal_entries = SEALED
    return world, clock


async def killed(make_world: MakeWorld, world: BrokerWorld, now_ms: int = START_MS) -> tuple[BrokerWorld, Clock]:
    return begun(await make_world(after=world), now_ms)


async def publish(world: BrokerWorld, after_ms: list[int], first: int = 0, runs: Sequence[int] = ()) -> None:
    """Numbered messages; 0: at once. `runs`: how many there are to be after each 20 of them."""
    producer = await producing(world)
    frames = [
        delayed_frame(first + at, b"%d" % (first + at), START_MS + after) if after else send_frame(first + at, b"%d" % (first + at))
        for at, after in enumerate(after_ms)
    ]
    for at in range(0, len(frames), SEALED):
        producer.write(*frames[at : at + SEALED])
        await receipts(producer, len(frames[at : at + SEALED]))
        if at // SEALED < len(runs):
            await stored_runs(world, runs[at // SEALED])
    await producer.close()


def runs_of(world: BrokerWorld) -> tuple[DelayedRun, ...]:
    return world.service.topics.loaded[str(parse_topic(TOPIC))].ledger.record.delayed_runs


async def stored_runs(world: BrokerWorld, count: int) -> tuple[DelayedRun, ...]:
    await eventually(lambda: len(runs_of(world)) == count)
    return runs_of(world)


async def consuming(world: BrokerWorld, name: str = "s", permits: int = 1000) -> RawClient:
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, name, permits=permits)
    return consumer


async def all_of(world: BrokerWorld, clock: Clock, consumer: RawClient, count: int) -> list[int]:
    clock.pass_(2 * HOUR_MS)
    world.service.sweep_memory()
    return [int(text) for text in texts(await consumer.messages(count))]


async def ledgers_of(world: BrokerWorld) -> set[int]:
    return set(await world.ledgers.ledger_ids(world.service.storage.owned.name))


async def test_what_is_sealed_is_there_after_a_kill_and_nothing_of_it_is_read(world: BrokerWorld, make_world: MakeWorld) -> None:
    draw = random.Random(5)
    after_ms = [draw.randrange(60_000, HOUR_MS) for _ in range(3 * SEALED)]
    await publish(world, after_ms, runs=(1, 2, 3))
    world, clock = await killed(make_world, world)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    consumers = [await consuming(world, name) for name in ("a", "b")]
    await publish(world, [0], first=60)
    for consumer in consumers:
        assert texts(await consumer.messages(1)) == [b"60"]
        assert await consumer.quiet() == []
    assert [one.delayed_entries for one in topic.subscriptions.table.values()] == [60, 60]
    assert world.service.topics.services.loops.backlog_scheduler.reads == 0
    assert sorted(await all_of(world, clock, consumers[0], 60)) == list(range(60))
    assert sorted(int(text) for text in texts(await consumers[1].messages(60))) == list(range(60))
    assert await consumers[0].quiet() == [] == await consumers[1].quiet()
    await stored_runs(world, 0)


@pytest.mark.parametrize("kind", [pb.Subscribe.Shared, pb.Subscribe.Key_Shared])
async def test_what_is_due_soon_is_read_before_its_time(world: BrokerWorld, make_world: MakeWorld, kind: Any) -> None:
    draw = random.Random(5)
    after_ms = [draw.randrange(60_000, 62_000) for _ in range(3 * SEALED)]
    await publish(world, after_ms, runs=(1, 2, 3))
    world, _ = await killed(make_world, world, START_MS + 40_000)
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, "s", permits=100, sub_type=kind)
    await publish(world, [0], first=60)
    assert texts(await consumer.messages(1)) == [b"60"]
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    delays, scheduler = topic.subscriptions.table["s"].state.delays, world.service.topics.services.loops.backlog_scheduler
    assert delays is not None
    await eventually(lambda: delays.ahead.held_entries == 60)
    assert await consumer.quiet() == []
    reads, clock = scheduler.reads, Clock(START_MS + 63_000)
    give(world.service, clock)
    world.service.sweep_memory()
    assert sorted(int(text) for text in texts(await consumer.messages(60))) == list(range(60))
    assert scheduler.reads == reads
    assert await consumer.quiet() == []
    await eventually(lambda: not runs_of(world))
    clock.pass_(60_000)
    world.service.sweep_memory()
    await eventually(lambda: delays.ahead.memory_bytes == 0)


async def test_what_was_not_sealed_is_found_by_reading(world: BrokerWorld, make_world: MakeWorld) -> None:
    await publish(world, [60_000] * (SEALED + 5) + [0] + [70_000] * 5, runs=(1,))
    world, clock = await killed(make_world, world)
    consumer = await consuming(world)
    assert texts(await consumer.messages(1)) == [b"25"]
    assert await consumer.quiet() == []
    assert sorted(await all_of(world, clock, consumer, 30)) == [one for one in range(31) if one != 25]
    assert await consumer.quiet() == []


async def test_what_was_acknowledged_before_a_kill_does_not_come_again(world: BrokerWorld, make_world: MakeWorld) -> None:
    await publish(world, [60_000 + 1_000 * at for at in range(2 * SEALED)], runs=(1, 2))
    consumer, clock = await consuming(world), Clock(START_MS + 69_500)
    give(world.service, clock)
    world.service.sweep_memory()
    found = await consumer.messages(11)
    for message in found:
        ack(consumer, id_of(message))
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await eventually(lambda: topic.subscriptions.table["s"].backlog_entries == 29)
    world, clock = await killed(make_world, world, START_MS + 69_500)
    consumer = await consuming(world)
    assert await consumer.quiet() == []
    assert sorted(await all_of(world, clock, consumer, 29)) == list(range(11, 40))
    assert await consumer.quiet() == []


async def test_runs_are_merged_and_their_ledgers_deleted(world: BrokerWorld, make_world: MakeWorld) -> None:
    await publish(world, [60_000 + at for at in range(8 * SEALED)], runs=(1, 2, 3, 4, 5, 6, 7, 1))
    (run,) = await stored_runs(world, 1)
    assert run.entries == 8 * SEALED
    before = await ledgers_of(world)
    world, clock = await killed(make_world, world)
    assert (await collect_orphans(world.service.storage)).ledgers == 0
    assert before - await ledgers_of(world) <= {max(before)}
    consumer = await consuming(world)
    assert sorted(await all_of(world, clock, consumer, 8 * SEALED)) == list(range(8 * SEALED))


async def test_a_graceful_unload_and_load_change_nothing(world: BrokerWorld) -> None:
    await publish(world, [60_000] * 30, runs=(1,))
    await world.service.topics.unload(parse_topic(TOPIC))
    consumer = await consuming(world)
    assert await consumer.quiet() == []
    clock = Clock(START_MS)
    give(world.service, clock)
    world.service.sweep_memory()
    assert sorted(await all_of(world, clock, consumer, 30)) == list(range(30))


async def test_a_deleted_topic_leaves_no_run(world: BrokerWorld) -> None:
    before = await ledgers_of(world)
    await publish(world, [60_000] * 60, runs=(1, 2, 3))
    await world.service.topics.delete(parse_topic(TOPIC), force=True)
    assert await ledgers_of(world) <= before


async def test_a_block_that_cannot_be_read_delays_its_messages_again(world: BrokerWorld, make_world: MakeWorld) -> None:
    """Its messages are read in the log: none comes early, twice or not at all."""
    await publish(world, [60_000 + 1_000 * at for at in range(2 * SEALED)], runs=(1, 2))
    world.ledgers.damage(runs_of(world)[0].ledger_id, 0)
    consumer, clock = await consuming(world), Clock(START_MS + 56_000)
    give(world.service, clock)
    world.service.sweep_memory()
    await eventually(lambda: world.service.storage.damage["delayed"] == 1)
    assert await consumer.quiet() == []
    clock.pass_(10_000)
    world.service.sweep_memory()
    assert [int(text) for text in texts(await consumer.messages(8))] == list(range(8))
    assert await consumer.quiet() == []
    assert sorted(await all_of(world, clock, consumer, 32)) == list(range(8, 40))
    assert await consumer.quiet() == []
    assert world.service.storage.damage["delivery"] == 0


async def test_a_directory_that_cannot_be_read_costs_no_message(world: BrokerWorld, make_world: MakeWorld) -> None:
    await publish(world, [60_000] * (2 * SEALED) + [0], runs=(1, 2))
    first, second = await stored_runs(world, 2)
    after = await make_world(after=world)
    after.ledgers.damage(first.ledger_id, first.directory_entry)
    world, clock = begun(after, START_MS)
    consumer = await consuming(world)
    assert texts(await consumer.messages(1)) == [b"40"]
    assert await consumer.quiet() == []
    assert [one.ledger_id for one in runs_of(world)] == [second.ledger_id]
    assert sorted(await all_of(world, clock, consumer, 40)) == list(range(40))
    assert await consumer.quiet() == []


async def test_on_a_full_disk_nothing_is_sealed_and_everything_is_delivered(world: BrokerWorld) -> None:
    consumer = await consuming(world)
    await publish(world, [0])
    assert texts(await consumer.messages(1)) == [b"0"]
    world.ledgers.fail_next("create", DiskFull("full"))
    await publish(world, [60_000] * SEALED)
    failures = world.service.topics.services.loops.dispatching
    await eventually(lambda: failures.failures == 1)
    assert runs_of(world) == ()
    clock = Clock(START_MS)
    give(world.service, clock)
    world.service.sweep_memory()
    assert sorted(await all_of(world, clock, consumer, SEALED)) == list(range(SEALED))
    assert await consumer.quiet() == []


def test_numpy_is_not_loaded_for_a_few_delayed_messages() -> None:
    """It takes 25 MB: what a broker needs at its start does not load it."""
    code = f"import sys, {dispatcher.__name__}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
