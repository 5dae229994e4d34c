"""A restore onto bookies: into a store that does not exist, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.bookkeeper.errors import ConditionFailed
from messaging.bookkeeper_url import BookkeeperUrl
from messaging.storage.bookkeeper.backup.nodes import RestoredNodes
from messaging.storage.bookkeeper.backup.packs import CONTENT_FORMAT, DamagedPack, StoreContent
from messaging.storage.bookkeeper.backup.restoring import LedgerRestoring
from messaging.storage.ledger_store import WHOLE, StoreError
from tests.support.bookkeeper.copied_stores import URL, packs_of, restored
from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.bookkeeper.made_packs import adds, ledger, pack
from tests.support.bookkeeper.opened_stores import QUICK, OpenedStores
from tests.support.storage.ledger_entries import read_all

CONTENT = StoreContent(CONTENT_FORMAT, "of the moment", 5, ["ledgers-000000.pack"], 2, 3, [])


async def ledgers_there(cluster: FakeCluster) -> int:
    client = await cluster.client()
    try:
        return len([ledger_id async for ledger_id in client.ledgers()])
    finally:
        await client.stop()


async def test_a_store_that_exists_is_left_alone(open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path) -> None:
    store = await open_store()
    before = cluster.store.paths()
    with pytest.raises(StoreError, match="has a store of this name, /magnetar/stores/default: a backup is restored into a new one"):
        await restored(cluster, [pack(tmp_path, ledger(7, adds(2)))], CONTENT)
    assert cluster.store.paths() == before and await ledgers_there(cluster) == 0
    other = BookkeeperUrl("zookeeper:2181", store="other")
    await restored(cluster, [pack(tmp_path, ledger(7, adds(2)))], CONTENT, other)
    assert await store.ledgers() == []
    assert await read_all(await (await open_store(store="other")).open(7), 1) == [b"0000", b"0001"]


async def test_what_fails_leaves_nothing(open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path) -> None:
    path = pack(tmp_path, ledger(7, adds(2)), ledger(8, adds(1)))
    content = path.read_bytes()
    path.write_bytes(content[:-3])  # since it was checked
    with pytest.raises(DamagedPack):
        await restored(cluster, [path], CONTENT)
    assert await ledgers_there(cluster) == 0
    assert cluster.store.paths() == ["/magnetar/numbers/1"], "its number is not given to another store"
    for bookie in list(cluster.bookies.values())[:2]:
        bookie.silent = True
    path.write_bytes(content)
    with pytest.raises(StoreError, match="the BookKeeper of ledger_url"):
        await restored(cluster, [path], CONTENT, **QUICK)
    assert await ledgers_there(cluster) == 0
    for bookie in cluster.bookies.values():
        bookie.silent = False
    await restored(cluster, [path], CONTENT)
    store = await open_store()
    assert (store.generation, store.epoch) == ("of the moment", 6)
    assert [(info.ledger_id, info.last_entry) for info in await store.ledgers()] == [(7, 1), (8, 0)]


async def test_a_pack_that_changed_since_it_was_checked(cluster: FakeCluster, tmp_path: Path) -> None:
    path = pack(tmp_path, ledger(7, adds(2)))
    (noted,) = packs_of([path])
    path.write_bytes(path.read_bytes().replace(b"0001", b"0002"))
    client = await cluster.client()
    with pytest.raises(DamagedPack, match=r"ledgers-000000\.pack does not match its checksum"):
        await LedgerRestoring(client, RestoredNodes(cluster.store, URL), URL).run("a backup", [noted])
    await client.stop()
    assert await ledgers_there(cluster) == 0 and cluster.store.paths() == ["/magnetar/numbers/1"]


async def test_one_that_ended_unseen_may_be_asked_for_again_until_a_broker_starts(
    open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path
) -> None:
    path = pack(tmp_path, ledger(7, adds(2)), ledger(8, adds(1)))
    await restored(cluster, [path], CONTENT)  # and its process was killed
    nodes, before = RestoredNodes(cluster.store, URL), cluster.store.paths()
    await nodes.require_empty("a backup")
    await restored(cluster, [path], CONTENT)
    assert cluster.store.paths() == before
    with pytest.raises(StoreError, match="has a store of this name"):
        await nodes.require_empty("another one")
    store = await open_store()
    assert (store.generation, store.epoch) == ("of the moment", 6)
    for backup_id in ("a backup", ""):
        with pytest.raises(StoreError, match="has a store of this name"):
            await nodes.require_empty(backup_id)
    with pytest.raises(StoreError, match="has a store of this name"):
        await restored(cluster, [path], CONTENT)
    assert [(info.ledger_id, info.last_entry) for info in await store.ledgers()] == [(7, 1), (8, 0)]


async def test_one_that_was_cut_off_is_no_store_until_it_is_begun_again(
    open_store: OpenedStores, cluster: FakeCluster, tmp_path: Path
) -> None:
    path = pack(tmp_path, ledger(7, adds(2)), ledger(8, adds(1)))
    client = await cluster.client()
    cut_off = LedgerRestoring(client, RestoredNodes(cluster.store, URL), URL)
    await cut_off.run("a backup", packs_of([path]))
    with pytest.raises(StoreError, match="a restore into the store /magnetar/stores/default has not ended"):
        await open_store()
    await restored(cluster, [pack(tmp_path, ledger(8, adds(2)))], CONTENT)
    with pytest.raises(StoreError, match="another restore into the store"):
        await cut_off.end(CONTENT)
    store = await open_store()
    assert [(info.ledger_id, info.last_entry) for info in await store.ledgers()] == [(8, 1)]
    assert await ledgers_there(cluster) == 1
    await client.stop()


async def test_the_later_of_two_restores_shuts_the_former_out(cluster: FakeCluster) -> None:
    client = await cluster.client()
    former, later = RestoredNodes(cluster.store, URL), RestoredNodes(cluster.store, URL)
    assert not await former.begin_restore("a backup")
    await former.make_scope(WHOLE)
    assert await later.begin_restore("another one")
    with pytest.raises(ConditionFailed):
        await client.create(ledger_id=former.bookkeeper_id(7), along=former.along(WHOLE, 7))
    claimed = cluster.store.paths()
    await LedgerRestoring(client, former, URL).give_up()
    assert cluster.store.paths() == claimed, "what the later one has made is not taken from it"
    await client.create(ledger_id=later.bookkeeper_id(7), along=later.along(WHOLE, 7))
    with pytest.raises(StoreError, match="another restore into the store"):
        await former.end_restore("", 1)
    await client.stop()
