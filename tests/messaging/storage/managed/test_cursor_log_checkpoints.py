"""Checkpoints of the cursor log: what each costs, and cursors that cannot be saved."""

from __future__ import annotations

import asyncio

import pytest

from messaging.storage.ledger_store import (
    Fence,
    Position,
    Unavailable,
)
from messaging.storage.managed.cursor_snapshots import SAVED_BYTES_MAX, SAVED_TOGETHER_MAX
from tests.support.storage.cursor_world import Deltas, World
from tests.support.storage.memory_ledgers import MemoryMetaStore
from tests.support.waiting import eventually


class RefusingMeta(MemoryMetaStore):
    refuse = False

    async def save_cursors(self, fence: Fence, states: list[tuple[int, Position, bytes]]) -> None:
        if self.refuse:
            raise Unavailable("metadata is away")
        await super().save_cursors(fence, states)


async def test_a_checkpoint_that_fails_forgets_no_cursor() -> None:
    """The next one dropped the ledger of the failed one without having saved the cursors in it."""
    meta = RefusingMeta()
    world = await World(meta=meta).start()
    first_id, second_id = await world.subscriptions(2)
    await world.store_delta(first_id, b"a")
    meta.refuse = True
    with pytest.raises(Unavailable):
        await world.log.checkpoint()
    meta.refuse = False
    await world.store_delta(second_id, b"b")
    await world.log.checkpoint()
    after = await world.crash()
    await after.load()
    assert after.loaded == {first_id: [b"a"], second_id: [b"b"]}


async def test_a_checkpoint_does_not_set_back_a_cursor_saved_meanwhile() -> None:
    """A topic is unloaded, which saves its cursor, while a checkpoint waits for the disk: its older snapshot came afterwards."""
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    await world.store_delta(subscription_id, b"a")
    world.store.hold()
    checkpoint = asyncio.ensure_future(world.log.checkpoint())
    await eventually(lambda: bool(world.store.held))
    world.loaded[subscription_id].append(b"late")
    world.log.append(subscription_id, b"late")
    await world.unload()
    world.store.release()
    await checkpoint
    await world.load()
    assert world.loaded[subscription_id] == [b"a", b"late"]


class Picky(MemoryMetaStore):
    """Refuses to save one cursor, as SQLite does a number beyond 64 bits; and counts what it is asked to save."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[int] = set()
        self.error: Exception = OverflowError("Python int too large to convert to SQLite INTEGER")
        self.calls: list[int] = []

    async def save_cursors(self, fence: Fence, states: list[tuple[int, Position, bytes]]) -> None:
        self.calls.append(len(states))
        if any(state[0] in self.refused for state in states):
            raise self.error
        await super().save_cursors(fence, states)


@pytest.mark.parametrize("why", ["packing", "saving", "store"])
async def test_a_cursor_that_cannot_be_saved_keeps_no_other_from_it_and_loses_nothing(why: str) -> None:
    """Seen: `struct.pack` raised for one mark-delete position, and from then on no checkpoint of any topic succeeded."""
    meta = Picky()
    world = await World(meta=meta).start()
    first_id, bad_id, third_id = await world.subscriptions(3)
    for index in range(3):
        for key in (first_id, bad_id, third_id):
            await world.store_delta(key, b"%d" % index)
    if why == "packing":
        world.loaded[bad_id].broken = True
    else:
        meta.refused = {bad_id}
        meta.error = Unavailable("too large") if why == "store" else meta.error
    for index in range(3, 6):
        await world.log.checkpoint()
        assert len(await world.ledgers()) == 2, "what only repeats the others is gone, whatever happens to this one"
        assert world.log.states.unsaved == {bad_id}
        assert world.log.health.failing
        await world.store_delta(bad_id, b"%d" % index)
        await world.store_delta(first_id, b"%d" % index)
    await world.log.checkpoint()
    after = await world.crash()
    assert after.log.recovered == {bad_id: [b"%d" % index for index in range(6)]}, "in order, and no other's"
    meta.refused = set()
    await after.load()
    assert after.loaded[third_id] == [b"0", b"1", b"2"]
    assert after.loaded[first_id] == after.loaded[bad_id] == [b"%d" % index for index in range(6)]
    await after.log.checkpoint()
    assert len(await after.ledgers()) == 1 and not after.log.states.unsaved


async def test_a_deleted_cursor_that_could_not_be_saved_is_carried_no_longer() -> None:
    world = await World().start()
    first_id, bad_id = await world.subscriptions(2)
    await world.store_delta(bad_id, b"a")
    world.loaded[bad_id].broken = True
    await world.log.checkpoint()
    world.log.forget(bad_id)
    await world.store_delta(first_id, b"b")
    await world.log.checkpoint()
    assert len(await world.ledgers()) == 1 and not world.log.states.unsaved


async def test_unloading_saves_what_can_be_saved_and_keeps_the_rest_for_the_next_load() -> None:
    """Seen: unload answered 500, and the answered acknowledgements of the topic's other subscriptions were gone."""
    world = await World().start()
    first_id, bad_id, third_id = await world.subscriptions(3)
    for key in (first_id, bad_id, third_id):
        await world.store_delta(key, b"a")
    world.loaded[bad_id].broken = True
    broken = world.loaded[bad_id]
    await world.unload()
    assert set(world.log.states.cursors) == {bad_id}
    assert not world.log.is_saved(bad_id) and world.log.is_saved(first_id)
    await world.load()
    assert world.loaded == {first_id: [b"a"], bad_id: [b"a"], third_id: [b"a"]}
    assert world.loaded[bad_id] is broken


