"""Properties of subscriptions: given with the first SUBSCRIBE, or by administrators; durable."""

from __future__ import annotations

from messaging.adminrpc.schema import SubscriptionPropertiesSet, SubscriptionRef, TopicRef
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.broker_world import BrokerWorld, MakeWorld
from tests.support.consuming import TOPIC
from tests.support.raw_client import RawClient


def pairs(**properties: str) -> list[pb.KeyValue]:
    return [pb.KeyValue(key=key, value=value) for key, value in properties.items()]


async def shown(world: BrokerWorld, topic: str = TOPIC) -> dict[str, str]:
    answer = await world.admin.subscriptions.properties(SubscriptionRef(topic=topic, subscription="s"))
    return answer.properties


async def client_of(world: BrokerWorld, **properties: str) -> RawClient:
    client = await world.connected("reader")
    await client.subscribe(TOPIC, subscription_properties=pairs(**properties))
    return client


async def test_the_first_properties_stay_until_they_are_replaced(make_world: MakeWorld) -> None:
    """As a Pulsar 4.0.8 broker answered."""
    world = await make_world()
    await client_of(world)
    await client_of(world, a="1")
    assert await shown(world) == {"a": "1"}, "there were none before"
    await client_of(world, a="2", b="3")
    await client_of(world)
    assert await shown(world) == {"a": "1"}
    after = await make_world(after=world)
    await client_of(after, c="4")
    assert await shown(after) == {"a": "1"}
    await after.admin.subscriptions.set_properties(SubscriptionPropertiesSet(topic=TOPIC, subscription="s", properties={"x": "y"}))
    stats = (await after.admin.topic_stats.stats(TopicRef(topic=TOPIC))).stats
    assert stats["subscriptions"]["s"]["subscriptionProperties"] == {"x": "y"}
    last = await make_world(after=after)
    await client_of(last)
    assert await shown(last) == {"x": "y"}


async def test_of_a_partitioned_topic_every_partition_has_them(world: BrokerWorld) -> None:
    name = parse_topic("persistent://acme/orders/p")
    await world.service.topics.partitioned.create(name, 2, {})
    client = await world.connected("owner")
    for index in range(2):
        await client.subscribe(str(name.of_partition(index)), consumer_id=index)
    await world.admin.subscriptions.set_properties(
        SubscriptionPropertiesSet(topic=str(name), subscription="s", properties={"a": "b"})
    )
    assert [await shown(world, str(name.of_partition(index))) for index in range(2)] == [{"a": "b"}] * 2
    await world.service.topics.partitioned.grow(name, 3)
    assert await shown(world, str(name.of_partition(2))) == {"a": "b"}


async def test_a_reader_has_properties_while_it_lives(world: BrokerWorld) -> None:
    client = await world.connected("reader")
    await client.subscribe(TOPIC, durable=False, sub_type=pb.Subscribe.Exclusive)
    await world.admin.subscriptions.set_properties(SubscriptionPropertiesSet(topic=TOPIC, subscription="s", properties={"a": "b"}))
    assert await shown(world) == {"a": "b"}
    assert await world.meta.subscriptions(TOPIC) == []
