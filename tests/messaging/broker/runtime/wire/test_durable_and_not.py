"""A durable and a non-durable subscription of one name, side by side."""

from __future__ import annotations

from messaging.adminrpc.subscriptions import SubscriptionDelete, SubscriptionReset
from messaging.adminrpc.topics import StatsAsked, TopicRef
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.consuming import TOPIC, ack, filled, id_of, texts
from tests.support.clients.raw_client import RawClient
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

C = pb.Command


async def both(world: BrokerWorld) -> tuple[RawClient, RawClient]:
    """Their consumers; each has been sent everything."""
    durable, reader = await world.connected("reader"), await world.connected("reader")
    await durable.subscribe(TOPIC, permits=10, sub_type=pb.Subscribe.Shared)
    await reader.subscribe(TOPIC, permits=10, sub_type=pb.Subscribe.Exclusive, durable=False)  # of another type, even
    return durable, reader


async def test_both_get_everything_and_each_acknowledges_for_itself(world: BrokerWorld) -> None:
    await filled(world, 3)
    durable, reader = await both(world)
    mine, its = await durable.messages(3), await reader.messages(3)
    assert texts(mine) == texts(its) == [b"0", b"1", b"2"]
    ack(reader, *(id_of(one) for one in its))
    ack(durable, id_of(mine[0]))
    await reader.quiet(), await durable.quiet()
    await durable.close()
    again = await world.connected("reader")
    await again.subscribe(TOPIC, permits=10)
    assert texts(await again.messages(2)) == [b"1", b"2"]


async def test_the_end_of_one_is_not_the_end_of_the_other(world: BrokerWorld) -> None:
    await filled(world, 1)
    durable, reader = await both(world)
    await durable.messages(1), await reader.messages(1)
    durable.say(C.UNSUBSCRIBE, consumer_id=1)
    await durable.expect("SUCCESS")
    assert await reader.quiet() == []
    await durable.subscribe(TOPIC, permits=10)
    await durable.messages(1)
    await reader.close()
    assert await durable.quiet() == []
    assert [one.name for one in await world.meta.subscriptions(TOPIC)] == ["s"]


async def test_seeking_one_leaves_the_other_where_it_is(world: BrokerWorld) -> None:
    await filled(world, 2)
    durable, reader = await both(world)
    found = await reader.messages(2)
    await durable.messages(2)
    reader.say(C.SEEK, consumer_id=1, message_id=id_of(found[0]))
    await reader.expect("CLOSE_CONSUMER")
    await reader.expect("SUCCESS")
    assert await durable.quiet() == []
    await reader.subscribe(TOPIC, permits=10, sub_type=pb.Subscribe.Exclusive, durable=False)
    assert texts(await reader.messages(2)) == [b"0", b"1"]


async def test_administrators_mean_the_durable_one_and_see_both(world: BrokerWorld) -> None:
    await filled(world, 2)
    durable, reader = await both(world)
    await durable.messages(2), await reader.messages(2)
    stats = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats
    assert {name: one["durable"] for name, one in stats["subscriptions"].items()} == {"s": True, "s (non-durable)": False}
    assert (await world.admin.subscriptions.list_names(TopicRef(topic=TOPIC))).subscriptions == ["s"]
    await world.admin.subscriptions.reset(SubscriptionReset(topic=TOPIC, subscription="s", timestamp_ms=1))
    await durable.expect("CLOSE_CONSUMER")
    await world.admin.subscriptions.delete(SubscriptionDelete(topic=TOPIC, subscription="s", force=True))
    assert await reader.quiet() == []
    stats = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats
    assert list(stats["subscriptions"]) == ["s"], "nobody else has the name now"
    await world.admin.subscriptions.delete(SubscriptionDelete(topic=TOPIC, subscription="s", force=True))
    assert (await reader.expect("CLOSE_CONSUMER")).consumer_id == 1


async def test_only_the_durable_one_survives(make_world: MakeWorld) -> None:
    world = await make_world()
    await filled(world, 2)
    durable, _ = await both(world)
    ack(durable, id_of((await durable.messages(2))[0]), request_id=7)
    await durable.expect("ACK_RESPONSE")
    after = await make_world(after=world)
    client = await after.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    assert texts(await client.messages(1)) == [b"1"]
    await client.subscribe(TOPIC, consumer_id=2, permits=10, durable=False, initial_position=pb.Subscribe.Latest)
    assert await client.quiet() == []
