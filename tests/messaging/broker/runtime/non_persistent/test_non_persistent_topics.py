"""Non-persistent topics: where they exist, how long, and what applies to them."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.topics import StatsAsked, TopicCreate, TopicPropertiesChange, TopicRef, TopicsPageAsked
from messaging.broker.runtime.broker_metrics import broker_samples
from messaging.broker.runtime.non_persistent_topics import NonPersistentTopics
from messaging.errors import NotAcceptable
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.virtual_broker import TOPIC as STORED
from tests.support.brokers.virtual_broker import VirtualWorld, virtually
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.clock import Clock, give
from tests.support.non_persistent import NAME, TOPIC, both, ids
from tests.support.policies import set_policies
from tests.support.unused_topic import upkeep
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

C = pb.Command


# --- where they exist, and how long


async def test_it_exists_while_it_is_loaded(world: BrokerWorld) -> None:
    producer, _ = await both(world)
    assert await world.meta.list_all_topics() == [] and await world.meta.subscriptions(TOPIC) == []
    await world.service.topics.unload(NAME)
    await producer.expect("CLOSE_PRODUCER")
    assert not await world.service.topics.exists(NAME)
    assert world.service.topics.unstored_names("acme/orders") == []


async def test_after_a_restart_nothing_of_it_is_left(world: BrokerWorld, make_world: MakeWorld) -> None:
    before = {one.ledger_id for one in await world.ledgers.ledgers()}
    producer, _ = await both(world)
    producer.write(send_frame(0, b"a"))
    await producer.expect("SEND_RECEIPT")
    assert {one.ledger_id for one in await world.ledgers.ledgers()} == before
    again = await make_world(after=world)
    assert again.service.topics.unstored_names("acme/orders") == [] and await again.meta.list_all_topics() == []
    client = await again.connected("owner")
    await client.subscribe(TOPIC, permits=10)
    assert await client.quiet() == []


async def test_a_topic_that_nobody_uses_ends(world: BrokerWorld) -> None:
    clock, topics = looked_at(world)
    producer, consumer = await both(world)
    await topics.look()
    clock.pass_(120_000)
    await topics.look()
    assert world.service.topics.unstored_names("acme/orders") == [TOPIC]
    await producer.close()
    clock.pass_(120_000)
    await topics.look()
    assert world.service.topics.unstored_names("acme/orders") == [TOPIC]  # for its consumer
    await unsubscribed(consumer)
    clock.pass_(59_999)
    await topics.look()
    assert world.service.topics.unstored_names("acme/orders") == [TOPIC]
    clock.pass_(1)
    await topics.look()
    assert world.service.topics.unstored_names("acme/orders") == []
    await topics.look()
    assert len(topics) == 0


@pytest.mark.parametrize("after_s", [5, 3600])
async def test_policies_say_how_long_nobody_may_use_it(world: BrokerWorld, after_s: int) -> None:
    clock, topics = looked_at(world)
    await set_policies(world, inactive_topic_delete=True, inactive_topic_after_s=after_s)
    client = await world.connected("owner")
    await client.subscribe(TOPIC)
    await topics.look()
    await unsubscribed(client)
    clock.pass_(after_s * 1000 - 1)
    await topics.look()
    assert world.service.topics.unstored_names("acme/orders") == [TOPIC]
    clock.pass_(1)
    await topics.look()
    assert world.service.topics.unstored_names("acme/orders") == []


def looked_at(world: BrokerWorld) -> tuple[Clock, NonPersistentTopics]:
    """Topics that are loaded from now on, by a clock of their own."""
    clock = Clock()
    topics = NonPersistentTopics(clock, world.service.policies.value, world.service.topics.unload)
    world.service.topics.on_loaded.append(topics.add)
    return clock, topics


async def unsubscribed(client: RawClient) -> None:
    client.say(C.CLOSE_CONSUMER, consumer_id=1)
    await client.expect("SUCCESS")


async def test_lists_have_them_where_they_are_asked_for(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    stored = "persistent://acme/orders/t"
    await client.producer(TOPIC, 1)
    await client.producer(stored, 2)
    modes = pb.GetTopicsOfNamespace
    for mode, wanted in ((modes.PERSISTENT, [stored]), (modes.NON_PERSISTENT, [TOPIC]), (modes.ALL, [stored, TOPIC])):
        for pattern in (None, "", "acme/orders/.*", "non-persistent://acme/orders/t"):
            given = {} if pattern is None else {"topics_pattern": pattern}
            client.say(C.GET_TOPICS_OF_NAMESPACE, namespace="acme/orders", mode=mode, **given)
            answer = await client.expect("GET_TOPICS_OF_NAMESPACE_RESPONSE")
            assert (list(answer.topics), answer.filtered) == ([] if pattern == "" else wanted, pattern is not None)


async def test_watches_of_topic_lists_are_of_persistent_topics(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    client.say(C.WATCH_TOPIC_LIST, namespace="acme/orders", watcher_id=1, topics_pattern="acme/orders/.*")
    await client.expect("WATCH_TOPIC_LIST_SUCCESS")
    await client.producer(TOPIC, 1)
    await client.producer("persistent://acme/orders/t", 2)
    update = await client.expect("WATCH_TOPIC_UPDATE")
    assert list(update.new_topics) == ["persistent://acme/orders/t"]


async def test_partitions_that_nobody_uses_are_deleted_where_policies_say_so(make_world: MakeWorld) -> None:
    world = await make_world(delete_inactive_partitioned_topics=True)
    clock = Clock()
    give(world.service, clock)
    base = parse_topic("non-persistent://acme/orders/p")
    await world.service.topics.partitioned.create(base, 2, {})
    first, second = (str(base.of_partition(index)) for index in range(2))
    client = await world.connected("owner")
    await client.subscribe(first, permits=10)
    await client.producer(second)
    await set_policies(world, inactive_topic_delete=True, inactive_topic_after_s=300)
    clock.pass_(600_000)
    assert (await upkeep(world, first, second)).deleted_topics == 0, "they are in use"
    await client.close()
    for name in (first, second):
        await world.service.topics.unload(parse_topic(name))
    clock.pass_(299_999)
    assert (await upkeep(world, first, second)).deleted_topics == 0
    clock.pass_(1)
    await set_policies(world)
    assert (await upkeep(world, first, second)).deleted_topics == 0
    await set_policies(world, inactive_topic_delete=True, inactive_topic_after_s=300)
    assert (await upkeep(world, first)).deleted_topics == 1
    assert (await world.service.topics.partitioned.get(base)) is not None
    assert (await upkeep(world, second)).deleted_topics == 1
    assert await world.meta.list_all_topics() == [] and await world.service.topics.partitioned.get(base) is None


async def test_a_partition_takes_properties_and_a_topic_of_which_nothing_is_stored_does_not(world: BrokerWorld) -> None:
    base = parse_topic("non-persistent://acme/orders/many")
    await world.service.topics.partitioned.create(base, 1, {})
    partition = str(base.of_partition(0))
    await world.service.topics.get(parse_topic(partition), create=True)
    changed = await world.admin.topics.change_properties(TopicPropertiesChange(topic=partition, properties={"a": "1"}))
    assert changed.properties == (await world.admin.topics.properties(TopicRef(topic=partition))).properties == {"a": "1"}
    await both(world)
    with pytest.raises(NotAcceptable):
        await world.admin.topics.change_properties(TopicPropertiesChange(topic=TOPIC, properties={"a": "1"}))


async def test_partitions(world: BrokerWorld) -> None:
    base = parse_topic("non-persistent://acme/orders/p")
    await world.service.topics.partitioned.create(base, 2, {})
    client = await world.connected("owner")
    client.say(C.PARTITIONED_METADATA, topic=str(base))
    assert (await client.expect("PARTITIONED_METADATA_RESPONSE")).partitions == 2
    await client.subscribe(f"{base}-partition-1", permits=10)
    await client.producer(f"{base}-partition-1")
    client.write(send_frame(0, b"a"))
    await client.expect("SEND_RECEIPT")
    assert ids(await client.messages(1)) == [(0, 0, 1)]
    assert world.service.topics.unstored_names("acme/orders") == [f"{base}-partition-1"]
    client.say(C.PRODUCER, topic=f"{base}-partition-2", producer_id=9)
    assert (await client.expect("ERROR")).error == pb.TopicNotFound
    assert await world.service.topic_names("acme/orders") == []
    await world.service.topics.partitioned.grow(base, 3)
    await client.producer(f"{base}-partition-2", producer_id=9)
    await world.service.topics.partitioned.delete(base, force=True)
    assert world.service.topics.unstored_names("acme/orders") == [] and await world.meta.list_all_topics() == []


# --- what applies to them


async def test_settings_turn_them_off(make_world: MakeWorld) -> None:
    world = await make_world(enable_non_persistent_topics=False)
    client = await world.connected("owner")
    for kind, fields in ((C.PRODUCER, {"producer_id": 1}), (C.SUBSCRIBE, {"consumer_id": 1, "subscription": "s", "sub_type": 0})):
        client.say(kind, topic=TOPIC, **fields)
        error = await client.expect("ERROR")
        assert error.error == pb.NotAllowedError and "enable_non_persistent_topics" in error.message
    await client.producer("persistent://acme/orders/t")


async def test_settings_turn_persistent_ones_off(make_world: MakeWorld) -> None:
    world = await make_world(enable_persistent_topics=False)
    client = await world.connected("owner")
    client.say(C.PRODUCER, topic="persistent://acme/orders/t", producer_id=1)
    error = await client.expect("ERROR")
    assert error.error == pb.NotAllowedError and "enable_persistent_topics" in error.message
    await client.producer(TOPIC)
    await world.sessions.round_trip()  # the broker's own topic


async def test_limits_on_producers_consumers_and_subscriptions(world: BrokerWorld) -> None:
    limits = {"max_producers_per_topic": 1, "max_consumers_per_topic": 3, "max_subscriptions_per_topic": 2}
    await world.feed(("namespace", "acme/orders", {"policies": limits}))
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.say(C.PRODUCER, topic=TOPIC, producer_id=2)
    assert (await client.expect("ERROR")).error == pb.ProducerBusy
    await client.subscribe(TOPIC, "a", 1)
    await client.subscribe(TOPIC, "b", 2)
    client.say(C.SUBSCRIBE, topic=TOPIC, subscription="c", consumer_id=3, sub_type=pb.Subscribe.Shared)
    assert (await client.expect("ERROR")).error == pb.NotAllowedError
    await client.subscribe(TOPIC, "b", 4)
    client.say(C.SUBSCRIBE, topic=TOPIC, subscription="b", consumer_id=5, sub_type=pb.Subscribe.Shared)
    assert (await client.expect("ERROR")).error == pb.ConsumerBusy


async def test_they_count_as_topics(make_world: MakeWorld) -> None:
    world = await make_world(topics_per_namespace_max=2)
    client = await world.connected("owner")
    await client.producer("persistent://acme/orders/a", 1)
    await client.producer(TOPIC, 2)
    client.say(C.PRODUCER, topic=f"{TOPIC}2", producer_id=3)
    assert (await client.expect("ERROR")).error == pb.NotAllowedError
    client.say(C.PRODUCER, topic="persistent://acme/orders/b", producer_id=4)
    assert (await client.expect("ERROR")).error == pb.NotAllowedError
    await world.service.topics.unload(NAME)
    await client.expect("CLOSE_PRODUCER")
    await client.producer("persistent://acme/orders/b", 5)


async def test_they_are_not_made_where_first_use_makes_no_topics(world: BrokerWorld) -> None:
    client = await world.connected("superuser")
    client.say(C.PRODUCER, topic="non-persistent://acme/strict/t", producer_id=1)
    assert (await client.expect("ERROR")).error == pb.TopicNotFound


@pytest.mark.parametrize(
    ("key", "kind", "fields"),
    [
        ("reader", C.PRODUCER, {"producer_id": 1}),
        ("stranger", C.PRODUCER, {"producer_id": 1}),
        ("writer", C.SUBSCRIBE, {"consumer_id": 1, "subscription": "s", "sub_type": 1}),
        ("stranger", C.SUBSCRIBE, {"consumer_id": 1, "subscription": "s", "sub_type": 1}),
        ("stranger", C.LOOKUP, {}),
        ("stranger", C.PARTITIONED_METADATA, {}),
    ],
)
async def test_permissions_are_those_of_the_namespace(world: BrokerWorld, key: str, kind: Any, fields: dict[str, Any]) -> None:
    client = await world.connected(key)
    client.say(kind, topic=TOPIC, **fields)
    answer = await client.next()
    assert answer.body.error == pb.AuthorizationError
    assert world.service.topics.unstored_names("acme/orders") == []


async def test_what_was_dropped_is_counted_for_the_topic_when_its_subscriptions_have_ended(world: BrokerWorld) -> None:
    producer, consumer = await both(world, permits=0)
    producer.write(send_frame(0, b"a"), send_frame(1, b"b"))
    await producer.expect("SEND_RECEIPT")
    await producer.expect("SEND_RECEIPT")
    consumer.say(C.CLOSE_CONSUMER, consumer_id=1)
    await consumer.expect("SUCCESS")
    stats = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats
    assert (stats["msgDropCounter"], stats["subscriptions"]) == (2, {})
    samples = {one.name: one.value for one in broker_samples(world.service, private=True)}
    assert samples["magnetar_topic_messages_dropped_total"] == 2


async def test_usage_counts_what_goes_through(world: BrokerWorld) -> None:
    producer, consumer = await both(world)
    producer.write(send_frame(0, b"abc"))
    await consumer.messages(1)
    (totals,) = [one for one in world.service.metering.usage_totals(world.service.topics) if one.topic == TOPIC]
    assert (totals.messages_in, totals.messages_out, totals.stored_bytes, totals.backlog_entries) == (1, 1, 0, 0)
    assert totals.bytes_in > 3 and totals.bytes_out > 3


@virtually()
async def test_publish_rates_hold_producers_back(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=100)
    topic = STORED.replace("persistent://", "non-persistent://")
    consumer, client = world.client(), await world.producing(topic)
    await consumer.subscribe(topic)
    consumer.flow(10_000)
    client.publish(0, 1500)
    await world.pass_s(10)
    consumer.read()
    assert consumer.messages[1] == client.stored() == pytest.approx(1000, rel=0.02)
    await world.pass_s(10)
    consumer.read()
    assert consumer.messages[1] == client.stored() == 1500  # what waits is not dropped
    assert client.receipts[1] == list(range(1500))


async def test_pages_of_topics_have_those_that_are_loaded(world: BrokerWorld) -> None:
    """By name, so before persistent ones; a partition is in its topic, unless it is only called like one."""
    at = "non-persistent://acme/orders/"
    await world.admin.topics.create(TopicCreate(topic=f"{at}wide", partitions=2))
    client = await world.connected("owner")
    for index, name in enumerate(("b", "lone-partition-1", "wide-partition-1", "wide-partition-x"), 1):
        await client.producer(f"{at}{name}", producer_id=index)
    for name in ("p", "__change_events"):
        await world.admin.topics.create(TopicCreate(topic=f"persistent://acme/orders/{name}"))
    listed = {"b": 0, "lone-partition-1": 0, "wide": 2, "wide-partition-x": 0}
    expected = [*((f"{at}{name}", partitions) for name, partitions in listed.items()), ("persistent://acme/orders/p", 0)]
    for limit in (1, 2, 10):
        rows, after, pages = [], "", 0
        while pages == 0 or after:
            page = await world.admin.namespaces.page_of_topics(TopicsPageAsked(namespace="acme/orders", after=after, limit=limit))
            assert 0 < len(page.topics) <= limit
            rows += [(row.topic, row.partitions) for row in page.topics]
            after, pages = page.next, pages + 1
        assert rows == expected
