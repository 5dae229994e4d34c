"""Terminating a managed ledger: what may be appended, and what is stored of it, at every point on the way."""

from __future__ import annotations

import asyncio

import pytest

from messaging.storage.ledger_store import AppendFailed, Fence, LedgerClosed, StoreError, Unavailable
from messaging.storage.meta_store import TopicRecord
from tests.support.storage.managed_world import World
from tests.support.waiting import eventually


async def started(**limits: int) -> World:
    world = await World(**limits).start()  # type: ignore[arg-type]
    await world.ledger.writable()
    return world


async def test_no_append_is_taken_from_the_call_on() -> None:
    world = await started()
    world.store.hold()
    first = world.append(b"before")
    terminating = asyncio.ensure_future(world.ledger.terminate())
    await asyncio.sleep(0)
    with pytest.raises(LedgerClosed):
        world.append(b"meanwhile")
    world.store.release()
    assert await terminating == first
    assert (world.ledger.terminated, world.ledger.ledger_list.last) == (True, first)
    with pytest.raises(LedgerClosed):
        world.append(b"after")


async def test_a_terminated_topic_that_is_opened_again_takes_no_append_either() -> None:
    world = await started()
    world.append(b"a")
    await world.ledger.terminate()
    await world.ledger.close()
    await world.open()
    await world.ledger.writable()
    with pytest.raises(LedgerClosed):
        world.append(b"b")


async def test_terminating_twice_is_terminating_once() -> None:
    world = await started()
    first = world.append(b"a")
    assert await asyncio.gather(world.ledger.terminate(), world.ledger.terminate()) == [first, first]
    assert await world.ledger.terminate() == first


async def test_when_it_cannot_be_stored_appends_are_taken_as_before() -> None:
    world = await started()
    cas_topic = world.meta.cas_topic

    async def fail(fence: Fence, record: TopicRecord) -> TopicRecord:
        raise Unavailable("the disk is full")

    world.meta.cas_topic = fail  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        await world.ledger.terminate()
    world.meta.cas_topic = cas_topic  # type: ignore[method-assign]
    assert not world.ledger.terminated
    world.append(b"goes on")
    await eventually(lambda: world.outcomes == [("goes on", None)])


async def test_entries_of_unknown_outcome_are_settled_first() -> None:
    world = await started()
    world.store.lose_outcomes(AppendFailed("torn"))
    world.append(b"torn")
    with pytest.raises(StoreError):
        await world.ledger.terminate()
    assert not world.ledger.terminated
    world.store.heal()
    await world.ledger.recover()
    assert await world.ledger.terminate() == world.ledger.ledger_list.last


async def test_a_ledger_closed_meanwhile_terminates_nothing() -> None:
    world = await started()
    await world.ledger.close()
    with pytest.raises(StoreError):
        await world.ledger.terminate()
    again = await world.open()
    assert not again.terminated
