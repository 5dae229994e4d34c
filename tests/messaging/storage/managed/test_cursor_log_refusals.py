"""What the log of cursors refused: it is answered as durable only once its cursor is saved."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.storage.ledger_store import StoreError
from tests.support.storage.cursor_world import World
from tests.support.waiting import eventually


class Saving:
    """Cursors are saved only once they may be."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.may = asyncio.Event(), asyncio.Event()
        self._save = world.meta.save_cursors
        monkeypatch.setattr(world.meta, "save_cursors", self._save_later)

    async def _save_later(self, *values: Any) -> None:
        self.begun.set()
        await self.may.wait()
        await self._save(*values)


def repeated(world: World, subscription_id: int) -> list[StoreError | None]:
    """What an acknowledgement that comes again is told, and when."""
    told: list[StoreError | None] = []
    world.log.when_durable(subscription_id, told.append)
    return told


async def test_what_was_refused_is_durable_only_once_its_cursor_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger of the checkpoint was open, and a repeated acknowledgement was answered: a crash then forgot it."""
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    saving = Saving(world, monkeypatch)
    world.store.fail_appends()
    assert await world.store_delta(subscription_id, b"a") is not None
    world.store.stop_failing()
    await asyncio.wait_for(saving.begun.wait(), 5)
    assert isinstance(repeated(world, subscription_id).pop(), StoreError)
    saving.may.set()
    await eventually(lambda: world.log.refusing is None)
    told = repeated(world, subscription_id)
    await eventually(lambda: told == [None])


async def test_what_the_former_ledger_refused_is_durable_only_once_its_cursor_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint had begun when the ledger before refused what was under way: nothing was held against acknowledgements that came
    again, and a crash before the cursor was saved forgot them."""
    world = await World().start()
    refused_id, other_id = await world.subscriptions(2)
    saving = Saving(world, monkeypatch)
    world.store.fail_appends()
    world.store.hold()
    refused = asyncio.create_task(world.store_delta(refused_id, b"a"))
    await eventually(lambda: world.store.kept_back == 1)
    world.store.stop_failing()
    world.log.begin_checkpoint()
    await eventually(lambda: world.store.kept_back == 2)
    world.store.release()
    assert isinstance(await refused, StoreError)
    await asyncio.wait_for(saving.begun.wait(), 5)
    assert world.log.refusing is None, "the ledger of the checkpoint takes what comes"
    assert isinstance(repeated(world, refused_id).pop(), StoreError)
    assert repeated(world, other_id) == [None]
    saving.may.set()
    await eventually(lambda: repeated(world, refused_id) == [None])
    after = await world.crash()
    await after.load()
    assert after.loaded[refused_id] == [b"a"]


async def test_what_is_under_way_to_the_former_ledger_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later block, of the ledger of the checkpoint, was durable first."""
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    saving = Saving(world, monkeypatch)
    world.store.fail_appends()
    world.store.hold()
    refused = asyncio.create_task(world.store_delta(subscription_id, b"a"))
    await eventually(lambda: world.store.kept_back == 1)
    world.store.stop_failing()
    world.log.begin_checkpoint()
    await eventually(lambda: world.store.kept_back == 2)
    told = repeated(world, subscription_id)
    (of_former, of_next), world.store.held = world.store.held or [], None
    of_next()
    await asyncio.wait_for(saving.begun.wait(), 5)
    assert told == []
    of_former()
    assert isinstance(await refused, StoreError)
    assert isinstance(told.pop(), StoreError)


async def test_what_was_refused_of_a_cursor_that_cannot_be_saved_stays_refused() -> None:
    """All other cursors were saved, and with that it counted as durable."""
    world = await World().start()
    broken_id, other_id = await world.subscriptions(2)
    world.loaded[broken_id].broken = True
    world.store.fail_appends()
    for subscription_id in (broken_id, other_id):
        assert await world.store_delta(subscription_id, b"a") is not None
    world.store.stop_failing()
    await eventually(lambda: world.repaired == [1])
    assert isinstance(repeated(world, broken_id).pop(), StoreError)
    assert repeated(world, other_id) == [None]
    world.loaded[broken_id].broken = False
    await world.log.checkpoint()
    assert repeated(world, broken_id) == [None]
