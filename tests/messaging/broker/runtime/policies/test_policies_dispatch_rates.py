"""What dispatch rates do, exactly: in virtual time; see `test_policies.py`."""

from __future__ import annotations

import pytest

from messaging.broker.core.diagnosis.explain import Reason, explain
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.virtual_broker import TOPIC, VirtualClient, VirtualWorld, virtually

TYPES = [pb.Subscribe.Exclusive, pb.Subscribe.Shared, pb.Subscribe.Failover, pb.Subscribe.Key_Shared]
MANY = 1_000_000


async def filled(world: VirtualWorld, count: int, payload: bytes = b"x", batch: int = 1, topic: str = TOPIC) -> None:
    client = world.client()
    await client.open_producer(topic)
    for first in range(0, count, 500):
        client.publish(first, min(count, first + 500), payload, batch=batch)
        await world.pass_s(0)
    await world.pass_s(0.1)
    client.read()
    assert len(client.receipts[1]) == count


async def consuming(world: VirtualWorld, name: str = "s", topic: str = TOPIC, kind: int = pb.Subscribe.Shared) -> VirtualClient:
    client = world.client()
    await client.subscribe(topic, subscription=name, sub_type=kind)
    client.flow(MANY)
    return client


@virtually()
async def test_policy_dispatch_rate_messages_limits_a_topic(world: VirtualWorld) -> None:
    await filled(world, 5000)
    await world.set_policies(dispatch_rate_messages=100)
    first, second = await consuming(world, "s1"), await consuming(world, "s2")
    await world.pass_s(10)
    first.read()
    second.read()
    counts = [first.messages[1], second.messages[1]]
    assert sum(counts) == pytest.approx(1000, rel=0.02)
    assert counts == pytest.approx([500, 500], rel=0.1)


@virtually()
async def test_policy_dispatch_rate_bytes_limits_a_topic(world: VirtualWorld) -> None:
    await filled(world, 4000, b"x" * 1000)
    await world.set_policies(dispatch_rate_bytes=100_000)
    client = await consuming(world)
    await world.pass_s(10)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    assert topic.totals.bytes_out == pytest.approx(1_000_000, rel=0.02)
    client.read()
    assert client.payload_bytes == pytest.approx(1_000_000, rel=0.05)


@virtually()
async def test_policy_dispatch_rate_period_s_spreads_the_limit_over_it(world: VirtualWorld) -> None:
    await filled(world, 2000)
    await world.set_policies(dispatch_rate_messages=1000, dispatch_rate_period_s=10)
    client = await consuming(world)
    assert [await world.received(client, 5) for _ in range(4)] == pytest.approx([500] * 4, rel=0.04)


@virtually()
async def test_policy_dispatch_rate_relative_adds_what_is_published(world: VirtualWorld) -> None:
    await filled(world, 9000)
    await world.set_policies(dispatch_rate_messages=100, dispatch_rate_relative=True)
    client = await consuming(world)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    assert await world.received(client, 10) == pytest.approx(1000, rel=0.02)
    assert topic.rates is not None
    topic.rates.messages_in.sample(0, 0)
    topic.rates.messages_in.sample(1000, 400)
    assert await world.received(client, 10) == pytest.approx(5000, rel=0.02)


@virtually()
async def test_policy_subscription_dispatch_rate_messages_limits_each_subscription(world: VirtualWorld) -> None:
    await filled(world, 3000)
    await world.set_policies(subscription_dispatch_rate_messages=100)
    first, second = await consuming(world, "s1"), await consuming(world, "s2")
    assert await world.received(first, 10) == pytest.approx(1000, rel=0.02)
    second.read()
    assert second.messages[1] == pytest.approx(1000, rel=0.02)


@virtually()
async def test_policy_subscription_dispatch_rate_bytes_limits_each_subscription(world: VirtualWorld) -> None:
    await filled(world, 3000, b"x" * 1000)
    await world.set_policies(subscription_dispatch_rate_bytes=50_000)
    for name in ("s1", "s2"):
        await consuming(world, name)
    await world.pass_s(10)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    assert [one.bytes_out for one in topic.subscriptions.table.values()] == pytest.approx([500_000] * 2, rel=0.02)


