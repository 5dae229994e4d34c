"""What every LedgerStore promises of a ledger's life (G4 of the interface), run on each implementation: from create to delete."""

from __future__ import annotations

import asyncio
from array import array

import pytest

from messaging.storage.ledger_store import Fence, Fenced, LedgerClosed, LedgerExists, NoSuchEntry, NoSuchLedger, StoreError
from tests.support.storage.ledger_entries import Results, append_all, entries, read_all
from tests.support.storage.ledger_harness import Harness

pytestmark = pytest.mark.asyncio


async def test_close_waits_for_what_is_pending(harness: Harness) -> None:
    writer = await harness.store.create(harness.fence, 1, {"tenant": "acme"})
    results = Results()
    for _ in range(100):
        results.append(writer, [b"abc"])
    info = await writer.close()
    assert [error for _, error in results.got] == [None] * 100
    assert (info.last_entry, info.length_bytes, info.sealed, info.entries) == (99, 300, True, 100)
    assert info.properties == {"tenant": "acme"}
    with pytest.raises((LedgerClosed, Fenced)):
        results.append(writer, [b"late"])
    assert await harness.store.seal(harness.fence, 1) == info


async def test_seal_against_append(harness: Harness) -> None:
    """However appends and the seal interleave: confirmed entries are within, nothing is confirmed afterwards."""
    for turns in range(6):
        ledger_id = 100 + turns
        writer = await harness.store.create(harness.fence, ledger_id, {})
        results = Results()
        for _ in range(20):
            results.append(writer, [b"before"])
        for _ in range(turns):
            await asyncio.sleep(0)
        sealing = asyncio.ensure_future(harness.store.seal(harness.fence, ledger_id))
        refused = 0
        while not sealing.done():
            try:
                results.append(writer, [b"during"])
            except (LedgerClosed, Fenced):
                refused += 1
            await asyncio.sleep(0)
        info = await sealing
        confirmed = [first for first, error in results.got if error is None]
        with pytest.raises((LedgerClosed, Fenced)):
            results.append(writer, [b"after"])
        assert max(confirmed, default=-1) <= info.last_entry
        settled = len(confirmed)
        await asyncio.sleep(0)
        assert len([first for first, error in results.got if error is None]) == settled
        reader = await harness.store.open(ledger_id)
        if info.last_entry >= 0:
            assert len(await read_all(reader, info.last_entry)) == info.entries
        with pytest.raises(NoSuchEntry):
            await reader.read(info.last_entry + 1, entries_max=1, bytes_max=1)


async def test_an_empty_ledger(harness: Harness) -> None:
    await harness.store.create(harness.fence, 5, {})
    info = await harness.store.seal(harness.fence, 5)
    assert (info.last_entry, info.length_bytes, info.sealed) == (-1, 0, True)
    reader = await harness.store.open(5)
    with pytest.raises(NoSuchEntry):
        await reader.read(0, entries_max=1, bytes_max=1)


async def test_create_refuses_what_exists(harness: Harness) -> None:
    await harness.store.create(harness.fence, 5, {})
    with pytest.raises(LedgerExists):
        await harness.store.create(harness.fence, 5, {})


async def test_unknown_ledgers(harness: Harness) -> None:
    for call in (harness.store.open(404), harness.store.seal(harness.fence, 404), harness.store.info(404)):
        with pytest.raises(NoSuchLedger):
            await call
    await harness.store.delete(harness.fence, 404)


async def test_an_older_fence_is_refused(harness: Harness) -> None:
    stale = Fence(harness.fence.scope, harness.fence.epoch - 1)
    await harness.store.create(harness.fence, 1, {})
    for call in (harness.store.create(stale, 2, {}), harness.store.seal(stale, 1), harness.store.delete(stale, 1)):
        with pytest.raises(Fenced):
            await call
    assert [info.ledger_id for info in await harness.store.ledgers()] == [1]


async def test_delete_while_reading(harness: Harness) -> None:
    writer = await harness.store.create(harness.fence, 1, {})
    await append_all(writer, *[b"x" * 1000] * 200)
    reader = await harness.store.open(1)
    reading = [asyncio.ensure_future(reader.read(number, entries_max=50, bytes_max=1 << 20)) for number in range(0, 200, 10)]
    await harness.store.delete(harness.fence, 1)
    await harness.store.delete(harness.fence, 1)
    for outcome in await asyncio.gather(*reading, return_exceptions=True):
        if isinstance(outcome, BaseException):
            assert isinstance(outcome, NoSuchLedger)
        else:
            assert entries(outcome)[0] == b"x" * 1000
    with pytest.raises(NoSuchLedger):
        await reader.read(0, entries_max=1, bytes_max=1)
    with pytest.raises(NoSuchLedger):
        await harness.store.open(1)
    with pytest.raises(StoreError):
        writer.append(b"", b"x", array("I", [1]), lambda error: None)
    assert await harness.store.ledgers() == []
