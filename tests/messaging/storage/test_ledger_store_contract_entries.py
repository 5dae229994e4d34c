"""What every LedgerStore promises of entries (G1 of the interface), run on each implementation: appending, reading, counting."""

from __future__ import annotations

import pytest

from messaging.storage.ledger_store import EntryTooLarge, NoSuchEntry
from messaging.storage.local import Durability, LocalLedgerStore
from tests.support.storage.ledger_entries import Results, read_all
from tests.support.storage.ledger_harness import Harness

pytestmark = pytest.mark.asyncio


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
    assert list(first.end_offsets) == [1, 1, 4] and first.last_entry == 2
    assert (second.first_entry, second.header, bytes(second.data), list(second.end_offsets)) == (3, b"", b"", [0])


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


async def forecast(harness: Harness, ledger_id: int, first: int, *, entries_max: int, bytes_max: int) -> int:
    told = harness.store.forecast(ledger_id, first, entries_max=entries_max, bytes_max=bytes_max)
    return told if isinstance(told, int) else await told


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
            entries = await forecast(harness, 1, first, **bounds)
            if not entries:
                await reader.read(first, **bounds)
                entries = await forecast(harness, 1, first, **bounds)
            assert entries, "the index is in memory, or where it was read last"
            blocks = await reader.read(first, entries_max=entries, bytes_max=bounds["bytes_max"])
            assert (blocks[0].first_entry, blocks[-1].last_entry) == (first, first + entries - 1)
            first += entries
        assert first == last + 1
    for nowhere in (-1, last + 1):
        assert await forecast(harness, 1, nowhere, entries_max=10, bytes_max=1000) == 0
    assert await forecast(harness, 2, 0, entries_max=10, bytes_max=1000) == 0
    few = await forecast(harness, 1, 0, entries_max=10, bytes_max=500)
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


async def test_written_bytes_are_counted(harness: Harness) -> None:
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
        assert after.files and after.stored_bytes and after.stored_bytes > 3000
        assert (after.syncs > before.syncs) == (harness.store.config.durability is Durability.SYNC)
