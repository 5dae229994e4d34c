"""The ledger store on real bookies that die, are repaired and collect their garbage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from kazoo.client import KazooClient

from messaging.bookkeeper.core.ledger_metadata import LedgerState
from messaging.bookkeeper.metadata.zookeeper import ZookeeperMetadataStore
from messaging.bookkeeper_url import BookkeeperUrl
from messaging.storage.bookkeeper.store import BookkeeperLedgerStore
from messaging.storage.bookkeeper.writer import BookkeeperLedgerWriter
from messaging.storage.ledger_store import AppendFailed, Fence, StoreError
from tests.support.bookkeeper import install
from tests.support.bookkeeper.cluster import Cluster, Server
from tests.support.storage.ledger_entries import Results, append_all, entries, read_all
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("bookkeeper"),
    pytest.mark.skipif(not install.ready(), reason=f"no bookies: {install.NEEDED}"),
]


class Stores:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._opened: list[BookkeeperLedgerStore] = []

    async def open(self, name: str, **options: Any) -> BookkeeperLedgerStore:
        said = "".join(f"&{option}={value}" for option, value in options.items())
        store = BookkeeperLedgerStore(BookkeeperUrl.parse(f"bookkeeper://{self._cluster.hosts}/ledgers?store={name}{said}"))
        await store.start()
        self._opened.append(store)
        return store

    async def stop(self) -> None:
        for store in self._opened:
            await store.stop()


@pytest.fixture
async def stores(real_cluster: Cluster) -> AsyncIterator[Stores]:
    made = Stores(real_cluster)
    yield made
    await made.stop()


async def owner_of(store: BookkeeperLedgerStore) -> Fence:
    fence = Fence("acme/orders/0x0_0x8", store.epoch)
    await store.take_over(fence)
    return fence


@pytest.fixture
async def metadata(real_cluster: Cluster) -> AsyncIterator[ZookeeperMetadataStore]:
    store = ZookeeperMetadataStore(real_cluster.hosts)
    await store.start()
    yield store
    await store.stop()


async def created(
    store: BookkeeperLedgerStore, fence: Fence, number: int, metadata: ZookeeperMetadataStore
) -> tuple[BookkeeperLedgerWriter, int]:
    """The writer, and the id that the ledger has in the cluster, which has those of other tests as well."""
    before = {ledger_id async for ledger_id in metadata.ledgers()}
    writer = await store.create(fence, number, {})
    (ledger_id,) = {ledger_id async for ledger_id in metadata.ledgers()} - before
    return writer, ledger_id


async def start_again(bookies: list[Server], store: BookkeeperLedgerStore) -> None:
    for bookie in bookies:
        bookie.start()
    for bookie in bookies:
        await asyncio.to_thread(bookie.wait)

    async def usable() -> bool:
        try:
            await store.ask()
        except StoreError:
            return False
        return True

    await eventually(usable, timeout_s=20)


async def test_t4_two_of_four_bookies_are_killed(real_cluster: Cluster, stores: Stores, metadata: ZookeeperMetadataStore) -> None:
    """Every entry has to be on three: nothing is confirmed any more. What was is there when they are back."""
    store = await stores.open("t4", ack_quorum=3)
    fence = await owner_of(store)
    (writer, ledger_id), results = await created(store, fence, 1, metadata), Results()
    for number in range(50):
        results.append(writer, [b"%d" % number])
    await results.wait(50)
    ensemble = (await metadata.read(ledger_id)).last_segment.ensemble
    killed = [real_cluster.bookie_named(name) for name in ensemble[:2]]
    for bookie in killed:
        bookie.kill()
    for number in range(50, 60):
        try:
            results.append(writer, [b"%d" % number])
        except StoreError:
            break
        await asyncio.sleep(0)
    await writer.settled()
    confirmed = [first for first, error in results.got if error is None]
    assert confirmed == list(range(50)), "two bookies had it, which is not what was asked for"
    assert all(isinstance(error, AppendFailed) for _, error in results.got[50:]) and len(results.got) > 50

    async def refused() -> bool:
        """Once ZooKeeper has noticed."""
        try:
            await store.ask()
        except StoreError as error:
            return "2 bookies take writes; a new ledger needs 3" in str(error)
        return False

    await eventually(refused, timeout_s=20)
    with pytest.raises(StoreError, match="needs 3 bookies that take writes; there are 2"):
        await store.create(fence, 2, {})
    await start_again(killed, store)
    info = await store.seal(fence, 1)
    assert 49 <= info.last_entry <= 59
    assert await read_all(await store.open(1), info.last_entry) == [b"%d" % number for number in range(info.entries)]
    await append_all(await store.create(fence, 3, {}), b"goes on")


async def test_t8_repair_takes_an_open_ledger(real_cluster: Cluster, stores: Stores, metadata: ZookeeperMetadataStore) -> None:
    """Its writer does not notice that a bookie is gone, since it writes nothing."""
    store = await stores.open("t8")
    fence = await owner_of(store)
    (writer, ledger_id), results = await created(store, fence, 1, metadata), Results()
    for number in range(20):
        results.append(writer, [b"%d" % number])
    await results.wait(20)
    killed = real_cluster.bookie_named((await metadata.read(ledger_id)).last_segment.ensemble[0])
    repair = real_cluster.autorecovery()
    repair.start()
    try:
        killed.kill()

        async def closed() -> bool:
            return (await metadata.read(ledger_id)).state is LedgerState.CLOSED

        await eventually(closed, timeout_s=240)  # it repairs what all other tests left as well
        with pytest.raises(StoreError):
            for number in range(20, 10_000):
                results.append(writer, [b"%d" % number])
                await asyncio.sleep(0)
        await writer.settled()
        assert store.failed is None and all(isinstance(error, AppendFailed) for _, error in results.got[20:])
        info = await store.seal(fence, 1)
        assert info.last_entry == 19 and await read_all(await store.open(1), 19) == [b"%d" % number for number in range(20)]
        await append_all(await store.create(fence, 2, {}), b"goes on")
    finally:
        repair.kill()
        await start_again([killed], store)


async def test_t10_bookies_free_the_space_of_deleted_ledgers_and_of_no_others(real_cluster: Cluster, stores: Stores) -> None:
    store = await stores.open("t10")
    fence = await owner_of(store)
    others_bytes = real_cluster.stored_bytes()
    kept = await store.create(fence, 1, {})
    await append_all(kept, b"kept")  # not in between: a file goes when all ledgers are gone of which it has entries
    for ledger_id in range(2, 12):
        writer = await store.create(fence, ledger_id, {})
        await append_all(writer, *[b"%04d" % number * 50_000 for number in range(20)])
        await writer.close()
    payload_bytes = 10 * 20 * 200_000
    await eventually(lambda: real_cluster.stored_bytes() >= others_bytes + payload_bytes * 3 // 2, timeout_s=20)
    for ledger_id in range(2, 12):
        await store.delete(fence, ledger_id)
    await eventually(lambda: real_cluster.stored_bytes() < others_bytes + payload_bytes, timeout_s=20)
    assert await store.ledger_ids(fence.scope) == [1]
    info = await kept.close()
    store = await stores.open("t10")
    assert await read_all(await store.open(1), info.last_entry) == [b"kept"]


async def test_hundreds_of_open_ledgers_are_taken_over(stores: Stores) -> None:
    """About 2 s on a quiet machine. That many are recovered at a time is seen beside bookies that are counted
    (`tests/messaging/storage/bookkeeper/test_owners.py`)."""
    former, newer = await stores.open("many"), await stores.open("many")
    fence = await owner_of(former)
    writers = await asyncio.gather(*(former.create(fence, number, {}) for number in range(500)))
    results = Results()
    for writer in writers:
        results.append(writer, [b"%d" % writer.ledger_id])
    await results.wait(500)
    assert all(error is None for _, error in results.got)
    await owner_of(newer)
    infos = await newer.ledgers()
    assert [(info.ledger_id, info.last_entry, info.sealed) for info in infos] == [(number, 0, True) for number in range(500)]
    for writer in writers[:3]:
        blocks = await (await newer.open(writer.ledger_id)).read(0, entries_max=1, bytes_max=1)
        assert entries(blocks) == [b"%d" % writer.ledger_id]


def only_one_in_r2(store: BookkeeperLedgerStore, name: str) -> bool:
    return [bookie.bookie for bookie in store.bookies() if bookie.rack == "/r2"] == [name]


async def test_racks_that_pulsar_keeps_in_zookeeper_are_heeded_without_a_restart(
    real_cluster: Cluster, stores: Stores, metadata: ZookeeperMetadataStore
) -> None:
    """Made, changed and deleted by somebody else while the store runs."""
    store = await stores.open("racks", ensemble=2, write_quorum=2)
    fence = await owner_of(store)
    kazoo = KazooClient(real_cluster.hosts)
    await asyncio.to_thread(kazoo.start)
    try:
        for number, alone in enumerate(real_cluster.names[:2]):
            racks = {name: {"rack": "/r2" if name == alone else "/r1"} for name in real_cluster.names}
            kazoo.ensure_path("/bookies")  # what other tests did with racks is still there, or nothing
            kazoo.set("/bookies", json.dumps({"default": racks}).encode())
            await eventually(partial(only_one_in_r2, store, alone), timeout_s=20)
            for ledger_number in range(number * 5, number * 5 + 5):
                _, ledger_id = await created(store, fence, ledger_number, metadata)
                assert alone in (await metadata.read(ledger_id)).last_segment.ensemble
        await store.racks.change(lambda table: table.without(real_cluster.names[0]))
        assert real_cluster.names[0] not in json.loads(kazoo.get("/bookies")[0])["default"]
        kazoo.delete("/bookies")
        await eventually(lambda: {bookie.rack for bookie in store.bookies()} == {"/default-rack"}, timeout_s=20)
    finally:
        await asyncio.to_thread(kazoo.stop)
        kazoo.close()
