"""Ledgers that are copied from bookies while brokers write on, and restored elsewhere: the same ids, blocks and gaps."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from messaging.bookkeeper.errors import Unavailable as MetadataUnavailable
from messaging.storage.bookkeeper.backup.copying import LedgerCopying
from messaging.storage.bookkeeper.backup.packs import StoreContent, checked
from messaging.storage.bookkeeper.store import BookkeeperLedgerStore
from messaging.storage.ledger_store import SPARSE, WHOLE, Fence, StoreError, Unavailable
from tests.support.bookkeeper.copied_stores import URL, CopiedStore, ends_of, held, restored
from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.bookkeeper.opened_stores import QUICK, OpenedStores
from tests.support.storage.ledger_entries import append_all, entries, read_all
from tests.support.storage.owning import started

SCOPE = "acme/orders/0x00000000_0x80000000"


@pytest.fixture
async def other() -> AsyncIterator[FakeCluster]:
    """Another BookKeeper, which is empty."""
    made = FakeCluster()
    for _ in range(3):
        await made.add()
    yield made
    for bookie in made.bookies.values():
        await bookie.stop()


async def copied(cluster: FakeCluster, folder: Path, *stores: BookkeeperLedgerStore) -> tuple[StoreContent, list[Path]]:
    copy = CopiedStore(cluster, folder)
    for store in stores:
        await held(store)
    for store in stores:
        store.resume()
    await copy.begin()
    content = await copy.end({ledger_id: end for store in stores for ledger_id, end in (await ends_of(store)).items()})
    return content, copy.paths(content)


async def test_ledgers_are_elsewhere_as_they_were_at_the_moment(
    open_store: OpenedStores, cluster: FakeCluster, other: FakeCluster, tmp_path: Path
) -> None:
    first, second = await open_store(), await open_store()
    fence = await started(first)
    await first.name_generation("of the moment")
    of_scope = Fence(SCOPE, 7)
    await second.take_over(of_scope)
    sealed, written, empty = [await first.create(fence, number, {"topic": f"t{number}"}) for number in (10, 11, 12)]
    sparse = await second.create(of_scope, 1 << 33, {SPARSE: "1"})
    await append_all(sealed, *[b"s%d" % number * 1000 for number in range(300)])
    await sealed.close()
    await append_all(written, *[b"w%d" % number for number in range(40)])
    await append_all(sparse, b"low")
    sparse.skip_to(1000)
    await append_all(sparse, b"high")
    copy = CopiedStore(cluster, tmp_path / "packs")
    for store in (first, second):
        await held(store)
    for store in (first, second):
        store.resume()
    await append_all(written, b"later")
    await append_all(empty, b"later, too")
    await append_all(await first.create(fence, 13, {}), b"made since")
    await copy.begin()
    ends = await ends_of(first) | await ends_of(second)
    await append_all(sparse, b"later as well")
    await written.close()
    await first.delete(fence, 10)
    content = await copy.end(ends)
    assert (content.ledgers, content.adds, content.missing) == (4, 300 + 40 + 0 + 2, [])
    paths = copy.paths(content)
    assert sorted(ledger_id for path in paths for ledger_id in checked(path).ledger_ids) == [10, 11, 12, 1 << 33]
    await restored(other, paths, content)
    target = OpenedStores(other)
    store = await target()
    assert store.generation == "of the moment" and store.epoch > content.epoch >= first.epoch
    assert sorted(await store.ledger_ids(WHOLE)) == [10, 11, 12] and await store.ledger_ids(SCOPE) == [1 << 33]
    for epoch, scope in ((1, WHOLE), (8, SCOPE)):
        await store.take_over(Fence(scope, store.epoch + epoch))
    assert await read_all(await store.open(10), 299) == [b"s%d" % number * 1000 for number in range(300)]
    info = await store.info(11)
    assert info.sealed and info.last_entry == 39 and info.properties == {"topic": "t11"}
    assert await read_all(await store.open(11), 39) == [b"w%d" % number for number in range(40)]
    assert (await store.info(12)).last_entry == -1
    blocks = await (await store.open(1 << 33)).read(0, entries_max=10, bytes_max=1 << 20)
    assert [(block.first_entry, bytes(block.data), block.header) for block in blocks] == [(0, b"low", b"h"), (1000, b"high", b"h")]
    await target.stop()


async def test_a_ledger_whose_writer_is_gone_ends_where_its_next_owner_would_end_it(
    open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path
) -> None:
    store = await open_store()
    await append_all(await store.create(await started(store), 1, {}), b"one", b"two")
    await store.stop()
    content, paths = await copied(cluster, tmp_path / "packs")
    assert (content.ledgers, content.adds) == (1, 2) and checked(paths[0]).scopes == {WHOLE}


async def test_a_bookie_that_is_dead_and_one_that_is_silent_are_passed_over(
    open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path
) -> None:
    store = await open_store()
    await append_all(await store.create(await started(store), 1, {}), *[b"%d" % number for number in range(50)])
    await held(store)
    store.resume()
    dead, silent, _ = cluster.bookies.values()
    await dead.stop()
    silent.silent = True
    copy = CopiedStore(cluster, tmp_path / "packs", config=QUICK)
    await copy.begin()
    content = await copy.end(await ends_of(store))
    assert content.adds == 50
    silent.silent = False


async def test_what_no_bookie_answers_is_asked_again_and_fails_the_backup_in_the_end(
    open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path
) -> None:
    store = await open_store()
    await append_all(await store.create(await started(store), 1, {}), b"one")
    await held(store)
    store.resume()
    copy = CopiedStore(cluster, tmp_path / "packs", config=QUICK)
    await copy.begin()
    for bookie in cluster.bookies.values():
        bookie.silent = True
    copying = asyncio.create_task(copy.end(await ends_of(store)))
    assert not (await asyncio.wait([copying], timeout=0.5))[0]
    for bookie in cluster.bookies.values():
        bookie.silent = False
    assert (await copying).adds == 1
    failing = CopiedStore(cluster, tmp_path / "failing", config=QUICK)
    await failing.begin()
    for bookie in cluster.bookies.values():
        await bookie.stop()
    with pytest.raises(Unavailable, match="ledger 1"):
        await failing.end(await ends_of(store))
    assert not any(pack.finished for pack in failing.packs.values())


async def test_metadata_that_are_away_for_a_while(
    open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the session with ZooKeeper is lost."""
    store = await open_store()
    await append_all(await store.create(await started(store), 1, {}), b"one")
    await held(store)
    store.resume()
    copy = CopiedStore(cluster, tmp_path / "packs")
    await copy.begin()
    read, away = cluster.store.read, [True, True, True]

    async def lost(ledger_id: int) -> object:
        if away:
            away.pop()
            raise MetadataUnavailable("ZooKeeper did not answer", ledger_id)
        return await read(ledger_id)

    monkeypatch.setattr(cluster.store, "read", lost)
    assert (await copy.end(await ends_of(store))).adds == 1 and not away


