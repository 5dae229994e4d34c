"""What every LedgerStore promises to be there after a stop or a crash (G2 and G3 of the interface), run on each implementation."""

from __future__ import annotations

import asyncio

import pytest

from messaging.storage.bookkeeper.store import BookkeeperLedgerStore
from messaging.storage.ledger_store import WHOLE, LedgerExists
from messaging.storage.local import Durability, LocalLedgerStore
from messaging.storage.postgresql.ledgers.store import PostgresqlLedgerStore
from tests.support.storage.ledger_entries import Results, append_all, read_all
from tests.support.storage.ledger_harness import Harness

pytestmark = pytest.mark.asyncio


async def test_reopen_keeps_everything_and_raises_the_epoch(harness: Harness) -> None:
    writer = await harness.store.create(harness.fence, 1, {"k": "v"})
    await append_all(writer, b"a", b"b")
    await writer.close()
    two = await harness.store.create(harness.fence, 2, {})
    await append_all(two, b"c")
    await harness.store.create(harness.fence, 3, {})
    await harness.store.delete(harness.fence, 3)
    epoch = harness.fence.epoch
    await harness.reopen()
    assert harness.fence.epoch > epoch
    ledgers = await harness.store.ledgers()
    assert [(info.ledger_id, info.last_entry, info.length_bytes) for info in ledgers] == [(1, 1, 2), (2, 0, 1)]
    assert ledgers[0].sealed and ledgers[0].properties == {"k": "v"}
    info = await harness.store.seal(harness.fence, 2)
    assert (info.last_entry, info.sealed) == (0, True)
    assert await read_all(await harness.store.open(1), 1) == [b"a", b"b"]
    with pytest.raises(LedgerExists):
        await harness.store.create(harness.fence, 1, {})


async def test_crash_keeps_what_was_confirmed(harness: Harness) -> None:
    """G2 and G3: without a stop, everything confirmed is there after `seal`; ids of the rest follow without a hole."""
    writer = await harness.store.create(harness.fence, 1, {})
    results = Results()
    for number in range(500):
        results.append(writer, [b"%d" % number] * 2)
    await results.wait(1)
    confirmed = writer.last_confirmed
    assert confirmed >= 1
    await harness.crash()
    if isinstance(harness.store, LocalLedgerStore) and harness.store.config.durability is Durability.LOSE_ON_CRASH:
        confirmed = -1  # that is what it loses
        if not await harness.store.ledgers():
            return
    info = await harness.store.seal(harness.fence, 1)
    assert confirmed <= info.last_entry <= 999
    expected = [b"%d" % (entry // 2) for entry in range(info.entries)]
    assert await read_all(await harness.store.open(1), info.last_entry) == expected
    assert (await harness.store.seal(harness.fence, 1)) == info


async def test_thousands_of_ledgers(harness: Harness) -> None:
    is_elsewhere = isinstance(harness.store, PostgresqlLedgerStore | BookkeeperLedgerStore)
    count = 1000 if is_elsewhere else 10_000  # there each is a statement, or several requests
    created = await asyncio.gather(
        *(harness.store.create(harness.fence, number, {"tenant": "t"}) for number in range(1, count + 1))
    )
    results = Results()
    for writer in created:
        results.append(writer, [b"%d" % writer.ledger_id])
    await results.wait(len(created))
    await harness.reopen()
    assert len(await harness.store.ledgers()) == count
    assert sorted(await harness.store.ledger_ids(WHOLE)) == list(range(1, count + 1))
    await harness.store.delete(harness.fence, 3)
    assert 3 not in await harness.store.ledger_ids(WHOLE)
    for ledger_id in (1, count // 2, count):
        assert (await harness.store.seal(harness.fence, ledger_id)).last_entry == 0
        assert await read_all(await harness.store.open(ledger_id), 0) == [b"%d" % ledger_id]
