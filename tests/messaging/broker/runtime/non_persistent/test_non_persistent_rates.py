"""Dispatch rates of non-persistent topics: what exceeds them is dropped and counted, and nobody waits; in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.core.diagnosis.explain import Reason, explain
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.virtual_broker import TOPIC as STORED
from tests.support.brokers.virtual_broker import VirtualClient, VirtualWorld, virtually

TOPIC = "non-persistent://acme/orders/t"
MANY = 1_000_000
TYPES = [pb.Subscribe.Exclusive, pb.Subscribe.Shared, pb.Subscribe.Failover, pb.Subscribe.Key_Shared]


async def consuming(world: VirtualWorld, name: str = "s", kind: int = pb.Subscribe.Shared, topic: str = TOPIC) -> VirtualClient:
    client = world.client()
    await client.subscribe(topic, subscription=name, sub_type=kind)
    client.flow(MANY)
    return client


async def flood(world: VirtualWorld, seconds: float, a_second: int, **fields: Any) -> VirtualClient:
    """A hundred bursts a second."""
    client = await world.producing(TOPIC)
    burst = a_second // 100
    for number in range(int(seconds * 100)):
        client.publish(number * burst, (number + 1) * burst, **fields)
        await world.pass_s(0.01)
    return client


async def totals(world: VirtualWorld) -> tuple[int, int]:
    """How many messages were sent and how many dropped."""
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    found = topic.subscriptions.table.values()
    return sum(one.messages_out for one in found), sum(one.messages_dropped for one in found)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("policy", ["dispatch_rate_messages", "subscription_dispatch_rate_messages"])
def test_what_exceeds_a_rate_is_dropped(kind: int, policy: str, tmp_path: Any) -> None:
    @virtually()
    async def check(world: VirtualWorld) -> None:
        await world.set_policies("acme/orders", **{policy: 200})
        client = await consuming(world, kind=kind)
        producer = await flood(world, 10, 1000)
        client.read()
        producer.read()
        assert client.messages[1] == pytest.approx(2000, rel=0.02)
        assert await totals(world) == (client.messages[1], 10_000 - client.messages[1])
        assert len(producer.receipts[1]) == 10_000, "the producer does not notice"

    check(tmp_path)


@virtually()
async def test_bytes_are_limited(world: VirtualWorld) -> None:
    await world.set_policies(dispatch_rate_bytes=100_000)
    await consuming(world)
    await flood(world, 10, 500, payload=b"x" * 1000)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    assert topic.totals.bytes_out == pytest.approx(1_000_000, rel=0.02)


@virtually()
async def test_batches_are_counted_by_their_messages(world: VirtualWorld) -> None:
    await world.set_policies(dispatch_rate_messages=200)
    await consuming(world)
    await flood(world, 10, 100, batch=10)
    sent, dropped = await totals(world)
    assert sent == pytest.approx(2000, rel=0.02) and sent + dropped == 10_000


@virtually()
async def test_what_is_below_the_rate_is_not_dropped(world: VirtualWorld) -> None:
    await world.set_policies(dispatch_rate_messages=500)
    await consuming(world)
    await flood(world, 5, 400)
    assert await totals(world) == (2000, 0)


@virtually()
async def test_without_the_policy_everything_is_sent_again(world: VirtualWorld) -> None:
    await world.set_policies(dispatch_rate_messages=10)
    client = await consuming(world)
    await flood(world, 1, 1000)
    await world.set_policies()
    client.read()
    before = client.messages[1]
    producer = await world.producing(TOPIC, producer_name="another")
    producer.publish(0, 700)
    await world.pass_s(0.1)
    client.read()
    assert client.messages[1] - before == 700


@virtually(dispatch_throttling_on_non_backlog_consumer_enabled=False)
async def test_nobody_has_a_backlog_where_only_those_with_one_are_limited(world: VirtualWorld) -> None:
    await world.set_policies(dispatch_rate_messages=10)
    await consuming(world)
    await flood(world, 1, 1000)
    assert await totals(world) == (1000, 0)


@virtually(dispatch_throttling_rate_in_msg=1000)
async def test_a_rate_shared_with_a_backlog_is_shared_fairly(world: VirtualWorld) -> None:
    """A subscription that waits with its backlog takes no more than its half, and is left no less."""
    client = await world.producing(STORED)
    for first in range(0, 20_000, 500):
        client.publish(first, first + 500)
        await world.pass_s(0)
    await world.pass_s(0.1)
    await consuming(world)
    stored = await consuming(world, topic=STORED)
    await flood(world, 10, 2000)
    stored.read()
    sent, dropped = await totals(world)
    assert sent + dropped == 20_000 and sent + stored.messages[1] == pytest.approx(10_000, rel=0.02)
    assert sent == pytest.approx(5000, rel=0.1)


@virtually()
async def test_explain_says_that_the_rate_drops_messages(world: VirtualWorld) -> None:
    await world.set_policies(dispatch_rate_messages=10)
    await consuming(world)
    (await world.producing(TOPIC)).publish(0, 100)
    await world.pass_s(0)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    (subscription,) = topic.subscriptions.table.values()
    found = explain(subscription, topic.consumers.delivery_state(subscription))[0]
    assert found.reason is Reason.RATE_LIMIT and "allows 10 messages a second. What exceeds it is dropped." in found.sentence
