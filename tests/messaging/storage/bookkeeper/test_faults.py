"""Bookies that are slow, full or damaged, and metadata that is not as it should be: each is a clear error, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from messaging.bookkeeper.core.entries import DigestType
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.errors import UnsupportedLayout
from messaging.bookkeeper.metadata.memory import MemoryMetadataStore
from messaging.bookkeeper.metadata.store import BookieAddress, NodeChange, UnknownOutcome
from messaging.storage.bookkeeper.store import BookkeeperLedgerStore
from messaging.storage.ledger_store import (
    AppendFailed,
    Corrupt,
    DiskFull,
    EntryTooLarge,
    Fence,
    StoreError,
    Unavailable,
    Unreachable,
)
from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.bookkeeper.opened_stores import QUICK, OpenedStores
from tests.support.storage.ledger_entries import Results, append_all, entries, read_all
from tests.support.storage.owning import fence_of, started
from tests.support.waiting import eventually


async def filled(store: BookkeeperLedgerStore, blocks: int) -> None:
    """Ledger 1 has blocks of two entries, and is sealed."""
    writer, results = await store.create(fence_of(store), 1, {}), Results()
    for number in range(blocks):
        results.append(writer, [b"%d" % number, b"x"])
    await results.wait(blocks)
    await writer.close()


def damage(cluster: FakeCluster, *adds: int) -> None:
    for bookie in cluster.bookies.values():
        for stored in bookie.entries.values():
            for add in adds:
                stored[add] = stored[add][:-1] + b"!"


async def test_bookies_that_never_answer_fail_the_append_and_a_seal_decides(open_store: OpenedStores, cluster: FakeCluster) -> None:
    store = await open_store(config=QUICK)
    fence = await started(store)
    writer, results = await store.create(fence, 1, {}), Results()
    results.append(writer, [b"before"])
    await results.wait(1)
    for bookie in cluster.bookies.values():
        bookie.silent = True
    results.append(writer, [b"lost?"])
    results.append(writer, [b"lost, too?"])
    await results.wait(3)
    assert [type(error) for _, error in results.got] == [type(None), AppendFailed, AppendFailed]
    assert "needs 2 bookies for an entry and has" in str(results.got[1][1])
    with pytest.raises(Unreachable, match="ledger"):
        await store.seal(fence, 1)
    for bookie in cluster.bookies.values():
        bookie.silent = False
    assert (await store.seal(fence, 1)).last_entry == 0
    assert await read_all(await store.open(1), 0) == [b"before"]


async def test_one_bookie_that_never_answers_is_replaced(open_store: OpenedStores, cluster: FakeCluster) -> None:
    await cluster.add()
    store = await open_store(config=QUICK)
    fence = await started(store)
    writer = await store.create(fence, 1, {})
    next(iter(cluster.bookies.values())).silent = True
    await append_all(writer, *[b"%d" % number for number in range(100)])
    assert (await writer.close()).last_entry == 99


async def test_full_bookies_are_told_from_those_that_are_gone(open_store: OpenedStores, cluster: FakeCluster) -> None:
    store = await open_store()
    fence = await started(store)
    first = next(iter(cluster.bookies.values()))
    port = int(first.name.rpartition(":")[2])
    cluster.store.register(BookieAddress(first.name, "127.0.0.1", port, read_only=True))

    async def too_few() -> bool:
        try:
            await store.ask()
        except Unreachable as error:
            return "2 bookies take writes; a new ledger needs 3" in str(error)
        return False

    await eventually(too_few)
    with pytest.raises(DiskFull, match="take none, because their disks are full"):
        await store.create(fence, 1, {})
    cluster.store.unregister(first.name)

    async def why() -> StoreError:
        with pytest.raises(StoreError, match="needs 3 bookies that take writes; there are 2") as refused:
            await store.create(fence, 2, {})
        return refused.value

    async def gone() -> bool:
        return not isinstance(await why(), DiskFull)

    await eventually(gone)
    assert isinstance(await why(), Unavailable)
    assert await store.ledger_ids(fence.scope) == []


async def test_a_bookie_of_another_cluster_is_named(open_store: OpenedStores, cluster: FakeCluster) -> None:
    name = next(iter(cluster.bookies))
    cluster.store.register(BookieAddress(name, "127.0.0.1", 1, problem="its cookie is of the cluster another"))
    store = await open_store()
    fence = await started(store)
    with pytest.raises(Unavailable, match="its cookie is of the cluster another"):
        await store.create(fence, 1, {})


async def test_what_is_lost_is_passed_by(open_store: OpenedStores, cluster: FakeCluster) -> None:
    store = await open_store()
    await started(store)
    await filled(store, 60)
    await store.stop()
    damage(cluster, 10, 11, 12, 30, 59)
    store = await open_store()
    fence = await started(store)
    with pytest.raises(Corrupt, match="where ledger 1 ends is lost"):
        await store.info(1)
    for bookie in cluster.bookies.values():
        for stored in bookie.entries.values():
            stored[59] = stored[59][:-1] + b"x"
    reader, first, found, lost = await store.open(1), 0, list[int](), list[range]()
    while first < 120:
        try:
            blocks = await reader.read(first, entries_max=10, bytes_max=1000)
        except Corrupt as error:
            assert error.entry_id == first
            lost.append(range(first, error.resume_entry))
            first = error.resume_entry
            continue
        found += range(first, blocks[-1].last_entry + 1)
        first = blocks[-1].last_entry + 1
    assert lost == [range(20, 26), range(60, 62)]
    assert found == [entry for entry in range(120) if not any(entry in gone for gone in lost)]
    for asked in (19, 26, 59, 62, 118):
        assert asked in found
        (block, *_) = await (await store.open(1)).read(asked, entries_max=1, bytes_max=1)
        assert block.first_entry <= asked <= block.last_entry
    assert fence == fence_of(store)


async def test_reading_on_asks_bookies_for_nothing_twice(open_store: OpenedStores, cluster: FakeCluster) -> None:
    store = await open_store()
    await started(store)
    await filled(store, 500)
    await store.stop()
    store = await open_store()
    for bookie in cluster.bookies.values():
        bookie.requests.clear()
    first, payloads = 0, list[bytes]()
    while first < 1000:
        blocks = await (await store.open(1)).read(first, entries_max=50, bytes_max=1 << 20)
        payloads += entries(blocks)
        first = blocks[-1].last_entry + 1
    assert len(payloads) == 1000
    reads = sum(len(bookie.requests) for bookie in cluster.bookies.values())
    assert reads <= 500 + 3 * 20, "few are asked for in vain"


async def test_another_password_or_digest_opens_nothing(open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("one\n")
    (tmp_path / "other").write_text("other\n")
    store = await open_store(password_file=str(tmp_path / "one"))
    writer = await store.create(await started(store), 1, {})
    await append_all(writer, b"x")
    other = await open_store(password_file=str(tmp_path / "other"))
    with pytest.raises(StoreError, match=r"the password is not that of ledger .* password_file in ledger_url"):
        await other.open(1)
    with pytest.raises(Unreachable, match=r"1 ledgers of whole cannot be taken .* password"):
        await other.take_over(Fence("whole", other.epoch))
    await append_all(writer, b"nobody was fenced")
    client = await cluster.client()
    foreign = await client.create(ledger_id=1 << 62 | 1 << 40 | 9, digest_type=DigestType.HMAC, password=b"one")
    await foreign.append(b"x")
    with pytest.raises(StoreError, match="was written with the digest HMAC, not CRC32C"):
        await store.open(9)
    await client.stop()


class LosingAnswers(MemoryMetadataStore):
    """Of the next changes, which are stored and which not; no answer to any of them comes."""

    def __init__(self, bookies: MemoryMetadataStore) -> None:
        super().__init__()
        self.lose: list[bool] = []
        self._of_cluster = bookies

    async def bookies(self) -> list[BookieAddress]:
        return await self._of_cluster.bookies()

    async def create(self, metadata: LedgerMetadata, along: Sequence[NodeChange] = ()) -> LedgerMetadata:
        if not self.lose:
            return await super().create(metadata, along)
        if self.lose.pop(0):
            await super().create(metadata, along)
        raise UnknownOutcome

    async def change(self, changes: Sequence[NodeChange]) -> None:
        if not self.lose:
            return await super().change(changes)
        if self.lose.pop(0):
            await super().change(changes)
        raise UnknownOutcome


@pytest.mark.parametrize("stored", [True, False])
async def test_changes_whose_answers_were_lost_are_made_once(open_store: OpenedStores, cluster: FakeCluster, stored: bool) -> None:
    """As when the session with ZooKeeper expires in the middle."""
    metadata = LosingAnswers(cluster.store)
    metadata.lose = [stored]
    store = await open_store(metadata)
    metadata.lose = [stored]
    fence = await started(store)
    metadata.lose = [stored]
    writer = await store.create(fence, 1, {})
    await append_all(writer, b"x")
    metadata.lose = [stored]
    await store.name_generation("g")
    assert await store.ledger_ids(fence.scope) == [1]
    assert (await writer.close()).last_entry == 0


async def test_a_create_that_was_overtaken_by_a_new_owner_writes_nothing(open_store: OpenedStores, cluster: FakeCluster) -> None:
    """The answer to the first attempt was lost, and it was not stored; then the scope was taken over."""
    metadata = LosingAnswers(cluster.store)
    former, newer = await open_store(metadata), await open_store(metadata)
    fence = await started(former)

    class TakenMeanwhile(list[bool]):
        def pop(self, index: Any = -1) -> bool:
            value = super().pop(index)
            path = next(path for path in metadata.paths() if path.endswith("/scopes/whole"))
            metadata.overwrite(path, b"99")
            return value

    metadata.lose = TakenMeanwhile([False])
    with pytest.raises(StoreError, match="does not own whole any more"):
        await former.create(fence, 1, {})
    assert await newer.ledger_ids("whole") == []


async def test_a_store_of_other_bookies_is_refused(open_store: OpenedStores, cluster: FakeCluster) -> None:
    await open_store()
    with pytest.raises(StoreError, match=r"belongs to the bookies memory /ledgers, and these are memory /other"):
        await open_store(root="/other")


NEWER = b'{"format":9,"number":1,"cluster":"","epoch":1,"generation":""}'


@pytest.mark.parametrize(("data", "says"), [(b"garbage", "is no record of a store"), (NEWER, "has format 9")])
async def test_an_unknown_record_is_refused(open_store: OpenedStores, cluster: FakeCluster, data: bytes, says: str) -> None:
    await open_store()
    cluster.store.overwrite("/magnetar/stores/default", data)
    with pytest.raises(StoreError, match=says):
        await open_store()


async def test_an_unknown_layout_is_refused(open_store: OpenedStores) -> None:
    class Flat(MemoryMetadataStore):
        async def start(self) -> None:
            raise UnsupportedLayout("the cluster's layout is 'flat'; this client knows version 2")

    with pytest.raises(StoreError, match="the BookKeeper of ledger_url: the cluster's layout is 'flat'") as refused:
        await open_store(Flat())
    assert not isinstance(refused.value, Unavailable)


async def test_a_block_that_no_bookie_would_take_is_refused_outright(open_store: OpenedStores) -> None:
    store = await open_store()
    writer, results = await store.create(await started(store), 1, {}), Results()
    with pytest.raises(EntryTooLarge, match="does not fit"):
        results.append(writer, [b"x" * store.entry_bytes_max] * 2)
    await append_all(writer, b"x" * store.entry_bytes_max)


async def test_ledgers_with_too_few_copies_are_counted_for_the_metric(open_store: OpenedStores, cluster: FakeCluster) -> None:
    store = await open_store(config=QUICK)
    writer = await store.create(await started(store), 1, {})
    assert store.statistics().degraded_ledgers == 0
    next(iter(cluster.bookies.values())).silent = True
    await append_all(writer, b"of two bookies")
    await eventually(lambda: store.statistics().degraded_ledgers == 1)
    assert list(store.degraded_for_s()) == [1] and 0 <= store.degraded_for_s()[1] < 60
    await store.stop()
    assert store.statistics().degraded_ledgers == 0 and store.degraded_for_s() == {}
