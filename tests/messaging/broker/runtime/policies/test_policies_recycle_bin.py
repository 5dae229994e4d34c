"""Deleted topics can be restored whole for as long as the policy says, and are gone after that."""

from __future__ import annotations

import asyncio

import pytest

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.adminrpc.recycle_bin import RecycleBinExpire, RecycleBinList
from messaging.adminrpc.schemas import SchemaGet, SchemaGiven
from messaging.adminrpc.topics import StatsAsked, TopicCreate, TopicDelete, TopicPropertiesChange, TopicRef, TopicsList
from messaging.broker.runtime.metering.stored import stored_bytes_of
from messaging.errors import Conflict, NotFound, PreconditionFailed, TopicNotFound
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from messaging.storage.managed.orphans import collect_orphans
from tests.support.brokers.storage_broker import publish
from tests.support.clock import Clock, give
from tests.support.policies import TENANT, set_policies
from tests.support.recycling import LEFT, NAMESPACE, PARTITIONS, PARTS, TOPIC, deleted, in_bin, left, named, used
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

HOUR_MS = 3_600_000


async def ledgers_of_acme(world: BrokerWorld) -> list[int]:
    return sorted(info.ledger_id for info in await world.ledgers.ledgers() if info.properties.get("tenant") == "acme")


@pytest.mark.parametrize("loaded", [True, False])
async def test_policy_recycle_bin_retention_hours_keeps_deleted_topics(world: BrokerWorld, loaded: bool) -> None:
    clock = Clock()
    give(world.service, clock)
    await set_policies(world, recycle_bin_retention_hours=2)
    await used(world)
    if not loaded:
        await world.service.topics.unload(parse_topic(TOPIC))
    recycle_id = await deleted(world)
    names = await world.admin.namespaces.list_topics(TopicsList(namespace=NAMESPACE))
    assert (names.topics, names.partitioned) == ([], {}), "as if it had been deleted for good"
    with pytest.raises(TopicNotFound):
        await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))
    (item,) = await in_bin(world)
    assert (item.recycle_id, item.topic, item.deleted_by, item.partitions) == (recycle_id, TOPIC, "user:olga", 0)
    assert item.expires_ms - item.deleted_ms == 2 * HOUR_MS and item.stored_bytes > 0
    clock.pass_(2 * HOUR_MS - 1)
    assert (await world.admin.recycle_bin.expire(RecycleBinExpire())).purged == 0
    await world.admin.recycle_bin.restore(named(recycle_id))
    assert await left(world) == LEFT and await in_bin(world) == []

    recycle_id = await deleted(world)
    clock.pass_(2 * HOUR_MS)
    done = await world.admin.recycle_bin.expire(RecycleBinExpire())
    assert (done.purged, done.failed) == (1, {}) and await in_bin(world) == []
    with pytest.raises(NotFound):
        await world.admin.recycle_bin.restore(named(recycle_id))
    assert await ledgers_of_acme(world) == [] and await world.meta.recycled_places() == []

    await set_policies(world)
    await used(world)
    assert await deleted(world) == "" and await in_bin(world) == [], "by default topics are deleted at once"
    assert await ledgers_of_acme(world) == []


async def test_everything_of_a_topic_comes_back(world: BrokerWorld) -> None:
    await set_policies(world, recycle_bin_retention_hours=1, deduplication=True, schema_compatibility_strategy="ALWAYS_COMPATIBLE")
    await used(world)
    await world.admin.schemas.add(SchemaGiven(topic=TOPIC, type="STRING"))
    await world.admin.topics.change_properties(TopicPropertiesChange(topic=TOPIC, properties={"team": "pay"}))
    before = await world.admin.topic_stats.internal_info(TopicRef(topic=TOPIC))
    recycle_id = await deleted(world)
    assert await world.service.topics.created_ms(parse_topic(TOPIC)) is None
    await world.admin.recycle_bin.restore(named(recycle_id))
    properties = await world.admin.topics.properties(TopicRef(topic=TOPIC))
    assert properties.properties == {"team": "pay"}
    assert [version.type for version in (await world.admin.schemas.get(SchemaGet(topic=TOPIC))).versions] == ["STRING"]
    after = await world.admin.topic_stats.internal_info(TopicRef(topic=TOPIC))
    ids = [ledger["ledgerId"] for ledger in before.stats["ledgers"]]
    assert ids and [ledger["ledgerId"] for ledger in after.stats["ledgers"]][: len(ids)] == ids
    await publish(world.service, 0, 8)  # of which six are duplicates
    assert await left(world, expected=5) == [*LEFT, b"6", b"7"]


