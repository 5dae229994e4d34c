"""What every LedgerStore promises (G1-G4 of the seam), run on each implementation."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from messaging.storage.local import Durability, LocalLedgerStore
from messaging.storage.seam import (
    Block,
    EntryTooLarge,
    Fence,
    Fenced,
    LedgerClosed,
    LedgerExists,
    LedgerReader,
    LedgerWriter,
    NoSuchEntry,
    NoSuchLedger,
    StoreError,
)
from tests.messaging.storage.harness import HARNESSES, Harness

pytestmark = pytest.mark.asyncio


@pytest.fixture(params=sorted(HARNESSES))
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    made: Harness = HARNESSES[request.param](tmp_path)
    await made.open()
    yield made
    await made.close()


class Results:
    """Collects what `done` callbacks say, in the order of their calls."""

    def __init__(self) -> None:
        self.got: list[tuple[int, StoreError | None]] = []
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = 0

    def append(self, writer: LedgerWriter, payloads: list[bytes], header: bytes = b"h") -> int:
        data = b"".join(payloads)
        stops = array("I")
        end = 0
        for payload in payloads:
            end += len(payload)
            stops.append(end)
        count = len(self.got)
        first = -1

        def done(error: StoreError | None) -> None:
            assert first >= 0, "done was called before append returned"
            self.got.append((first, error))
            if self._waiter is not None and len(self.got) >= self._wanted and not self._waiter.done():
                self._waiter.set_result(None)

        first = writer.append(header, data, stops, done)
        assert len(self.got) == count, "done was called inside append"
        return first

    async def wait(self, count: int) -> None:
        self._wanted = count
        self._waiter = asyncio.get_running_loop().create_future()
        if len(self.got) < count:
            await asyncio.wait_for(self._waiter, 30)


async def append_all(writer: LedgerWriter, *payloads: bytes) -> None:
    results = Results()
    for payload in payloads:
        results.append(writer, [payload])
    await results.wait(len(payloads))
    assert all(error is None for _, error in results.got)


def entries(blocks: list[Block]) -> list[bytes]:
    found = []
    for block in blocks:
        begin = 0
        for stop in block.stops:
            found.append(bytes(block.data[begin:stop]))
            begin = stop
    return found


async def read_all(reader: LedgerReader, last: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) <= last:
        blocks = await reader.read(len(found), entries_max=1000, bytes_max=1 << 20)
        assert blocks[0].first_entry == len(found)
        found += entries(blocks)
    return found


async def test_order_and_density_under_a_thousand_appends_in_flight(harness: Harness) -> None:
    writers = [await harness.store.create(harness.fence, number, {"tenant": f"t{number % 2}"}) for number in range(1, 5)]
    results = [Results() for _ in writers]
    written: list[list[bytes]] = [[] for _ in writers]
    for number in range(1000):
        index = number % 4
        payloads = [b"%d-%d" % (number, part) for part in range(1 + number % 3)]
        assert results[index].append(writers[index], payloads, b"header-%d" % number) == len(written[index])
        written[index] += payloads
    assert all(writer.last_confirmed == -1 and writer.pending_bytes > 0 for writer in writers)
    for writer, result, expected in zip(writers, results, written, strict=True):
        await result.wait(250)
        firsts = [first for first, error in result.got if error is None]
        assert len(firsts) == 250 and firsts == sorted(firsts)
        assert writer.next_entry == len(expected) and writer.last_confirmed == len(expected) - 1
        assert writer.length_bytes == sum(map(len, expected))
        reader = await harness.store.open(writer.ledger_id)
        assert await read_all(reader, len(expected) - 1) == expected
        assert writer.pending_bytes == 0
        await reader.aclose()


async def test_headers_and_block_bounds_come_back(harness: Harness) -> None:
    writer = await harness.store.create(harness.fence, 1, {})
    results = Results()
    results.append(writer, [b"a", b"", b"ccc"], b"\x00header")
    results.append(writer, [b""], b"")
    await results.wait(2)
    reader = await harness.store.open(1)
    first, second = await reader.read(0, entries_max=10, bytes_max=1000)
    assert (first.ledger_id, first.first_entry, first.header, bytes(first.data)) == (1, 0, b"\x00header", b"accc")
    assert list(first.stops) == [1, 1, 4] and first.last_entry == 2
    assert (second.first_entry, second.header, bytes(second.data), list(second.stops)) == (3, b"", b"", [0])


async def test_bounds_of_read(harness: Harness) -> None:
    writer = await harness.store.create(harness.fence, 1, {})
    results = Results()
    for _ in range(10):
        results.append(writer, [b"x" * 100] * 10)
    await results.wait(10)
    reader = await harness.store.open(1)
    assert [b.first_entry for b in await reader.read(0, entries_max=1, bytes_max=1)] == [0]
    assert [b.first_entry for b in await reader.read(15, entries_max=1, bytes_max=1 << 20)] == [10]
    assert [b.first_entry for b in await reader.read(15, entries_max=6, bytes_max=1 << 20)] == [10, 20]
    assert [b.first_entry for b in await reader.read(0, entries_max=1000, bytes_max=3000)] == [0, 10, 20]
    assert [b.first_entry for b in await reader.read(95, entries_max=1000, bytes_max=1 << 20)] == [90]
    for beyond in (100, 1000, -1):
        with pytest.raises(NoSuchEntry):
            await reader.read(beyond, entries_max=1, bytes_max=1)


async def test_a_forecast_says_where_a_read_ends(harness: Harness) -> None:
    """Reads of just so many entries follow each other without a gap and without an overlap. Not every store can tell."""
    writer = await harness.store.create(harness.fence, 1, {})
    results = Results()
    for number in range(300):
        results.append(writer, [b"x" * 1000] * (1 + number % 7))
    await results.wait(300)
    reader = await harness.store.open(1)
    last = writer.last_confirmed
    for bounds in ({"entries_max": 50, "bytes_max": 1 << 20}, {"entries_max": 1000, "bytes_max": 70_000}):
        first = 0
        while first <= last:
            entries = harness.store.forecast(1, first, **bounds)
            if not entries:
                await reader.read(first, **bounds)
                entries = harness.store.forecast(1, first, **bounds)
            assert entries, "the index is in memory, or where it was read last"
            blocks = await reader.read(first, entries_max=entries, bytes_max=bounds["bytes_max"])
            assert (blocks[0].first_entry, blocks[-1].last_entry) == (first, first + entries - 1)
            first += entries
        assert first == last + 1
    for nowhere in (-1, last + 1):
        assert harness.store.forecast(1, nowhere, entries_max=10, bytes_max=1000) == 0
    assert harness.store.forecast(2, 0, entries_max=10, bytes_max=1000) == 0
    few = harness.store.forecast(1, 0, entries_max=10, bytes_max=500)
    assert not few or len(await reader.read(0, entries_max=few, bytes_max=500)) == 1


async def test_an_entry_too_large_is_refused_outright(harness: Harness) -> None:
    writer = await harness.store.create(harness.fence, 1, {})
    results = Results()
    limit = harness.store.entry_bytes_max
    with pytest.raises(EntryTooLarge):
        results.append(writer, [b"x", b"y" * (limit + 1)])
    assert results.append(writer, [b"x", b"y" * limit]) == 0
    await results.wait(1)
    assert results.got == [(0, None)]
    reader = await harness.store.open(1)
    (block,) = await reader.read(1, entries_max=1, bytes_max=1)
    assert len(block.data) == limit + 1


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


async def test_reopen_keeps_everything_and_raises_the_epoch(harness: Harness) -> None:
    one = await harness.store.create(harness.fence, 1, {"k": "v"})
    await append_all(one, b"a", b"b")
    await one.close()
    two = await harness.store.create(harness.fence, 2, {})
    await append_all(two, b"c")
    await harness.store.create(harness.fence, 3, {})
    await harness.store.delete(harness.fence, 3)
    epoch = harness.fence.epoch
    await harness.reopen()
    assert harness.fence.epoch > epoch
    found = await harness.store.ledgers()
    assert [(info.ledger_id, info.last_entry, info.length_bytes) for info in found] == [(1, 1, 2), (2, 0, 1)]
    assert found[0].sealed and found[0].properties == {"k": "v"}
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


async def test_ten_thousand_ledgers(harness: Harness) -> None:
    created = await asyncio.gather(*(harness.store.create(harness.fence, number, {"tenant": "t"}) for number in range(1, 10_001)))
    results = Results()
    for writer in created:
        results.append(writer, [b"%d" % writer.ledger_id])
    await results.wait(len(created))
    await harness.reopen()
    assert len(await harness.store.ledgers()) == 10_000
    assert sorted(await harness.store.ledger_ids()) == list(range(1, 10_001))
    await harness.store.delete(harness.fence, 3)
    assert 3 not in await harness.store.ledger_ids()
    for ledger_id in (1, 5000, 10_000):
        assert (await harness.store.seal(harness.fence, ledger_id)).last_entry == 0
        assert await read_all(await harness.store.open(ledger_id), 0) == [b"%d" % ledger_id]


async def test_what_was_written_is_counted(harness: Harness) -> None:
    before = harness.store.statistics()
    writer = await harness.store.create(harness.fence, 1, {})
    results = Results()
    results.append(writer, [b"x" * 1000] * 3)
    await results.wait(1)
    await writer.close()  # durable by any durability's word may be before it is written; this is after
    after = harness.store.statistics()
    assert after.written_bytes - before.written_bytes >= 3000
    assert after.syncs >= before.syncs and after.sync_s >= before.sync_s
    if isinstance(harness.store, LocalLedgerStore):
        assert after.files >= 1 and after.stored_bytes > 3000
        assert (after.syncs > before.syncs) == (harness.store.config.durability is Durability.SYNC)
