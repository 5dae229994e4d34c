"""Compacting a topic of which delayed messages were cancelled: they do not come back when their ledgers are gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from messaging.broker.runtime.topics.persistent import persistent
from messaging.storage.managed.retention import NOTHING
from tests.support.brokers.delayed_broker import MINUTE_MS, START_MS, begun, cancel, published, topic_of
from tests.support.clients.consuming import TOPIC
from tests.support.compacting import LoopCalls, compact, read_all
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld


async def without_its_ledgers(world: BrokerWorld) -> None:
    """Only the compacted ledger has what was published."""
    topic = await topic_of(world)
    last = topic.ledger_list.last
    await topic.ledger.roll()
    await topic.ledger.writable()
    await topic.ledger.trim(world.service.compactions.kept_from(persistent(topic), last), NOTHING)
    assert not topic.ledger_list.holds(last)


async def values(world: BrokerWorld) -> list[bytes]:
    return [one.value for one in await read_all(world.service, topic=TOPIC)]


async def test_what_was_cancelled_is_left_out_and_the_one_before_stays(make_world: MakeWorld, tmp_path: Path) -> None:
    world, _ = begun(await make_world(), START_MS)
    ids = await published(world, 1, MINUTE_MS, MINUTE_MS, keys=["a", "a", "b"])
    await cancel(world, ids[1])
    await cancel(world, ids[2])
    await compact(world.service, tmp_path, topic=TOPIC)
    assert await values(world) == [b"0"]
    await without_its_ledgers(world)
    assert await values(world) == [b"0"]


async def test_what_was_cancelled_after_the_compaction_is_passed_over(make_world: MakeWorld, tmp_path: Path) -> None:
    world, clock = begun(await make_world(), START_MS)
    ids = await published(world, 1, MINUTE_MS, MINUTE_MS, 1, keys=["a", "b", "c", "d"])
    await compact(world.service, tmp_path, topic=TOPIC)
    await cancel(world, ids[1])
    assert await values(world) == [b"0", b"2", b"3"]
    await without_its_ledgers(world)
    assert await values(world) == [b"0", b"2", b"3"]
    more = await published(world, 1, MINUTE_MS, keys=["e", "f"])
    await cancel(world, more[1])  # the table is written again
    world, _ = begun(await make_world(after=world), clock())
    assert await values(world) == [b"0", b"2", b"3", b"0"]
    await compact(world.service, tmp_path, topic=TOPIC)
    overrides = (persistent(await topic_of(world))).overrides
    assert overrides is not None
    assert not overrides.is_cancelled(ids[1])  # the new compacted ledger does not have it
    assert await values(world) == [b"0", b"2", b"3", b"0"]


async def test_what_is_cancelled_while_a_compaction_runs_is_passed_over(make_world: MakeWorld, tmp_path: Path) -> None:
    world, _ = begun(await make_world(), START_MS)
    ids = await published(world, MINUTE_MS, MINUTE_MS, keys=["a", "b"])
    calls, loop, seen = LoopCalls(world.service), asyncio.get_running_loop(), list[str]()

    def cancel_between_the_passes(method: str) -> None:
        if method == "compaction.read" and method in seen:
            asyncio.run_coroutine_threadsafe(cancel(world, ids[0]), loop).result(30)
        seen.append(method)

    calls.before_call = cancel_between_the_passes
    await compact(world.service, tmp_path, topic=TOPIC, calls=calls)
    await without_its_ledgers(world)
    assert await values(world) == [b"1"]