async def test_a_topic_of_its_name_is_a_new_one_and_is_never_overwritten(world: BrokerWorld) -> None:
    await set_policies(world, recycle_bin_retention_hours=1)
    await used(world)
    recycle_id = await deleted(world)
    await used(world, messages=1, acknowledged=())
    with pytest.raises(Conflict, match="exists already"):
        await world.admin.recycle_bin.restore(named(recycle_id))
    assert await left(world, expected=1) == [b"0"]
    newer = await deleted(world)
    assert [item.recycle_id for item in await in_bin(world)] == [recycle_id, newer]
    await world.admin.recycle_bin.restore(named(recycle_id))
    await world.admin.recycle_bin.purge(named(newer))
    assert await left(world) == LEFT and await in_bin(world) == []


async def test_a_partitioned_topic_comes_back_with_its_partitions(world: BrokerWorld) -> None:
    await set_policies(world, recycle_bin_retention_hours=1)
    await world.admin.topics.create(TopicCreate(topic=PARTS, partitions=2, properties={"team": "pay"}))
    for partition in PARTITIONS:
        await used(world, partition)
    await world.admin.schemas.add(SchemaGiven(topic=PARTS, type="STRING"))
    recycle_id = await deleted(world, PARTS, partitioned=True)
    (item,) = await in_bin(world)
    assert (item.topic, item.partitions) == (PARTS, 2) and item.stored_bytes > 0
    assert await world.meta.list_all_topics() == [] and await world.meta.list_partitioned(NAMESPACE) == []
    await world.admin.topics.create(TopicCreate(topic=PARTS, partitions=3))
    with pytest.raises(Conflict):
        await world.admin.recycle_bin.restore(named(recycle_id))
    await world.admin.topics.delete(TopicDelete(topic=PARTS, partitioned=True))
    await world.admin.recycle_bin.restore(named(recycle_id))
    assert await world.service.partition_count(parse_topic(PARTS), auto_create=False) == 2
    for partition in PARTITIONS:
        assert await left(world, partition) == LEFT
    assert (await world.admin.topics.properties(TopicRef(topic=PARTS))).properties == {"team": "pay"}
    assert [version.type for version in (await world.admin.schemas.get(SchemaGet(topic=PARTS))).versions] == ["STRING"]
    assert await in_bin(world) == [] and await world.meta.recycled_places() == []


async def test_a_partition_comes_back_to_its_topic_only(world: BrokerWorld) -> None:
    await set_policies(world, recycle_bin_retention_hours=1)
    await world.admin.topics.create(TopicCreate(topic=PARTS, partitions=2))
    await used(world, PARTITIONS[1])
    recycle_id = await deleted(world, PARTITIONS[1])
    whole = await deleted(world, PARTS, partitioned=True)
    with pytest.raises(PreconditionFailed, match="restore that first"):
        await world.admin.recycle_bin.restore(named(recycle_id))
    await world.admin.recycle_bin.restore(named(whole))
    await world.admin.recycle_bin.restore(named(recycle_id))
    assert await left(world, PARTITIONS[1]) == LEFT


async def test_the_bin_outlives_the_broker_and_its_ledgers_are_no_orphans(world: BrokerWorld, make_world: MakeWorld) -> None:
    await set_policies(world, recycle_bin_retention_hours=1)
    await used(world)
    await world.admin.topics.create(TopicCreate(topic=PARTS, partitions=2))
    await used(world, PARTITIONS[0])
    plain, parts = await deleted(world), await deleted(world, PARTS, partitioned=True)
    before = await ledgers_of_acme(world)
    again = await make_world(after=world)
    assert (await collect_orphans(again.service.storage)).length_bytes == 0
    assert await ledgers_of_acme(again) == before
    await again.admin.recycle_bin.restore(named(plain))
    await again.admin.recycle_bin.restore(named(parts))
    assert await left(again) == LEFT and await left(again, PARTITIONS[0]) == LEFT