@virtually()
async def test_policy_subscription_dispatch_rate_period_s_spreads_the_limit_over_it(world: VirtualWorld) -> None:
    await filled(world, 2000)
    await world.set_policies(subscription_dispatch_rate_messages=600, subscription_dispatch_rate_period_s=60)
    client = await consuming(world)
    assert [await world.received(client, 20) for _ in range(3)] == pytest.approx([200] * 3, rel=0.02)


@virtually()
async def test_policy_subscription_dispatch_rate_relative_adds_what_is_published(world: VirtualWorld) -> None:
    await filled(world, 3000, b"x" * 100)
    await world.set_policies(subscription_dispatch_rate_bytes=10_000, subscription_dispatch_rate_relative=True)
    await consuming(world)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await world.pass_s(0)
    assert topic.rates is not None
    topic.rates.bytes_in.sample(0, 0)
    topic.rates.bytes_in.sample(1000, 10_000)
    await world.pass_s(10)
    assert topic.totals.bytes_out == pytest.approx(200_000, rel=0.02)


@pytest.mark.parametrize("kind", TYPES)
def test_every_subscription_type_obeys(kind: int, tmp_path: object) -> None:
    @virtually()
    async def check(world: VirtualWorld) -> None:
        await filled(world, 3000)
        await world.set_policies(subscription_dispatch_rate_messages=150)
        client = await consuming(world, kind=kind)
        assert await world.received(client, 10) == pytest.approx(1500, rel=0.02)

    check(tmp_path)  # type: ignore[arg-type]


@virtually()
async def test_messages_in_batches_count(world: VirtualWorld) -> None:
    await filled(world, 400, batch=10)
    await world.set_policies(dispatch_rate_messages=200)
    assert await world.received(await consuming(world), 10) == pytest.approx(200, rel=0.02)


@virtually(dispatch_throttling_on_batch_message_enabled=True)
async def test_batches_count_as_one_message_where_the_setting_says_so(world: VirtualWorld) -> None:
    await filled(world, 4000, batch=10)
    await world.set_policies(dispatch_rate_messages=200)
    assert await world.received(await consuming(world), 10) == pytest.approx(2000, rel=0.02)


@virtually(dispatch_throttling_on_non_backlog_consumer_enabled=False)
async def test_consumers_that_keep_up_are_spared_where_the_setting_says_so(world: VirtualWorld) -> None:
    await world.set_policies(dispatch_rate_messages=10)
    await filled(world, 200)
    behind = await consuming(world)
    assert await world.received(behind, 10) == pytest.approx(100, rel=0.05)
    await world.pass_s(11)
    behind.read()
    assert behind.messages[1] == 200
    sender = world.client()
    await sender.open_producer(TOPIC)
    sender.publish(0, 500)
    assert await world.received(behind, 0.1) == 500


@virtually()
async def test_consumers_that_keep_up_are_limited(world: VirtualWorld) -> None:
    await world.set_policies(dispatch_rate_messages=100)
    client = await consuming(world)
    await filled(world, 500)
    assert await world.received(client, 2) == pytest.approx(200, abs=20)


@virtually()
async def test_changes_take_effect_at_once(world: VirtualWorld) -> None:
    await filled(world, 20_000)
    await world.set_policies(dispatch_rate_messages=1)
    client = await consuming(world)
    assert await world.received(client, 10) == pytest.approx(10, abs=2)
    await world.set_policies(dispatch_rate_messages=500)
    assert await world.received(client, 10) == pytest.approx(5000, rel=0.02)
    await world.set_policies(subscription_dispatch_rate_messages=100, dispatch_rate_messages=500)
    assert await world.received(client, 10) == pytest.approx(1000, rel=0.03)
    await world.set_policies()
    assert await world.received(client, 0.5) > 10_000


@virtually()
async def test_redelivered_messages_count_too(world: VirtualWorld) -> None:
    await filled(world, 100)
    client = await consuming(world)
    assert await world.received(client, 0.1) == 100
    await world.set_policies(dispatch_rate_messages=20)
    redeliver = pb.RedeliverUnacknowledgedMessages(consumer_id=1)
    client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, redeliver_unacknowledged_messages=redeliver)
    assert await world.received(client, 4) == pytest.approx(80, abs=4)
    assert await world.received(client, 4) == pytest.approx(20, abs=4)


