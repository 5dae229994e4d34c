"""The recycle bin of every MetaStore: what is moved there is nowhere else, and comes back as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.meta_store import LedgerRecord, MetaConflict, MetaStore, PartitionedRecord, TopicRecord
from messaging.storage.recycled_topic import RecycledTopic
from tests.support.storage.owning import FENCE

TOPIC = "persistent://acme/orders/in"
PARTS = "persistent://acme/orders/parts"
BIN = RecycledTopic("0001", TOPIC, deleted_ms=10, expires_ms=20, deleted_by="user:olga", created_ms=5, policies=b"{}")
OF_PARTS = RecycledTopic("0002", PARTS, deleted_ms=11, expires_ms=21, partitions=2)
VALUES = (lambda name: f"dedup:{name}", lambda name: f"delayed/{name}")


async def made(store: MetaStore, name: str = TOPIC, ledger_id: int = 7) -> TopicRecord:
    ledgers = (LedgerRecord(ledger_id, 41, 1000), LedgerRecord(ledger_id + 1, 3, 24))
    record = await store.cas_topic(FENCE, TopicRecord(name, created_ms=5, ledgers=ledgers, properties={"a": "b"}))
    made = await store.create_subscription(FENCE, name, "s", created_ms=6, mark_delete=EARLIEST, properties={"k": "v"})
    await store.save_cursors(FENCE, [(made.subscription_id, Position(ledger_id, 4), b"state")])
    await store.add_schema_version(FENCE, name, 0, b"schema")
    for key in VALUES:
        await store.put_value(FENCE, key(name), b"value")
    return record


async def recycled(store: MetaStore, record: RecycledTopic = BIN) -> None:
    await store.recycle(FENCE, record.name, record, values=VALUES, listed=True)


async def content(store: MetaStore, name: str = TOPIC) -> list[object]:
    return [
        await store.get_topic(name),
        await store.subscriptions(name),
        await store.schema_versions(name),
        [await store.get_value(key(name)) for key in VALUES],
    ]


async def test_a_recycled_topic_is_found_in_the_bin_only(store: MetaStore) -> None:
    await made(store)
    before: Any = await content(store)
    await recycled(store)
    assert await content(store) == [None, [], [], [None, None]]
    assert await store.list_topics("acme/orders") == [] and await store.list_all_topics() == []
    assert await store.topics_with_schemas("acme/orders") == []
    counts = [await store.count_topics("acme"), await store.count_subscriptions("acme"), await store.count_schemas("acme")]
    assert counts == [{}, {}, {}]
    assert await store.search("acme", "in", 10) == ([], []) and await store.search("", "in", 10) == ([], [])
    shown = replace_counts(BIN, topics=1, stored_bytes=1024)
    assert await store.list_recycled("acme/orders") == [shown]
    assert await store.get_recycled("0001") == shown and await store.count_recycled("acme") == 1
    assert await store.count_within(BIN.places) == (len(before[1]), len(before[2])) != (0, 0)
    assert await store.count_within(OF_PARTS.places) == (0, 0)
    assert await store.list_recycled("acme/order") == [] and await store.count_recycled("acm") == 0


async def test_what_lies_in_the_bin_is_stored_and_its_ledgers_are_referred_to(store: MetaStore) -> None:
    await made(store)
    await made(store, PARTS, ledger_id=20)
    await recycled(store)
    assert [record.name for record in await store.topic_records("acme")] == [PARTS, BIN.place_of(TOPIC)]
    assert [record.name for record in await store.topic_records("acme", after=PARTS)] == [BIN.place_of(TOPIC)]
    assert [record.name for record in await store.topic_records("acme", limit=1)] == [PARTS]
    assert await store.referenced_ledgers() == ([20, 21, 7, 8], None), "those in the bin come last"
    assert await store.recycled_places() == await store.recycled_places(within=BIN.places) == [BIN.place_of(TOPIC)]
    assert await store.recycled_places(within=OF_PARTS.places) == []


async def test_a_restored_topic_is_what_it_was(store: MetaStore) -> None:
    record = await made(store)
    await store.cas_topic(FENCE, replace(record, idle_since={"": 9}))
    subscriptions = await store.subscriptions(TOPIC)
    await recycled(store)
    await store.stop()
    await store.start()
    await store.save_cursors(FENCE, [(subscriptions[0].subscription_id, Position(8, 1), b"newer")])
    await store.restore(FENCE, TOPIC, BIN, values=VALUES, listed=True)
    back, *rest = await content(store)
    assert isinstance(back, TopicRecord) and replace(back, version=record.version) == record, "since when it is idle is not known"
    expected = replace(subscriptions[0], mark_delete=Position(8, 1), state=b"newer")
    assert rest == [[expected], [b"schema"], [b"value", b"value"]]
    assert await store.list_recycled("acme/orders") == [] and await store.get_recycled("0001") is None
    assert await store.recycled_places() == []
    assert await store.existing_subscriptions([expected.subscription_id]) == {expected.subscription_id}
    await store.cas_topic(FENCE, replace(back, created_ms=8))


async def test_a_topic_is_not_restored_over_another_one(store: MetaStore) -> None:
    await made(store)
    await recycled(store)
    await store.cas_topic(FENCE, TopicRecord(TOPIC, created_ms=50))
    with pytest.raises(MetaConflict, match="exists already"):
        await store.restore(FENCE, TOPIC, BIN, values=VALUES, listed=True)
    new = await store.get_topic(TOPIC)
    assert new is not None and new.created_ms == 50 and await store.get_recycled("0001") is not None
    await store.delete_topic(FENCE, TOPIC)
    await store.cas_partitioned(FENCE, PartitionedRecord(TOPIC, 1))
    with pytest.raises(MetaConflict):
        await store.restore(FENCE, TOPIC, BIN, values=VALUES, listed=True)
    await store.delete_partitioned(FENCE, TOPIC)
    await store.add_schema_version(FENCE, TOPIC, 0, b"other")
    with pytest.raises(MetaConflict, match="was given a schema"):
        await store.restore(FENCE, TOPIC, BIN, values=VALUES, listed=True)
    await store.delete_schema_versions(FENCE, TOPIC)
    await store.restore(FENCE, TOPIC, BIN, values=VALUES, listed=True)
    with pytest.raises(MetaConflict):
        await store.restore(FENCE, TOPIC, BIN, values=VALUES, listed=True)


async def test_a_partitioned_topic_goes_and_comes_in_parts(store: MetaStore) -> None:
    await store.cas_partitioned(FENCE, PartitionedRecord(PARTS, 2, created_ms=5, properties={"a": "b"}))
    partitions = [f"{PARTS}-partition-{index}" for index in range(2)]
    for index, name in enumerate(partitions):
        await made(store, name, ledger_id=10 * (index + 1))
    record = await store.get_partitioned(PARTS)
    assert record is not None
    await store.cas_partitioned(FENCE, replace(record, deleting=True, recycling=OF_PARTS))
    for name in partitions:
        await store.recycle(FENCE, name, OF_PARTS, values=VALUES, listed=False)
    assert await store.list_recycled("acme/orders") == [] and len(await store.unfinished_partitioned()) == 1
    await recycled(store, OF_PARTS)
    shown = replace_counts(OF_PARTS, topics=2, stored_bytes=2048)
    assert await store.list_recycled("acme/orders") == [shown] and await store.count_recycled("acme") == 2
    assert await store.get_partitioned(PARTS) is None and await store.list_partitioned("acme/orders") == []
    assert await store.unfinished_partitioned() == [] and await store.count_partitions("acme") == {}
    assert await store.search("acme", "parts", 10) == ([], [])

    await store.restore(FENCE, PARTS, shown, values=VALUES, listed=True)
    (coming,) = await store.unfinished_partitioned()
    assert (coming.name, coming.restoring, coming.deleting, coming.partitions) == (PARTS, shown, False, 2)
    assert await store.get_recycled("0002") == shown
    for name in partitions:
        await store.restore(FENCE, name, shown, values=VALUES, listed=False)
    done = await store.end_restore(FENCE, PARTS, shown)
    assert await store.get_recycled("0002") is None
    with pytest.raises(MetaConflict):
        await store.end_restore(FENCE, PARTS, shown)
    assert replace(done, version=record.version) == record and await store.unfinished_partitioned() == []
    assert await store.list_topics("acme/orders") == partitions and await store.recycled_places() == []


async def test_what_is_being_purged_cannot_be_restored(store: MetaStore) -> None:
    await made(store)
    await recycled(store)
    await store.begin_purge(FENCE, "0001")
    await store.begin_purge(FENCE, "0001")
    assert await store.list_recycled("acme/orders") == []
    with pytest.raises(MetaConflict):
        await store.restore(FENCE, TOPIC, BIN, values=VALUES, listed=True)
    (purged,) = await store.expired_recycled(0, 10)
    assert purged.purging and purged.recycle_id == "0001"
    await store.delete_topic(FENCE, BIN.place_of(TOPIC), values=[key(BIN.place_of(TOPIC)) for key in VALUES])
    await store.forget_recycled(FENCE, purged)
    await store.forget_recycled(FENCE, purged)
    assert await store.get_recycled("0001") is None and await store.referenced_ledgers() == ([], None)
    with pytest.raises(MetaConflict):
        await store.begin_purge(FENCE, "0001")


async def test_the_bin_is_listed_in_pages_and_by_time(store: MetaStore) -> None:
    for number in range(5):
        name = f"{TOPIC}-{number}"
        await store.cas_topic(FENCE, TopicRecord(name))
        await recycled(store, RecycledTopic(f"{number:04}", name, deleted_ms=number, expires_ms=100 - number))
    assert [each.recycle_id for each in await store.list_recycled("acme/orders", limit=2)] == ["0000", "0001"]
    assert [each.recycle_id for each in await store.list_recycled("acme/orders", after="0001", limit=2)] == ["0002", "0003"]
    assert [each.recycle_id for each in await store.expired_recycled(98, 10)] == ["0004", "0003", "0002"]
    assert [each.recycle_id for each in await store.expired_recycled(98, 1)] == ["0004"]


def replace_counts(record: RecycledTopic, *, topics: int, stored_bytes: int) -> RecycledTopic:
    return structs.replace(record, topics=topics, stored_bytes=stored_bytes)