async def test_cursors_that_are_only_in_the_cursor_log_come_back(world: BrokerWorld, make_world: MakeWorld) -> None:
    """The topic is not loaded after the crash: nobody else has applied what was acknowledged last."""
    await used(world)
    again = await make_world(after=world)
    await set_policies(again, recycle_bin_retention_hours=1)
    recycle_id = await deleted(again)
    await again.service.cursors.checkpoint()
    await again.admin.recycle_bin.restore(named(recycle_id))
    assert await left(again) == LEFT


async def test_what_lies_in_the_bin_counts_as_stored_until_it_is_purged(world: BrokerWorld) -> None:
    await set_policies(world, recycle_bin_retention_hours=1)
    await used(world)

    async def stored() -> int:
        return await stored_bytes_of(world.service.storage, world.service.topics.loaded, "acme")

    before = await stored()
    recycle_id = await deleted(world)
    assert before > 0 and await stored() == before
    await world.admin.recycle_bin.purge(named(recycle_id))
    assert await stored() == 0


async def test_the_bin_of_a_tenant_has_a_limit(make_world: MakeWorld) -> None:
    world = await make_world(recycle_bin_topics_per_tenant_max=2)
    await set_policies(world, recycle_bin_retention_hours=1)
    await world.admin.topics.create(TopicCreate(topic=PARTS, partitions=2))
    await world.admin.topics.create(TopicCreate(topic=TOPIC))
    recycle_id = await deleted(world, PARTS, partitioned=True)
    with pytest.raises(PreconditionFailed, match="recycle_bin_topics_per_tenant_max = 2"):
        await deleted(world)
    assert await world.meta.get_topic(TOPIC) is not None
    await world.admin.recycle_bin.purge(named(recycle_id))
    assert await deleted(world) != ""


async def test_deletions_at_the_same_time_do_not_have_the_same_room(make_world: MakeWorld) -> None:
    world = await make_world(recycle_bin_topics_per_tenant_max=2)
    await set_policies(world, recycle_bin_retention_hours=1)
    topics = [f"{TOPIC}-{index}" for index in range(6)]
    for topic in topics:
        await world.admin.topics.create(TopicCreate(topic=topic))
    answers = await asyncio.gather(*map(deleted, [world] * 6, topics), return_exceptions=True)
    assert sum(isinstance(answer, PreconditionFailed) for answer in answers) == 4
    assert len(await in_bin(world)) == await world.meta.count_recycled("acme") == 2


async def test_limits_of_topics_hold_for_those_that_come_back(world: BrokerWorld) -> None:
    await set_policies(world, recycle_bin_retention_hours=1, max_topics_per_namespace=1)
    await world.admin.topics.create(TopicCreate(topic=TOPIC))
    recycle_id = await deleted(world)
    await world.admin.topics.create(TopicCreate(topic=f"{TOPIC}2"))
    with pytest.raises(PreconditionFailed, match="max_topics_per_namespace"):
        await world.admin.recycle_bin.restore(named(recycle_id))
    assert len(await in_bin(world)) == 1


@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize(("ceiling", "limit"), [("max_subscriptions_per_tenant", 2), ("max_schemas_per_tenant", 1)])
async def test_ceilings_hold_for_what_comes_back(world: BrokerWorld, ceiling: str, limit: int, partitioned: bool) -> None:
    """Else a tenant has as many as it likes, by putting some in the bin while it makes others."""
    bin_and_ceiling = {"recycle_bin_retention_hours": 1, ceiling: limit}
    await world.feed(("tenant", "acme", {**TENANT, "policies": bin_and_ceiling}))
    topics = [PARTS, f"{PARTS}2"] if partitioned else [TOPIC, f"{TOPIC}2"]
    ids = []
    for topic in topics:
        await world.admin.topics.create(TopicCreate(topic=topic, partitions=2 if partitioned else None))
        made = [(f"{topic}-partition-0", "s"), (f"{topic}-partition-1", "s")] if partitioned else [(topic, "s"), (topic, "r")]
        for part, subscription in made:
            loaded = await world.service.topics.get_persistent(parse_topic(part), create=False)
            await loaded.subscriptions.create(subscription, EARLIEST)
        await world.admin.schemas.add(SchemaGiven(topic=topic, type="STRING"))
        ids.append(await deleted(world, topic, partitioned=partitioned))
    await world.admin.recycle_bin.restore(named(ids[0]))
    with pytest.raises(PreconditionFailed, match=ceiling):
        await world.admin.recycle_bin.restore(named(ids[1]))
    assert [item.recycle_id for item in await in_bin(world)] == [ids[1]]
    assert await world.service.topics.created_ms(parse_topic(topics[1])) is None
    await world.admin.topics.delete(TopicDelete(topic=topics[0], partitioned=partitioned))
    await world.admin.recycle_bin.restore(named(ids[1]))