@virtually()
async def test_the_limit_explains_why_nothing_is_sent(world: VirtualWorld) -> None:
    await filled(world, 100)
    await world.set_policies(dispatch_rate_messages=2)
    await consuming(world)
    await world.pass_s(1)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    found = explain(topic.subscriptions.table["s"], topic.consumers.delivery_state(topic.subscriptions.table["s"]))[0]
    assert found.reason is Reason.RATE_LIMIT
    assert found.sentence == "Delivery is at the limit of the topic: dispatch_rate allows 2 messages a second."


@virtually(dispatch_throttling_rate_in_msg=1000, tenant_dispatch_rate_in_messages=400)
async def test_broker_and_tenants_have_limits_of_their_own(world: VirtualWorld) -> None:
    topics = [TOPIC, f"{TOPIC}-2", "persistent://other/things/t", "persistent://public/default/t"]
    clients = []
    for topic in topics:
        await filled(world, 8000, topic=topic)
    for topic in topics:
        clients.append(await consuming(world, topic=topic))
    await world.pass_s(10)
    for client in clients:
        client.read()
    counts = [client.messages[1] for client in clients]
    assert sum(counts) == pytest.approx(10_000, rel=0.02)
    assert [counts[0] + counts[1], counts[2], counts[3]] == pytest.approx([3333] * 3, rel=0.05)


@virtually(
    namespace_dispatch_rate_in_messages=300,
    namespace_dispatch_rate_in_bytes=10**9,
    tenant_dispatch_rate_in_bytes=10**9,
    dispatch_throttling_rate_in_byte=10**9,
)
async def test_namespaces_have_limits_of_their_own(world: VirtualWorld) -> None:
    topics = [TOPIC, f"{TOPIC}-2", "persistent://other/things/t"]
    for topic in topics:
        await filled(world, 6000, topic=topic)
    clients = [await consuming(world, topic=topic) for topic in topics]
    await world.pass_s(10)
    for client in clients:
        client.read()
    counts = [client.messages[1] for client in clients]
    assert [counts[0] + counts[1], counts[2]] == pytest.approx([3000] * 2, rel=0.03)


@virtually()
async def test_policies_of_topics_and_subscriptions_take_effect_at_once(world: VirtualWorld) -> None:
    await filled(world, 20_000)
    await world.set_policies(dispatch_rate_messages=10)
    client = await consuming(world)
    assert await world.received(client, 10) == pytest.approx(100, abs=4)
    await world.feed(("topic", TOPIC, {"policies": {"dispatch_rate_messages": 500}}))
    assert await world.received(client, 10) == pytest.approx(5000, rel=0.03)
    own = {"s": {"subscription_dispatch_rate_messages": 100}}
    await world.feed(("topic", TOPIC, {"policies": {"dispatch_rate_messages": 500}, "subscriptions": own}))
    assert await world.received(client, 10) == pytest.approx(1000, rel=0.03)
    await world.feed(("topic", TOPIC, None))
    assert await world.received(client, 10) == pytest.approx(100, abs=15)
    assert world.service.backlog_scheduler.reads < 60, "what was read is kept until it may be sent"


@virtually(dispatch_throttling_rate_per_topic_in_msg=100)
async def test_the_setting_of_topics_is_the_default_of_the_policy(world: VirtualWorld) -> None:
    await filled(world, 4000)
    client = await consuming(world)
    assert await world.received(client, 10) == pytest.approx(1000, rel=0.02)
    await world.set_policies(dispatch_rate_messages=0)
    await world.pass_s(0.01)
    client.read()
    assert client.messages[1] == 4000


@virtually(dispatch_throttling_rate_per_subscription_in_msg=100, dispatch_throttling_rate_relative_to_publish_rate=False)
async def test_the_setting_of_subscriptions_is_the_default_of_the_policy(world: VirtualWorld) -> None:
    await filled(world, 4000)
    client = await consuming(world)
    assert await world.received(client, 10) == pytest.approx(1000, rel=0.02)
    await world.set_policies(subscription_dispatch_rate_messages=-1)
    await world.pass_s(0.01)
    client.read()
    assert client.messages[1] == 4000