async def test_unloading_while_the_store_is_away_keeps_every_cursor_until_a_checkpoint_saves_them() -> None:
    meta = RefusingMeta()
    world = await World(meta=meta).start()
    first_id, second_id = await world.subscriptions(2)
    await world.store_delta(first_id, b"a")
    meta.refuse = True
    await world.unload()
    assert set(world.log.states.cursors) == {first_id, second_id} and world.log.health.failing
    assert world.log.refusing is None, "the log itself goes on taking deltas"
    meta.refuse = False
    await eventually(lambda: world.log.checkpointing is None)
    assert not world.log.health.failing and not world.log.states.unsaved
    await world.load()
    assert world.loaded == {first_id: [b"a"], second_id: []}


async def test_a_load_that_fails_leaves_what_was_recovered_to_the_next() -> None:
    """Seen: 8 of 9 answered acknowledgements came back, because the first load failed after it had claimed them."""
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    for index in range(9):
        await world.store_delta(subscription_id, b"%d" % index)
    after = await world.crash()
    assert len(after.log.recovered_deltas(subscription_id)) == 9  # a load begins, and ends in an error
    await after.log.checkpoint()
    await after.load()
    assert len(after.loaded[subscription_id]) == 9


async def test_a_checkpoint_costs_as_many_steps_as_cursors_changed_in_slices() -> None:
    """Seen: 0.65 s of the loop for a topic with 5,000 subscriptions: each was searched among all."""
    meta = Picky()
    world = await World(meta=meta).start()
    ids = await world.subscriptions(5_000)
    packed = 0

    class Counting(Deltas):
        def snapshot(self) -> bytes:
            nonlocal packed
            packed += 1
            return super().snapshot()

    for key in ids:
        world.log.claim(key, Counting())
        world.log.append(key, b"a")
    await world.log.checkpoint()
    assert packed == 5_000
    assert max(meta.calls) == SAVED_TOGETHER_MAX, "what one turn of the loop does has a bound"
    assert len(meta.calls) == 5_000 / SAVED_TOGETHER_MAX


async def test_large_snapshots_are_packed_few_at_a_time() -> None:
    meta = Picky()
    world = await World(meta=meta).start()
    for key in await world.subscriptions(6):
        world.log.claim(key, Deltas([b"x" * (SAVED_BYTES_MAX // 2)]))
        world.log.append(key, b"a")
    await world.log.checkpoint()
    assert meta.calls == [2, 2, 2]
