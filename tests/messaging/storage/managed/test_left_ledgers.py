"""Ledgers that this owner could not delete, or of which it does not know whether a record refers to them: decided while it runs."""

from __future__ import annotations

import asyncio

import pytest

from messaging.storage.ledger_store import WHOLE, Position, Unavailable
from messaging.storage.managed import orphans
from messaging.storage.managed import storage as storage_module
from messaging.storage.managed.orphans import Collected, collect_left
from messaging.storage.managed.retention import NOTHING
from tests.support.storage.away_meta import AwayMetaStore
from tests.support.storage.managed_world import NAME, World
from tests.support.waiting import eventually


@pytest.mark.parametrize("after_doing", [False, True])
async def test_a_ledger_of_unknown_outcome_is_decided_while_the_broker_runs(after_doing: bool) -> None:
    meta = AwayMetaStore()
    world = await World(meta=meta).start()
    meta.away, meta.after_doing = True, after_doing
    with pytest.raises(Unavailable):
        await world.ledger.writable()
    (made,) = await world.store.ledger_ids(WHOLE)
    assert world.storage.left == {made: NAME}
    with pytest.raises(Unavailable):
        await collect_left(world.storage)
    assert world.storage.left, "nothing is known yet"
    meta.away = False
    assert await collect_left(world.storage) == (Collected(0, 0) if after_doing else Collected(1, 0))
    assert await world.store.ledger_ids(WHOLE) == ([made] if after_doing else [])
    assert not world.storage.left
    after = await world.crash()
    assert [ledger.ledger_id for ledger in after.ledger.record.ledgers] == ([made] if after_doing else [])


async def test_a_ledger_whose_maker_was_cancelled_is_decided_too() -> None:
    meta = AwayMetaStore()
    world = await World(meta=meta).start()
    meta.stuck = asyncio.Event()
    making = asyncio.create_task(world.ledger.writable())
    await eventually(lambda: meta.waiting)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    meta.stuck = None
    assert await collect_left(world.storage) == Collected(1, 0)
    assert await world.store.ledger_ids(WHOLE) == []
    await world.ledger.writable()
    assert not world.storage.left


async def test_a_ledger_that_could_not_be_deleted_is_deleted_while_the_broker_runs() -> None:
    world = await World().start()
    for entry in (b"a", b"b"):
        await world.ledger.writable()
        world.append(entry)
        await eventually(lambda: world.ledger.in_flight == 0)
        await world.ledger.roll()
    first = world.ledger.record.ledgers[0].ledger_id
    world.store.fail_next("delete", Unavailable("away"))
    with pytest.raises(Unavailable):
        await world.ledger.trim(Position(first, 0), NOTHING)
    assert await collect_left(world.storage) == Collected(1, 1)
    assert first not in await world.store.ledger_ids(WHOLE)
    assert [data for _, data in await world.read_all()] == [b"b"]


async def test_few_at_a_time_and_not_more_than_can_be_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "DELETES_MAX", 2)
    monkeypatch.setattr(storage_module, "LEFT_MAX", 3)
    world = await World().start()
    for _ in range(4):
        ledger_id = await world.meta.next_ledger_id(world.storage.fence)
        await (await world.store.create(world.storage.fence, ledger_id, {})).close()
        world.storage.leave(ledger_id)
    assert len(world.storage.left) == 3
    assert [(await collect_left(world.storage)).ledgers for _ in range(3)] == [2, 1, 0]
    world.storage.leave(1 << 40)  # that is not there any more
    assert await collect_left(world.storage) == Collected(0, 0) and not world.storage.left
