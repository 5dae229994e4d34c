"""Versions of schemas, on each implementation of MetaStore."""

from __future__ import annotations

import asyncio

import pytest

from messaging.storage.meta_store import MetaConflict, MetaStore, PartitionedRecord, TopicRecord
from tests.support.storage.owning import FENCE

TOPIC = "persistent://acme/orders/in"


async def test_versions_come_back_in_order_after_a_restart(store: MetaStore) -> None:
    for version in range(12):
        await store.add_schema_version(FENCE, TOPIC, version, b"%d" % version)
    await store.stop()
    await store.start()
    assert await store.schema_versions(TOPIC) == [b"%d" % version for version in range(12)]
    assert await store.schema_versions(f"{TOPIC}2") == []


async def test_a_version_is_read_without_the_others(store: MetaStore) -> None:
    for version in range(3):
        await store.add_schema_version(FENCE, TOPIC, version, b"x" * version)
    assert await store.schema_version_sizes(TOPIC) == [0, 1, 2]
    assert await store.schema_version_sizes(f"{TOPIC}2") == []
    assert [await store.schema_version(TOPIC, version) for version in (2, 3, -1)] == [b"xx", None, None]


async def test_only_the_next_version_is_stored(store: MetaStore) -> None:
    await store.add_schema_version(FENCE, TOPIC, 0, b"a")
    outcomes = await asyncio.gather(
        *(store.add_schema_version(FENCE, TOPIC, version, b"b") for version in (0, 2, 1, 1)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [MetaConflict, MetaConflict, type(None), MetaConflict]
    assert await store.schema_versions(TOPIC) == [b"a", b"b"]


async def test_names_with_schemas_are_listed_by_namespace(store: MetaStore) -> None:
    for name in ("persistent://acme/orders/b", "persistent://acme/orders/a", "persistent://acme/orders2/c"):
        for version in range(2):
            await store.add_schema_version(FENCE, name, version, b"")
    assert await store.topics_with_schemas("acme/orders") == ["persistent://acme/orders/a", "persistent://acme/orders/b"]
    await store.delete_schema_versions(FENCE, "persistent://acme/orders/a")
    assert await store.topics_with_schemas("acme/orders") == ["persistent://acme/orders/b"]


@pytest.mark.parametrize("partitioned", [False, True])
async def test_a_schema_goes_with_its_topic(store: MetaStore, partitioned: bool) -> None:
    if partitioned:
        await store.cas_partitioned(FENCE, PartitionedRecord(TOPIC, 2))
    else:
        await store.cas_topic(FENCE, TopicRecord(TOPIC))
    await store.add_schema_version(FENCE, TOPIC, 0, b"a")
    if partitioned:
        await store.delete_topic(FENCE, f"{TOPIC}-partition-0")
        assert await store.schema_versions(TOPIC) == [b"a"], "not with one of its partitions"
        await store.delete_partitioned(FENCE, TOPIC)
    else:
        await store.delete_topic(FENCE, TOPIC)
    assert await store.schema_versions(TOPIC) == []
    await store.add_schema_version(FENCE, TOPIC, 0, b"b")
