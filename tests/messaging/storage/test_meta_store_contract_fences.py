"""Every change of metadata carries the fence of its range, and only the newest one changes anything. On each implementation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from messaging.storage.ledger_store import EARLIEST, WHOLE, Fence, Fenced
from messaging.storage.meta_store import LedgerRecord, MetaStore, PartitionedRecord, SubscriptionRecord, TopicRecord
from messaging.storage.recycled_topic import RecycledTopic
from tests.support.storage.owning import FENCE

TOPIC = "persistent://acme/orders/in"
PARTITIONED = "persistent://acme/orders/parts"
GONE = "persistent://acme/orders/gone"
RECYCLED = RecycledTopic("1", GONE, 1, 5)
COMING = RecycledTopic("2", f"{PARTITIONED}-coming", 1, 5, partitions=1)
Change = Callable[[MetaStore, Fence, SubscriptionRecord], Awaitable[object]]

CHANGES: dict[str, Change] = {
    "next_ledger_id": lambda store, fence, _: store.next_ledger_id(fence),
    "cas_topic": lambda store, fence, _: store.cas_topic(fence, TopicRecord(TOPIC, 1, ledgers=(LedgerRecord(7),))),
    "cas_topic, new": lambda store, fence, _: store.cas_topic(fence, TopicRecord(TOPIC + "2")),
    "delete_topic": lambda store, fence, _: store.delete_topic(fence, TOPIC, values=("key",)),
    "cas_partitioned": lambda store, fence, _: store.cas_partitioned(fence, PartitionedRecord(PARTITIONED, 4, version=1)),
    "delete_partitioned": lambda store, fence, _: store.delete_partitioned(fence, PARTITIONED),
    "create_subscription": lambda store, fence, _: store.create_subscription(
        fence, TOPIC, "other", created_ms=2, mark_delete=EARLIEST, properties={}
    ),
    "set_subscription_properties": lambda store, fence, _: store.set_subscription_properties(fence, TOPIC, "s", {"a": "b"}),
    "delete_subscription": lambda store, fence, _: store.delete_subscription(fence, TOPIC, "s"),
    "save_cursors": lambda store, fence, made: store.save_cursors(fence, [(made.subscription_id, EARLIEST, b"new")]),
    "add_schema_version": lambda store, fence, _: store.add_schema_version(fence, TOPIC, 1, b"new"),
    "delete_schema_versions": lambda store, fence, _: store.delete_schema_versions(fence, TOPIC),
    "put_value": lambda store, fence, _: store.put_value(fence, "key", b"new"),
    "delete_value": lambda store, fence, _: store.delete_value(fence, "key"),
    "recycle": lambda store, fence, _: store.recycle(fence, TOPIC, RecycledTopic("9", TOPIC, 1, 5), values=(), listed=True),
    "restore": lambda store, fence, _: store.restore(fence, GONE, RECYCLED, values=(), listed=True),
    "end_restore": lambda store, fence, _: store.end_restore(fence, COMING.name, COMING),
    "begin_purge": lambda store, fence, _: store.begin_purge(fence, RECYCLED.recycle_id),
    "forget_recycled": lambda store, fence, _: store.forget_recycled(fence, RECYCLED),
}


async def filled(store: MetaStore) -> SubscriptionRecord:
    await store.cas_topic(FENCE, TopicRecord(TOPIC))
    await store.cas_partitioned(FENCE, PartitionedRecord(PARTITIONED, 2))
    await store.cas_topic(FENCE, TopicRecord(GONE))
    await store.recycle(FENCE, GONE, RECYCLED, values=(), listed=True)
    await store.cas_partitioned(FENCE, PartitionedRecord(COMING.name, 1, restoring=COMING))
    await store.put_value(FENCE, "key", b"old")
    await store.add_schema_version(FENCE, TOPIC, 0, b"old")
    return await store.create_subscription(FENCE, TOPIC, "s", created_ms=1, mark_delete=EARLIEST, properties={})


async def content(store: MetaStore) -> list[object]:
    topics = [await store.get_topic(name) for name in await store.list_all_topics()]
    rest = [await store.subscriptions(TOPIC), await store.get_value("key"), await store.schema_versions(TOPIC)]
    partitioned = [await store.get_partitioned(name) for name in (PARTITIONED, COMING.name)]
    return [topics, partitioned, await store.list_recycled("acme/orders"), *rest]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_former_owner_changes_nothing_and_the_new_one_does(store: MetaStore, change: str) -> None:
    made = await filled(store)
    newer = await store.acquire(WHOLE)
    assert newer.epoch > FENCE.epoch
    before = await content(store)
    for fence in (FENCE, Fence(WHOLE, newer.epoch + 1), Fence("never acquired", newer.epoch)):
        with pytest.raises(Fenced):
            await CHANGES[change](store, fence, made)
        assert await content(store) == before
    await CHANGES[change](store, newer, made)
    assert (await content(store) == before) is (change == "next_ledger_id")


def test_every_method_that_changes_something_is_here() -> None:
    changing = {name for name, method in vars(MetaStore).items() if "fence" in getattr(method, "__annotations__", {})}
    assert changing == {name.partition(",")[0] for name in CHANGES}


async def test_epochs_rise_across_restarts_and_above_what_is_asked_for(store: MetaStore) -> None:
    assert await store.acquire(WHOLE, after=1) == Fence(WHOLE, 2)
    assert await store.acquire(WHOLE, after=40) == Fence(WHOLE, 41)
    assert await store.acquire(WHOLE, after=40) == Fence(WHOLE, 42)
    await store.stop()
    await store.start()
    with pytest.raises(Fenced):
        await store.put_value(Fence(WHOLE, 41), "key", b"")
    await store.put_value(Fence(WHOLE, 42), "key", b"")
    assert await store.acquire(WHOLE) == Fence(WHOLE, 43)


async def test_ranges_have_fences_of_their_own(store: MetaStore) -> None:
    first, second = await store.acquire("0x00-0x80"), await store.acquire("0x80-0xff", after=9)
    await store.acquire("0x80-0xff")
    await store.put_value(first, "first", b"1")
    await store.put_value(FENCE, "whole", b"1")
    with pytest.raises(Fenced):
        await store.put_value(second, "second", b"1")
    ids = [await store.next_ledger_id(FENCE), await store.next_ledger_id(first), await store.next_ledger_id(FENCE)]
    assert ids == sorted(set(ids)), "one sequence for all ranges"
