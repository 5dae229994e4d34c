"""What every LedgerStore promises of sparse ledgers, whose writer leaves ids out: run on each implementation."""

from __future__ import annotations

from random import Random

import pytest

from messaging.storage.ledger_store import ENTRY_ID_MAX, SPARSE, Block, EntryTooLarge, LedgerReader, LedgerWriter, NoSuchEntry
from messaging.storage.local import Durability, LocalLedgerStore
from tests.support.storage.ledger_entries import Results, append_all, entries, read_all
from tests.support.storage.ledger_harness import Harness

pytestmark = pytest.mark.asyncio

PROPERTIES = {SPARSE: "yes", "tenant": "t"}
Kept = dict[int, list[bytes]]  # the entries of each block, by its first entry


async def write(writer: LedgerWriter, kept: Kept) -> None:
    results = Results()
    for first, payloads in kept.items():
        writer.skip_to(first)
        assert results.append(writer, payloads, b"header of %d" % first) == first
    await results.wait(len(kept))
    assert results.got == [(first, None) for first in kept]


async def read_through(reader: LedgerReader, last: int, first: int = 0, *, entries_max: int = 7) -> list[Block]:
    """One read after the other, as far as the ledger goes."""
    blocks: list[Block] = []
    while first <= last:
        blocks += await reader.read(first, entries_max=entries_max, bytes_max=1 << 20)
        first = blocks[-1].last_entry + 1
    return blocks


def same(blocks: list[Block], kept: Kept) -> bool:
    assert all(block.header == b"header of %d" % block.first_entry for block in blocks)
    return [(block.first_entry, entries([block])) for block in blocks] == list(kept.items())


