"""A store on bookies that is held for a backup: what is answered when, and which ledgers stay."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import pytest

from messaging.bookkeeper.errors import Unavailable
from messaging.bookkeeper.metadata.store import NodeChange
from messaging.storage.bookkeeper import held_ledgers
from messaging.storage.bookkeeper.store import BookkeeperLedgerStore
from messaging.storage.held_store import HeldStore, NotingStore
from messaging.storage.ledger_store import WHOLE, Fence, Fenced, NoSuchLedger
from messaging.storage.noted_ledgers import NOT_OF_THE_MOMENT
from tests.support.bookkeeper.copied_stores import ends_of, held
from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.bookkeeper.opened_stores import OpenedStores
from tests.support.storage.ledger_entries import Results, append_all, read_all
from tests.support.storage.owning import started
from tests.support.waiting import eventually


def stored_adds(cluster: FakeCluster) -> int:
    return sum(len(adds) for bookie in cluster.bookies.values() for adds in bookie.entries.values())


async def waits(*tasks: asyncio.Task[object]) -> None:
    done, _ = await asyncio.wait(tasks, timeout=0.05)
    assert not done


async def test_nothing_is_answered_while_it_is_held_and_all_in_order_after_it(
    open_store: OpenedStores, cluster: FakeCluster
) -> None:
    store = await open_store()
    assert isinstance(store, HeldStore) and isinstance(store, NotingStore)
    fence = await started(store)
    writer, other = await store.create(fence, 1, {}), await store.create(fence, 2, {})
    await append_all(writer, b"before", b"and this")
    results = Results()
    await held(store)
    for number in range(600):
        results.append(writer, [b"%d" % number])
    creating, sealing = asyncio.create_task(store.create(fence, 3, {})), asyncio.create_task(store.seal(fence, 2))
    await eventually(lambda: stored_adds(cluster) == 3 * 602)
    await waits(creating, sealing)
    assert not results.got and writer.last_confirmed == 1 and other.next_entry == 0
    assert await ends_of(store) == {1: 1, 2: -1, 3: NOT_OF_THE_MOMENT}
    store.resume()
    await results.wait(600)
    assert results.got == [(number + 2, None) for number in range(600)]
    assert (await sealing).last_entry == -1
    await append_all(await creating, b"goes on")
    store.keep_files(False)
    assert (await store.seal(fence, 1)).last_entry == 601


async def test_a_takeover_is_not_told_of_while_it_is_held(open_store: OpenedStores) -> None:
    former, newer = await open_store(), await open_store()
    fence = await started(former)
    await append_all(await former.create(fence, 1, {}), b"one")
    await held(newer)
    taking = asyncio.create_task(newer.take_over(Fence(WHOLE, former.epoch + 1)))
    await waits(taking)
    newer.resume()
    await taking
    assert (await newer.info(1)).sealed


async def test_it_may_be_held_again_before_all_is_told(open_store: OpenedStores) -> None:
    store = await open_store()
    fence = await started(store)
    writer, results = await store.create(fence, 1, {}), Results()
    await held(store)
    for number in range(600):
        results.append(writer, [b"%d" % number])
    await eventually(lambda: writer.bookkeeper.last_confirmed == 599)
    store.resume()
    told = len(results.got)
    assert told == held_ledgers.TOLD_AT_ONCE
    await held(store)
    await waits(asyncio.create_task(writer.settled()))
    assert len(results.got) == told and await ends_of(store) == {1: told - 1}
    store.resume()
    await results.wait(600)
    assert [first for first, _ in results.got] == list(range(600))


async def test_ledgers_that_are_deleted_meanwhile_are_gone_for_everybody_but_the_backup(
    open_store: OpenedStores, cluster: FakeCluster
) -> None:
    store = await open_store()
    fence = await started(store)
    for ledger_id in (1, 2, 3):
        await append_all(await store.create(fence, ledger_id, {}), b"kept")
    await store.seal(fence, 1)
    await held(store)
    store.resume()
    await store.delete(fence, 1)
    await store.delete(fence, 2)  # which is being written
    await store.delete(fence, 2)
    for call in (store.open(1), store.info(2), store.seal(fence, 2)):
        with pytest.raises(NoSuchLedger):
            await call
    assert await store.ledger_ids(WHOLE) == [3] and [info.ledger_id for info in await store.ledgers()] == [3]
    client = await cluster.client()
    assert len([ledger_id async for ledger_id in client.ledgers()]) == 3
    made = await store.create(fence, 4, {})
    assert await ends_of(store) == {2: 0, 3: 0, 4: NOT_OF_THE_MOMENT}
    store.keep_files(False)
    await eventually(lambda: left(cluster) == 2)
    await append_all(made, b"goes on")
    assert sorted(await store.ledger_ids(WHOLE)) == [3, 4] and await ends_of(store) == {}
    await client.stop()


def left(cluster: FakeCluster) -> int:
    return sum("/L" in path for path in cluster.store.paths())


async def test_what_a_new_owner_took_over_is_its_own_to_collect(open_store: OpenedStores, cluster: FakeCluster) -> None:
    former, newer = await open_store(), await open_store()
    fence = await started(former)
    await (await former.create(fence, 1, {})).close()
    await held(former)
    former.resume()
    await former.delete(fence, 1)
    await newer.take_over(Fence(WHOLE, former.epoch + 1))
    former.keep_files(False)
    await eventually(lambda: not former.held_ledgers.is_deferred(1))
    assert await newer.ledger_ids(WHOLE) == [1], "an orphan, as after any broker that ends in between"


async def test_what_cannot_be_deleted_is_tried_again(
    open_store: OpenedStores, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_ledgers, "AGAIN_S", 0.01)
    store: BookkeeperLedgerStore = await open_store(config={"metadata_timeout_s": 0.1})
    fence = await started(store)
    for ledger_id in (1, 2):
        await (await store.create(fence, ledger_id, {})).close()
    await held(store)
    store.resume()
    await store.delete(fence, 1)
    attempts = list[int]()

    async def away(ledger_id: int, along: object = ()) -> None:
        attempts.append(ledger_id)
        raise Unavailable("ZooKeeper is away", ledger_id)

    with monkeypatch.context() as patched:
        patched.setattr(cluster.store, "delete", away)
        store.keep_files(False)
        await eventually(lambda: len(attempts) >= 2)
    await eventually(lambda: left(cluster) == 1)
    assert await store.ledger_ids(WHOLE) == [2] and await read_all(await store.open(2), -1) == []


async def test_a_store_that_stops_while_it_is_held_answers(open_store: OpenedStores, cluster: FakeCluster) -> None:
    store = await open_store()
    writer, results = await store.create(await started(store), 1, {}), Results()
    await held(store)
    results.append(writer, [b"under way"])
    await eventually(lambda: stored_adds(cluster) == 3)
    await store.stop()
    assert [first for first, _ in results.got] == [0]


async def test_what_can_never_be_deleted_holds_up_no_other(
    open_store: OpenedStores, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_ledgers, "AGAIN_S", 0.01)
    store: BookkeeperLedgerStore = await open_store(config={"metadata_timeout_s": 0.1})
    fence = await started(store)
    never = held_ledgers.DELETES_AT_ONCE
    for ledger_id in range(never + 2):
        await (await store.create(fence, ledger_id, {})).close()
    await held(store)
    store.resume()
    for ledger_id in range(never + 2):
        await store.delete(fence, ledger_id)
    delete = cluster.store.delete

    async def some(ledger_id: int, along: Sequence[NodeChange] = ()) -> None:
        if ledger_id & 0xFFFF < never:
            raise Unavailable("its node is refused", ledger_id)
        await delete(ledger_id, along)

    monkeypatch.setattr(cluster.store, "delete", some)
    store.keep_files(False)
    await eventually(lambda: left(cluster) == never)
    assert store.held_ledgers.is_deferred(0) and not store.held_ledgers.is_deferred(never)


async def test_a_ledger_that_its_former_broker_could_not_seal_fails_no_later_backup(
    open_store: OpenedStores, cluster: FakeCluster
) -> None:
    former, newer = await open_store(), await open_store()
    fence = await started(former)
    writer = await former.create(fence, 1, {})
    await append_all(writer, b"one")
    await newer.take_over(Fence(WHOLE, former.epoch + 1))
    with pytest.raises(Fenced):
        await writer.close()
    await held(former)
    assert former.held_ledgers.scopes == {} and await ends_of(former) == {}
    former.resume()


async def test_appends_without_an_answer_are_of_the_moment_though_no_more_are_taken(open_store: OpenedStores) -> None:
    store = await open_store()
    writer, results = await store.create(await started(store), 1, {}), Results()
    results.append(writer, [b"under way"])
    closing = asyncio.create_task(writer.close())
    await asyncio.sleep(0)
    await held(store)
    assert await ends_of(store) == {1: -1}
    store.resume()
    assert (await closing).last_entry == 0 and results.got == [(0, None)]


class OpenLedger(NamedTuple):
    """What is asked of a writer."""

    ledger_id: int
    fence: Fence
    last_block: int = 7
    is_over: bool = False


async def test_100_000_open_ledgers_are_noted_and_sorted_in_slices() -> None:
    """Each turn of the loop sees to a few thousand, so everybody else has theirs between them."""

    async def delete(fence: Fence, ledger_id: int) -> None:
        raise AssertionError(ledger_id)

    held, fence, turns = held_ledgers.HeldLedgers(delete), Fence(WHOLE, 3), 0
    ids = random.Random(1).sample(range(1 << 40), 100_000)

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    held.keep(True)
    await held.hold(cast(Any, {ledger_id: OpenLedger(ledger_id, fence) for ledger_id in ids}))
    noting, turns = turns, 0
    slices = len(ids) / held_ledgers.NOTED_AT_ONCE
    assert slices <= noting <= 2 * slices
    ends = await held.ends(-1, 60_000)
    assert 2 * slices <= turns <= 3 * slices
    ends += await held.ends(ends[-1].ledger_id, 60_000)
    assert [end.ledger_id for end in ends] == sorted(ids) and {end.last_block for end in ends} == {7}
    assert held.scopes == {WHOLE: 3}
    held.resume()
    sorting = asyncio.create_task(held.ends(-1, 10))
    held.keep(False)
    assert await sorting == [], "the backup ended meanwhile"
    counting.cancel()
    await held.stop()
