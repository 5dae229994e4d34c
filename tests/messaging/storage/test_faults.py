"""The fault-injecting wrapper does what it says, and breaks no promise that it is not asked to break."""

from __future__ import annotations

import asyncio
from array import array

import pytest

from messaging.storage.ledger_store import AppendFailed, Corrupt, DiskFull, Fence, Fenced, LedgerClosed, StoreError, Unavailable
from tests.support.storage.faulty_ledgers import FaultyLedgerStore, FaultyLedgerWriter
from tests.support.storage.memory_ledgers import MemoryLedgerStore
from tests.support.storage.owning import started

pytestmark = pytest.mark.asyncio


async def opened() -> tuple[FaultyLedgerStore, Fence, FaultyLedgerWriter, list[StoreError | None]]:
    store = FaultyLedgerStore(MemoryLedgerStore())
    fence = await started(store)
    return store, fence, await store.create(fence, 1, {}), []


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_hold_and_release() -> None:
    store, _, writer, told = await opened()
    store.hold()
    writer.append(b"", b"a", array("I", [1]), told.append)
    writer.append(b"", b"b", array("I", [1]), told.append)
    await turns()
    assert told == [] and writer.last_confirmed == -1 and writer.pending_bytes == 2
    store.release()
    await turns()
    assert told == [None, None] and writer.last_confirmed == 1 and writer.pending_bytes == 0


async def test_failed_appends_are_not_written_and_close_the_writer() -> None:
    store, fence, writer, told = await opened()
    writer.append(b"", b"a", array("I", [1]), told.append)
    store.fail_appends(DiskFull("full"))
    writer.append(b"", b"b", array("I", [1]), told.append)
    await turns()
    assert told[0] is None and isinstance(told[1], DiskFull)
    store.heal()
    with pytest.raises(LedgerClosed):
        writer.append(b"", b"c", array("I", [1]), told.append)
    assert (await store.seal(fence, 1)).last_entry == 0


async def test_an_unknown_outcome_is_settled_by_seal() -> None:
    store, fence, writer, told = await opened()
    store.lose_outcomes()
    writer.append(b"", b"a", array("I", [1]), told.append)
    await turns()
    assert isinstance(told[0], AppendFailed) and writer.last_confirmed == -1
    assert (await store.seal(fence, 1)).last_entry == 0


async def test_a_fence_reaches_pending_appends() -> None:
    store, fence, writer, told = await opened()
    store.hold()
    writer.append(b"", b"a", array("I", [1]), told.append)
    await turns()
    store.fence()
    store.release()
    await turns()
    assert isinstance(told[0], Fenced)
    with pytest.raises(Fenced):
        writer.append(b"", b"b", array("I", [1]), told.append)
    with pytest.raises(Fenced):
        await store.create(fence, 2, {})


async def test_calls_fail_before_or_after_their_work() -> None:
    store, fence, _, _ = await opened()
    store.fail_next("create", Unavailable("no"))
    with pytest.raises(Unavailable):
        await store.create(fence, 2, {})
    assert len(await store.ledgers()) == 1
    store.fail_next("create", Unavailable("who knows"), unknown=True)
    with pytest.raises(Unavailable):
        await store.create(fence, 2, {})
    assert len(await store.ledgers()) == 2


async def test_delayed_calls_wait() -> None:
    store, fence, _, _ = await opened()
    gate = store.delay("seal")
    sealing = asyncio.ensure_future(store.seal(fence, 1))
    await turns()
    assert not sealing.done()
    gate.set()
    assert (await sealing).sealed


async def test_damage_is_told_block_by_block() -> None:
    store = FaultyLedgerStore(MemoryLedgerStore())
    fence = await started(store)
    writer = await store.create(fence, 1, {})
    for _ in range(3):
        writer.append(b"", b"xy", array("I", [1, 2]), lambda error: None)
    await store.seal(fence, 1)
    store.damage(1, 3)
    reader = await store.open(1)
    assert [block.first_entry for block in await reader.read(0, entries_max=9, bytes_max=99)] == [0]
    for entry in (2, 3):
        with pytest.raises(Corrupt) as told:
            await reader.read(entry, entries_max=9, bytes_max=99)
        assert (told.value.ledger_id, told.value.entry_id) == (1, entry)
    assert [block.first_entry for block in await reader.read(4, entries_max=9, bytes_max=99)] == [4]