def many(blocks: int, size: int, *, seed: int = 1) -> Kept:
    """Blocks of one to three entries of about `size` bytes, with gaps, small and huge, between most of them."""
    random, kept, following = Random(seed), Kept(), 0
    for _ in range(blocks):
        following += random.choice((0, 1, 17, 1000, 1 << 33))
        payloads = [b"%d." % (following + index) * (size // 4) for index in range(random.randint(1, 3))]
        kept[following] = payloads
        following += len(payloads)
    return kept


async def test_a_read_goes_on_behind_a_gap(harness: Harness) -> None:
    writer = await harness.store.create(harness.fence, 1, PROPERTIES)
    kept = {5: [b"five", b"six"], 7: [b"seven"], 1 << 40: [b"far away"], (1 << 40) + 2: [b"last"]}
    await write(writer, kept)
    last = (1 << 40) + 2
    assert (writer.last_confirmed, writer.next_entry) == (last, last + 1)
    reader = await harness.store.open(1)
    for first, begins in ((0, 5), (4, 5), (5, 5), (6, 5), (7, 7), (8, 1 << 40), (1 << 39, 1 << 40), (last - 1, last), (last, last)):
        blocks = await reader.read(first, entries_max=100, bytes_max=1 << 20)
        assert same(blocks, {key: value for key, value in kept.items() if key >= begins}), first
    assert same(await read_through(reader, last, entries_max=1), kept)
    for beyond in (last + 1, -1):
        with pytest.raises(NoSuchEntry):
            await reader.read(beyond, entries_max=1, bytes_max=1)
    info = await writer.close()
    assert (info.last_entry, info.length_bytes, info.properties) == (last, 24, PROPERTIES)


async def test_bounds_count_entries_not_ids(harness: Harness) -> None:
    writer = await harness.store.create(harness.fence, 1, PROPERTIES)
    await write(writer, {100 * number: [b"x" * 100] * 10 for number in range(1, 11)})
    reader = await harness.store.open(1)
    for first, entries_max, bytes_max, firsts in (
        (0, 1, 1, [100]),
        (0, 25, 1 << 20, [100, 200, 300]),
        (105, 5, 1 << 20, [100]),
        (105, 6, 1 << 20, [100, 200]),
        (150, 20, 1 << 20, [200, 300]),
        (0, 1000, 3000, [100, 200, 300]),
        (1005, 1000, 1 << 20, [1000]),
    ):
        blocks = await reader.read(first, entries_max=entries_max, bytes_max=bytes_max)
        assert [block.first_entry for block in blocks] == firsts, (first, entries_max, bytes_max)


async def test_ids_are_never_given_twice_nor_left_out_elsewhere(harness: Harness) -> None:
    sparse = await harness.store.create(harness.fence, 1, PROPERTIES)
    dense = await harness.store.create(harness.fence, 2, {})
    await write(sparse, {10: [b"a", b"b"]})
    for taken in (-1, 0, 10, 11, ENTRY_ID_MAX + 1):
        with pytest.raises(ValueError, match="ledger 1"):
            sparse.skip_to(taken)
    sparse.skip_to(12)  # nothing is left out
    sparse.skip_to(20)
    sparse.skip_to(30)  # on top of that
    results = Results()
    with pytest.raises(EntryTooLarge):
        results.append(sparse, [b"x" * (harness.store.entry_bytes_max + 1)])
    assert results.append(sparse, [b"c"]) == 30
    await results.wait(1)
    with pytest.raises(ValueError, match="ledger 2 is not sparse"):
        dense.skip_to(5)
    await append_all(dense, b"dense")
    assert await read_all(await harness.store.open(2), 0) == [b"dense"]
    blocks = await read_through(await harness.store.open(1), 30)
    assert [(block.first_entry, entries([block])) for block in blocks] == [(10, [b"a", b"b"]), (30, [b"c"])]


async def test_ids_left_out_at_the_end_do_not_count(harness: Harness) -> None:
    writer = await harness.store.create(harness.fence, 1, PROPERTIES)
    writer.skip_to(7)
    assert (await harness.store.info(1)).last_entry == -1
    await append_all(writer, b"only")
    writer.skip_to(1000)
    assert (await writer.close()).last_entry == 7


async def test_a_forecast_of_a_sparse_ledger_is_left_to_the_read(harness: Harness) -> None:
    writer = await harness.store.create(harness.fence, 1, PROPERTIES)
    await write(writer, {0: [b"a"], 9: [b"b"]})
    told = harness.store.forecast(1, 0, entries_max=10, bytes_max=1000)
    assert (told if isinstance(told, int) else await told) == 0


async def test_gaps_survive_a_stop_and_a_start(harness: Harness) -> None:
    """Over several segments, between blocks of others, with and without footers."""
    kept = {ledger_id: many(60, 2000, seed=ledger_id) for ledger_id in (1, 2)}
    writers = [await harness.store.create(harness.fence, ledger_id, PROPERTIES) for ledger_id in kept]
    dense, appended = await harness.store.create(harness.fence, 3, {}), [b"%d" % number * 500 for number in range(60)]
    for index in range(60):
        for writer in writers:
            first, payloads = list(kept[writer.ledger_id].items())[index]
            await write(writer, {first: payloads})
        await append_all(dense, appended[index])
    await writers[0].close()  # the other is as it was left
    for again in range(3):
        for ledger_id, blocks in kept.items():
            info = await harness.store.info(ledger_id)
            assert info.last_entry == max(first + len(payloads) - 1 for first, payloads in blocks.items())
            assert info.length_bytes == sum(len(payload) for payloads in blocks.values() for payload in payloads)
            reader = await harness.store.open(ledger_id)
            assert same(await read_through(reader, info.last_entry), blocks)
            for asked in Random(again).sample(range(info.last_entry), 40):
                begins = min(first for first, payloads in blocks.items() if first + len(payloads) > asked)
                assert (await reader.read(asked, entries_max=1, bytes_max=1))[0].first_entry == begins
        assert await read_all(await harness.store.open(3), 59) == appended
        await harness.reopen()
    assert (await harness.store.seal(harness.fence, 2)).last_entry == max(kept[2]) + len(kept[2][max(kept[2])]) - 1


async def test_a_crash_keeps_what_was_confirmed_where_it_was(harness: Harness) -> None:
    writer = await harness.store.create(harness.fence, 1, PROPERTIES)
    results, kept = Results(), many(300, 100)
    for first, payloads in kept.items():
        writer.skip_to(first)
        results.append(writer, payloads, b"header of %d" % first)
    await results.wait(1)
    confirmed = writer.last_confirmed
    await harness.crash()
    if isinstance(harness.store, LocalLedgerStore) and harness.store.config.durability is Durability.LOSE_ON_CRASH:
        confirmed = -1  # that is what it loses
        if not await harness.store.ledgers():
            return
    info = await harness.store.seal(harness.fence, 1)
    assert info.last_entry >= confirmed
    there = {first: payloads for first, payloads in kept.items() if first <= info.last_entry}
    assert not there or info.last_entry == max(there) + len(there[max(there)]) - 1
    assert same(await read_through(await harness.store.open(1), info.last_entry), there)
