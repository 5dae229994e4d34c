"""Reads that follow each other in a ledger that nobody read before: each block is asked for once, and of one bookie."""

from __future__ import annotations

from messaging.storage.bookkeeper.block_format import decode
from messaging.storage.bookkeeper.reader import CACHE_PART, LEDGERS_MAX, BlockReads, LedgerReading, Source
from messaging.storage.bookkeeper.store import BookkeeperLedgerStore
from messaging.storage.caching_store import CachingStore
from messaging.storage.ledger_store import Block
from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.bookkeeper.made_packs import adds
from tests.support.bookkeeper.opened_stores import QUICK, OpenedStores
from tests.support.storage.ledger_entries import Results, entries
from tests.support.storage.owning import fence_of, started

BLOCKS = 200
ENTRIES_MAX, BYTES_MAX = 4096, 20_000


def payload(number: int) -> bytes:
    return b"%06d" % number + b"x" * (500 + 300 * (number % 7))


async def sealed(store: BookkeeperLedgerStore) -> None:
    """Ledger 1 of 200 blocks of one entry; what the store knows of it is forgotten."""
    writer, results = await store.create(fence_of(store), 1, {}), Results()
    for number in range(BLOCKS):
        results.append(writer, [payload(number)])
    await results.wait(BLOCKS)
    await writer.close()


def asked(cluster: FakeCluster) -> dict[str, list[int]]:
    """Which adds each bookie was asked for."""
    return {
        name: [request.readRequest.entryId for request in bookie.requests if request.HasField("readRequest")]
        for name, bookie in cluster.bookies.items()
    }


async def forecast(store: BookkeeperLedgerStore, first: int) -> int:
    told = store.forecast(1, first, entries_max=ENTRIES_MAX, bytes_max=BYTES_MAX)
    return told if isinstance(told, int) else await told


async def test_reads_are_forecast_one_behind_the_other_and_bring_each_block_once(
    open_store: OpenedStores, cluster: FakeCluster
) -> None:
    writing = await open_store()
    await started(writing)
    await sealed(writing)
    store = await open_store()  # another broker, which knows nothing of it
    await started(store)
    reader = await store.open(1)
    assert await forecast(store, 0) == 0, "how large blocks are is not known"
    for bookie in cluster.bookies.values():
        bookie.requests.clear()
    blocks = await reader.read(0, entries_max=ENTRIES_MAX, bytes_max=5_000)
    planned = list[tuple[int, int]]()
    first = blocks[-1].last_entry + 1
    while first < BLOCKS:  # all are planned before one of them is read
        count = await forecast(store, first)
        assert count
        planned.append((first, count))
        first += count
    assert len(planned) >= 10
    for first, count in planned:
        brought: list[Block] = await reader.read(first, entries_max=count, bytes_max=BYTES_MAX)
        assert (brought[0].first_entry, brought[-1].last_entry) == (first, first + count - 1)
        blocks += brought
    assert entries(blocks) == [payload(number) for number in range(BLOCKS)]
    reads = asked(cluster)
    wanted = [add for adds in reads.values() for add in adds]
    assert set(wanted) | {BLOCKS - 1} == set(range(BLOCKS)), "the last one was read when the ledger was opened"
    assert len(wanted) <= BLOCKS + len(planned)
    assert [len(adds) > 0 for adds in reads.values()].count(True) == 1, "one bookie has all of them in a row"


async def test_where_a_read_ends_is_not_told_if_that_cannot_be_read(open_store: OpenedStores, cluster: FakeCluster) -> None:
    writing = await open_store()
    await started(writing)
    await sealed(writing)
    store = await open_store(config=QUICK)
    await started(store)
    reader = await store.open(1)
    (block,) = await reader.read(0, entries_max=1, bytes_max=1)
    for bookie in cluster.bookies.values():
        for stored in bookie.entries.values():
            stored.pop(20, None)
            stored.pop(21, None)
            for add in range(2, 60):
                stored[add] = b"!" * 40
    assert await forecast(store, block.last_entry + 1) == 0


