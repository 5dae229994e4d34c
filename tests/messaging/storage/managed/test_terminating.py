"""Terminating a managed ledger: what may be appended, and what is stored of it, at every point on the way."""

from __future__ import annotations

import asyncio

import pytest

from messaging.storage.ledger_store import AppendFailed, Fence, LedgerClosed, StoreError, Unavailable
from messaging.storage.meta_store import TopicRecord
from tests.support.storage.managed_world import World
from tests.support.waiting import eventually


async def started(**limits: int) -> World:
    held = await World(**limits).start()  # type: ignore[arg-type]
    await held.ledger.writable()
    return held


async def test_no_append_is_taken_from_the_call_on() -> None:
    held = await started()
    held.store.hold()
    first = held.append(b"before")
    terminating = asyncio.ensure_future(held.ledger.terminate())
    await asyncio.sleep(0)
    with pytest.raises(LedgerClosed):
        held.append(b"meanwhile")
    held.store.release()
    assert await terminating == first
    assert (held.ledger.terminated, held.ledger.ledger_list.last) == (True, first)
    with pytest.raises(LedgerClosed):
        held.append(b"after")


async def test_a_terminated_topic_that_is_opened_again_takes_no_append_either() -> None:
    held = await started()
    held.append(b"a")
    await held.ledger.terminate()
    await held.ledger.close()
    await held.open()
    await held.ledger.writable()
    with pytest.raises(LedgerClosed):
        held.append(b"b")


async def test_terminating_twice_is_terminating_once() -> None:
    held = await started()
    first = held.append(b"a")
    assert await asyncio.gather(held.ledger.terminate(), held.ledger.terminate()) == [first, first]
    assert await held.ledger.terminate() == first


async def test_when_it_cannot_be_stored_appends_are_taken_as_before() -> None:
    held = await started()
    cas_topic = held.meta.cas_topic

    async def fail(fence: Fence, record: TopicRecord) -> TopicRecord:
        raise Unavailable("the disk is full")

    held.meta.cas_topic = fail  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        await held.ledger.terminate()
    held.meta.cas_topic = cas_topic  # type: ignore[method-assign]
    assert not held.ledger.terminated
    held.append(b"goes on")
    await eventually(lambda: held.outcomes == [("goes on", None)])


async def test_entries_of_unknown_outcome_are_settled_first() -> None:
    held = await started()
    held.store.lose_outcomes(AppendFailed("torn"))
    held.append(b"torn")
    with pytest.raises(StoreError):
        await held.ledger.terminate()
    assert not held.ledger.terminated
    held.store.heal()
    await held.ledger.recover()
    assert await held.ledger.terminate() == held.ledger.ledger_list.last


async def test_who_was_closed_meanwhile_terminates_nothing() -> None:
    held = await started()
    await held.ledger.close()
    with pytest.raises(StoreError):
        await held.ledger.terminate()
    again = await held.open()
    assert not again.terminated
