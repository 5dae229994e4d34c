"""Several brokers with ledgers on the same bookies: each scope has one owner, whoever that was before."""

from __future__ import annotations

import asyncio

import pytest

from messaging.bookkeeper import bookkeeper_pb2 as pb
from messaging.bookkeeper.core.entries import DigestType
from messaging.storage.ledger_store import WHOLE, AppendFailed, Fence, Fenced, StoreError
from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.bookkeeper.opened_stores import OpenedStores
from tests.support.storage.ledger_entries import Results, append_all, read_all
from tests.support.storage.owning import started

LOWER, UPPER = "acme/orders/0x00000000_0x80000000", "acme/orders/0x80000000_0xffffffff"


async def test_a_scope_is_taken_from_a_broker_that_goes_on_with_its_others(open_store: OpenedStores) -> None:
    former, newer = await open_store(), await open_store()
    await former.take_over(Fence("broker/1", 1))
    for scope in (LOWER, UPPER):
        await former.take_over(Fence(scope, 1))
    lower, upper = await former.create(Fence(LOWER, 1), 1, {}), await former.create(Fence(UPPER, 1), 2, {})
    results = Results()
    for number in range(50):
        results.append(lower, [b"%d" % number])
    await newer.take_over(Fence(LOWER, 2))
    await results.wait(50)
    confirmed = [first for first, error in results.got if error is None]
    assert confirmed == list(range(len(confirmed)))
    assert all(isinstance(error, Fenced) for _, error in results.got[len(confirmed) :])
    info = await newer.info(1)
    assert info.sealed and info.last_entry >= len(confirmed) - 1
    assert await read_all(await newer.open(1), info.last_entry) == [b"%d" % number for number in range(info.entries)]
    for call in (
        former.create(Fence(LOWER, 1), 3, {}),
        former.seal(Fence(LOWER, 1), 1),
        former.delete(Fence(LOWER, 1), 1),
        former.take_over(Fence(LOWER, 1)),
    ):
        with pytest.raises(Fenced, match="0x00000000"):
            await call
    late = Results()
    with pytest.raises(StoreError):
        late.append(lower, [b"late"])
    await append_all(upper, b"goes on")
    assert former.failed is None and (await upper.close()).last_entry == 0
    assert await newer.ledger_ids(LOWER) == [1] and await newer.ledger_ids(UPPER) == [2]
    await newer.delete(Fence(LOWER, 2), 1)
    assert await former.ledger_ids(LOWER) == []


async def test_the_range_that_was_taken_over_first_is_lost_for_good(open_store: OpenedStores) -> None:
    former = await open_store()
    fence = await started(former)
    told: list[StoreError] = []
    former.on_failed = told.append
    newer = await open_store()
    assert newer.epoch > former.epoch
    await newer.take_over(Fence(WHOLE, newer.epoch))
    with pytest.raises(Fenced):
        await former.create(fence, 1, {})
    with pytest.raises(Fenced):
        await former.create(fence, 2, {})
    assert isinstance(former.failed, Fenced) and told == [former.failed]


def _under_way_at_once(requests: list[pb.Request]) -> int:
    """How many ledgers were asked about before the first of them was for the last time."""
    asked = [
        request.readRequest.ledgerId if request.HasField("readRequest") else request.addRequest.ledgerId for request in requests
    ]
    last = {ledger_id: number for number, ledger_id in enumerate(asked)}
    return len(set(asked[: min(last.values()) + 1]))


async def test_hundreds_of_open_ledgers_are_taken_over_at_once(open_store: OpenedStores, cluster: FakeCluster) -> None:
    former, newer = await open_store(), await open_store()
    await former.take_over(Fence(LOWER, 1))
    writers = await asyncio.gather(*(former.create(Fence(LOWER, 1), number, {}) for number in range(300)))
    results = Results()
    for writer in writers:
        results.append(writer, [b"%d" % writer.ledger_id])
    await results.wait(300)
    for bookie in cluster.bookies.values():
        bookie.requests.clear()
    await newer.take_over(Fence(LOWER, 2))
    assert all(_under_way_at_once(bookie.requests) >= 20 for bookie in cluster.bookies.values()), "not one after the other"
    infos = await newer.ledgers()
    assert [(info.ledger_id, info.last_entry, info.sealed) for info in infos] == [(number, 0, True) for number in range(300)]
    for bookie in cluster.bookies.values():
        bookie.requests.clear()
    await newer.take_over(Fence(LOWER, 3))
    assert not any(bookie.requests for bookie in cluster.bookies.values()), "what is sealed costs the next owner nothing"


async def test_a_ledger_that_bookkeeper_repairs_is_not_lost_with_its_scope(open_store: OpenedStores, cluster: FakeCluster) -> None:
    """Its autorecovery takes an open ledger from the writer. The owner of the scope is still this one."""
    store = await open_store()
    fence = await started(store)
    writer, results = await store.create(fence, 1, {}), Results()
    results.append(writer, [b"before"])
    await results.wait(1)
    repair = await cluster.client()
    (number,) = [ledger_id async for ledger_id in repair.ledgers()]
    await repair.recover(number)
    with pytest.raises(StoreError):
        for _ in range(1000):
            results.append(writer, [b"after"])
            await asyncio.sleep(0)
    await writer.settled()
    assert results.got[0] == (0, None) and store.failed is None
    assert all(isinstance(error, AppendFailed) for _, error in results.got[1:])
    info = await store.seal(fence, 1)
    assert info.last_entry == 0 and await read_all(await store.open(1), 0) == [b"before"]
    await append_all(await store.create(fence, 2, {}), b"goes on")
    await repair.stop()


async def test_stores_of_several_names_do_not_meet(open_store: OpenedStores) -> None:
    one, other = await open_store(store="one"), await open_store(store="other")
    for store, payload in ((one, b"of one"), (other, b"of the other")):
        await append_all(await store.create(await started(store), 7, {}), payload)
    for store, payload in ((one, b"of one"), (other, b"of the other")):
        assert await read_all(await store.open(7), 0) == [payload]
        assert [info.ledger_id for info in await store.ledgers()] == [7]


async def test_ledgers_of_others_are_left_alone(open_store: OpenedStores, cluster: FakeCluster) -> None:
    """Of Pulsar's brokers, for instance, in the same cluster."""
    other = await cluster.client()
    writer = await other.create(digest_type=DigestType.CRC32)
    await writer.append(b"theirs")
    store = await open_store()
    await started(store)
    assert await store.ledgers() == []
    assert await writer.append(b"goes on") == 1
    await other.stop()