async def test_a_block_that_is_kept_of_a_ledger_that_is_known_no_more_is_known_again() -> None:
    """It would be looked for without an end: nothing that is known says where it is, and no read tells."""
    made, asked_for = adds(2), list[int]()

    async def payloads(first: int, last: int, bytes_max: int | None) -> list[bytes]:
        asked_for.append(first)
        return made[first : last + 1]

    reads, source = BlockReads(), Source(1, 1, False, payloads)
    await LedgerReading(1, source, reads).last()
    for other in range(2, LEDGERS_MAX + 2):
        reads.known(other)
    await LedgerReading(1, source, reads).last()
    assert asked_for == [1] and reads.known(1).size == 1
    (block,) = await LedgerReading(1, source, reads).blocks(1, 10, 1000)
    assert bytes(block.data) == b"0001" and asked_for == [1]


class Account:
    """Of caches; `gave` is what was asked to be given back before a `take` returned."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def take(self, tenant: str, size: int) -> None:
        assert tenant == "" and size >= 0
        self.used_bytes += size

    def give(self, tenant: str, size: int) -> None:
        assert tenant == "" and 0 <= size <= self.used_bytes
        self.used_bytes -= size


def test_blocks_that_are_kept_count_and_give_way() -> None:
    reads, account = BlockReads(), Account(CACHE_PART * 10_000)
    blocks = [decode(7, number, payload) for number, payload in enumerate(adds(50))]
    for block in blocks[:30]:
        reads.keep(block)
    reads.cache_in(account)
    of_one = account.used_bytes // sum(reads.keeps(7, number) for number in range(50))
    assert 9_000 < account.used_bytes <= 10_000 and of_one > 500, "what was kept before counts, too, and is bounded by the account"
    for block in blocks:
        reads.keep(block)
        reads.keep(block)
        assert account.used_bytes <= 10_000
    before = account.used_bytes
    assert reads.take(7, 49) is not None and reads.take(7, 49) is None and account.used_bytes == before - of_one
    reads.shrink(1)
    assert account.used_bytes == before - 2 * of_one and not reads.keeps(7, 49) and reads.keeps(7, 48)
    reads.shrink(1 << 30)
    assert account.used_bytes == 0
    reads.keep(blocks[0])
    reads.forget(7)
    assert account.used_bytes == 0


def test_what_is_known_of_ledgers_counts_and_gives_way() -> None:
    """40 MB of it counted nowhere."""
    reads, account = BlockReads(), Account(CACHE_PART * 500_000)
    reads.cache_in(account)
    for ledger_id in range(LEDGERS_MAX + 10):
        known = reads.known(ledger_id)
        for number in range(20):
            known.add(number, number - 1, number, 100, number * 100)
        before = account.used_bytes
        reads.count(ledger_id, known)
        reads.count(ledger_id, known)
        assert before < account.used_bytes or account.used_bytes > 450_000
        assert account.used_bytes <= 500_000, "bounded by the account"
    assert reads.known(LEDGERS_MAX + 9).size == 20, "the one that was read last is known"
    reads.shrink(account.used_bytes - 2_000)
    assert 0 < account.used_bytes <= 2_000 and reads.known(LEDGERS_MAX + 9).size == 20
    reads.forget(LEDGERS_MAX + 9)
    assert account.used_bytes == 0
    reads.count(LEDGERS_MAX + 9, known)
    assert account.used_bytes == 0, "a read that goes on does not count what is forgotten"


async def test_a_store_counts_in_the_account_of_its_broker(open_store: OpenedStores) -> None:
    store, account = await open_store(), Account(1 << 20)
    assert isinstance(store, CachingStore)
    await started(store)
    shrink = store.cache_in(account)
    await sealed(store)
    reader = await (await open_store()).open(1)
    assert account.used_bytes == 0
    await store.open(1)
    assert account.used_bytes > 0, "its last block is kept"
    before = account.used_bytes
    shrink(1)
    assert 2_000 < account.used_bytes < before, "the block is gone; the ledger is still open, and where its block is is known"
    shrink(1 << 30)
    assert account.used_bytes == 0 and (await reader.read(0, entries_max=1, bytes_max=1))[0].first_entry == 0