async def test_another_namespace_finds_nothing(world: BrokerWorld) -> None:
    await set_policies(world, recycle_bin_retention_hours=1)
    await world.admin.topics.create(TopicCreate(topic=TOPIC))
    recycle_id = await deleted(world)
    for namespace in ("acme/strict", "other/things"):
        asked = named(recycle_id)
        asked.namespace = namespace
        for handler in (world.admin.recycle_bin.get, world.admin.recycle_bin.restore, world.admin.recycle_bin.purge):
            with pytest.raises(NotFound):
                await handler(asked)
        assert (await world.admin.recycle_bin.list(RecycleBinList(namespace=namespace))).items == []


async def test_a_later_namespace_of_its_name_finds_nothing(world: BrokerWorld) -> None:
    await set_policies(world, recycle_bin_retention_hours=1)
    await used(world)
    await deleted(world)
    await world.feed(("namespace", NAMESPACE, None))
    with pytest.raises(NotFound):
        await in_bin(world)
    await world.admin.namespaces.purge(TopicsList(namespace=NAMESPACE))
    await set_policies(world, recycle_bin_retention_hours=1)
    assert await in_bin(world) == [] and await ledgers_of_acme(world) == []


async def test_the_list_has_pages(world: BrokerWorld) -> None:
    await set_policies(world, recycle_bin_retention_hours=1)
    ids = []
    for index in range(3):
        await world.admin.topics.create(TopicCreate(topic=f"{TOPIC}-{index}"))
        ids.append(await deleted(world, f"{TOPIC}-{index}"))
    first = await world.admin.recycle_bin.list(RecycleBinList(namespace=NAMESPACE, limit=2))
    assert [item.recycle_id for item in first.items] == sorted(ids)[:2] and first.next_after == sorted(ids)[1]
    rest = await world.admin.recycle_bin.list(RecycleBinList(namespace=NAMESPACE, limit=2, after_id=first.next_after))
    assert [item.recycle_id for item in rest.items] == sorted(ids)[2:] and rest.next_after == ""


async def test_a_namespace_in_the_bin_keeps_what_its_policies_would_have_removed(world: BrokerWorld) -> None:
    """Its topics are neither expired, trimmed nor deleted meanwhile, also not by what brokers do for what has no namespace."""
    clock = Clock()
    give(world.service, clock)
    await used(world)
    view = world.service.access.view
    state = view.namespaces[NAMESPACE]
    version = view.version

    def tell(kind: str, told: dict[str, object] | None) -> FeedChange:
        nonlocal version
        version += 1
        return FeedChange(version=version, kind=kind, key=NAMESPACE, state=told)

    async def follow(*changes: FeedChange) -> None:
        page = FeedApply(from_version=view.version, to_version=version, changes=list(changes), feed_id=view.feed_id)
        assert (await world.admin.feed.apply(page)).version == version

    await follow(tell("recycled", {"tenant_uid": "u1"}), tell("namespace", None))
    await eventually(lambda: not world.service.topics.loaded_of(NAMESPACE))
    assert view.payer_uid(NAMESPACE) == "u1"
    clock.pass_(1_000 * HOUR_MS)
    run = MaintenanceRun(task_id="run", topics=[TOPIC])
    done = await world.admin.maintenance.run(run)
    assert (done.failed, done.deleted_topics, done.trimmed_ledgers, done.expired_entries) == ({}, 0, 0, 0)
    with pytest.raises(PreconditionFailed):
        await world.admin.namespaces.purge(TopicsList(namespace=NAMESPACE))
    policies = {**state.get("policies", {}), "subscription_expiration_min": 1}
    restored = {**state, "policies": policies, "restored_ms": world.service.now_ms()}
    await follow(tell("namespace", restored), tell("recycled", None))
    assert (await world.admin.maintenance.run(run)).expired_subscriptions == 0, "nobody could use it"
    assert await left(world) == LEFT
    clock.pass_(HOUR_MS)
    assert (await world.admin.maintenance.run(run)).expired_subscriptions == 1