async def test_a_ledger_that_somebody_deletes_meanwhile(open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path) -> None:
    """By a broker that the backup does not know, since it was started later."""
    store, unknown = await open_store(), await open_store()
    fence = await started(store)
    await (await store.create(fence, 1, {})).close()
    await held(store)
    store.resume()
    copy = CopiedStore(cluster, tmp_path / "packs")
    await copy.begin()
    newer = Fence(WHOLE, store.epoch + 1)
    await unknown.take_over(newer)
    await unknown.delete(newer, 1)
    with pytest.raises(StoreError, match="ledger 1 is gone"):
        await copy.end(await ends_of(store))


async def test_what_was_only_listed_before_is_told(open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path) -> None:
    """A broker ended after it had deleted a ledger and before it had taken it out of the list."""
    store = await open_store()
    await (await store.create(await started(store), 1, {})).close()
    client = await cluster.client()
    (number,) = [ledger_id async for ledger_id in client.ledgers()]
    await client.delete(number)
    await client.stop()
    content, _ = await copied(cluster, tmp_path / "packs", store)
    assert (content.ledgers, content.missing) == (0, [1])


async def test_a_scope_that_changed_its_broker_at_the_moment(
    open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path
) -> None:
    former, newer = await open_store(), await open_store()
    await former.take_over(Fence(SCOPE, 1))
    await append_all(await former.create(Fence(SCOPE, 1), 1, {}), b"one")
    await held(former)
    copy = CopiedStore(cluster, tmp_path / "packs")
    await copy.begin()
    copying = LedgerCopying(copy.client, copy.nodes, b"")
    assert former.held_ledgers.scopes == {SCOPE: 1}
    await copying.require_owners(former.held_ledgers.scopes)
    await newer.take_over(Fence(SCOPE, 2))
    with pytest.raises(StoreError, match="changed its broker"):
        await copying.require_owners(former.held_ledgers.scopes)
    await copy.client.stop()


async def test_a_ledger_that_ends_before_what_its_writer_confirmed(
    open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path
) -> None:
    store = await open_store()
    await (await store.create(await started(store), 1, {})).close()
    copy = CopiedStore(cluster, tmp_path / "packs")
    await copy.begin()
    with pytest.raises(StoreError, match="closed at entry -1; its writer confirmed 5"):
        await copy.end({1: 5})


async def test_the_wrong_password_and_entries_that_are_damaged_everywhere(
    open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path
) -> None:
    store = await open_store()
    await append_all(await store.create(await started(store), 1, {}), b"one")
    await store.seal(Fence(WHOLE, store.epoch), 1)
    secret = tmp_path / "password"
    secret.write_text("another")
    copy = CopiedStore(cluster, tmp_path / "refused", replace(URL, password_file=str(secret)))
    await copy.begin()
    with pytest.raises(StoreError, match="name the file of the right one"):
        await copy.end({})
    for bookie in cluster.bookies.values():
        for stored in bookie.entries.values():
            stored[0] = stored[0][:-1] + b"!"
    copy = CopiedStore(cluster, tmp_path / "damaged")
    await copy.begin()
    with pytest.raises(StoreError, match="no bookie that should have it has it undamaged"):
        await copy.end({})


async def test_many_ledgers_are_in_a_few_packs(open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path) -> None:
    store = await open_store()
    fence = await started(store)
    for number in range(60):
        writer = await store.create(fence, number, {})
        writer.append(b"", b"%d" % number, array("I", [len(b"%d" % number)]), lambda error: None)
        await writer.close()
    content, paths = await copied(cluster, tmp_path / "packs", store)
    assert content.ledgers == content.adds == 60 and len(paths) <= 4
    assert len(entries(await (await store.open(59)).read(0, entries_max=1, bytes_max=1))) == 1
