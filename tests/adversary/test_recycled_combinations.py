"""The recycle bin together with delayed messages and compaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.adminrpc.compaction import CompactionBegin, CompactionCommit
from messaging.errors import MagnetarError
from tests.support.clients.consuming import texts
from tests.support.clients.publishing import producing, receipts
from tests.support.clients.raw_client import delayed_frame, send_frame
from tests.support.clock import Clock, give
from tests.support.compacting import compact, keyed, publish, read_all
from tests.support.policies import set_policies
from tests.support.recycling import TOPIC, deleted, named
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

HOUR_MS = 3_600_000


@pytest.mark.parametrize("restarted", [True, False])
async def test_delayed_messages_come_back_and_come_when_they_are_due(
    world: BrokerWorld, make_world: MakeWorld, restarted: bool
) -> None:
    clock = Clock(1_700_000_000_000)
    give(world.service, clock)
    await set_policies(world, recycle_bin_retention_hours=2)
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=100)
    producer = await producing(world)
    producer.write(delayed_frame(0, b"late", clock() + HOUR_MS), send_frame(1, b"now"))
    await receipts(producer, 2)
    assert texts(await consumer.messages(1)) == [b"now"]
    recycle_id = await deleted(world)
    if restarted:
        world = await make_world(after=world)
        give(world.service, clock)
        await set_policies(world, recycle_bin_retention_hours=2)
    await world.admin.recycle_bin.restore(named(recycle_id))
    again = await world.connected("owner")
    await again.subscribe(TOPIC, permits=100)
    assert texts(await again.messages(1)) == [b"now"] and await again.quiet() == []
    clock.pass_(HOUR_MS)
    world.service.sweep_memory()
    assert texts(await again.messages(1)) == [b"late"]


async def test_what_was_compacted_comes_back_compacted_and_is_compacted_again(world: BrokerWorld, tmp_path: Path) -> None:
    await set_policies(world, recycle_bin_retention_hours=1)
    await publish(world.service, keyed("a", b"1"), keyed("a", b"2"), keyed("b", b"3"))
    assert await compact(world.service, tmp_path) == 1
    await publish(world.service, keyed("b", b"4"))
    before = await read_all(world.service)
    await world.admin.recycle_bin.restore(named(await deleted(world)))
    assert await read_all(world.service) == before
    assert await compact(world.service, tmp_path) == 1
    assert [(seen.key, seen.value) for seen in await read_all(world.service)] == [("a", b"2"), ("b", b"4")]


async def test_a_compaction_does_not_end_in_a_topic_that_was_deleted_meanwhile(world: BrokerWorld, tmp_path: Path) -> None:
    await set_policies(world, recycle_bin_retention_hours=1)
    await publish(world.service, keyed("a", b"1"), keyed("a", b"2"))
    before = await read_all(world.service)
    begun = await world.admin.compaction.begin(CompactionBegin(topic=TOPIC, task_id="t"))
    recycle_id = await deleted(world)
    commit = CompactionCommit(session=begun.session, removed_messages=2, last_batch_index=-1)
    with pytest.raises(MagnetarError):
        await world.admin.compaction.commit(commit)
    await world.admin.recycle_bin.restore(named(recycle_id))
    assert await read_all(world.service) == before
