"""What spend caps do that are reached, seen by clients. When they are: `tests/workers/test_spend_caps.py`."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.runtime.feed.policy_changes import PolicyChanges
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import QuotaExceeded
from messaging.permissions.model import Principal
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.storage_broker import Inbox
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.policies import TENANT
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
HERE, THERE = "persistent://acme/orders/t", "non-persistent://acme/orders/u"
WHY = "tenant acme has reached its spend cap of 50.00 EUR for March 2026"


async def spend(world: BrokerWorld, spend: dict[str, Any] | None = None, **policies: Any) -> None:
    state = {**TENANT, "policies": policies}
    await world.feed(("tenant", "acme", {**state, "spend": spend} if spend is not None else state))


async def refused(client: RawClient, topic: str, producer_id: int) -> Any:
    client.say(C.PRODUCER, topic=topic, producer_id=producer_id)
    return await client.expect("ERROR")


async def test_producers_are_closed_and_refused_and_consumers_drain(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(HERE)
    client.write(send_frame(0, b"m"), send_frame(1, b"n"))
    assert [(await client.next()).name for _ in range(2)] == ["SEND_RECEIPT"] * 2
    await spend(world, {"stopped": WHY})
    assert (await client.expect("CLOSE_PRODUCER")).producer_id == 1
    for number, topic in enumerate((HERE, THERE)):
        answer = await refused(client, topic, 2 + number)
        assert (answer.error, answer.message) == (pb.ProducerBlockedQuotaExceededException, WHY)
    with pytest.raises(QuotaExceeded, match=r"spend cap of 50\.00 EUR"):
        await world.sessions.open_producer(Principal("admin"), HERE, "ws", Inbox())
    await client.subscribe(HERE, "s", permits=10, initial_position=pb.Subscribe.Earliest)
    assert [received.text for received in await client.messages(2)] == [b"m", b"n"]
    stranger = await world.connected("stranger")
    await stranger.producer("persistent://other/things/t")
    await spend(world)
    await client.producer(HERE, 9)
    producer = await world.sessions.open_producer(Principal("admin"), HERE, "ws", Inbox())
    producer.publish([OutgoingMessage(b"o")], lambda positions, error: None)
    assert [received.text for received in await client.messages(1)] == [b"o"]


async def test_topics_follow_the_first_change_of_a_tenant_after_a_start(world: BrokerWorld) -> None:
    """What they followed before it is not known then: a policy, or a throttle, that was removed stayed in force."""
    client = await world.connected("owner")
    await client.producer(HERE)
    topic = world.service.topics.loaded[HERE]
    topic.publisher.message_bytes_max = 7  # of a policy that was removed
    after_a_start = PolicyChanges(world.service.topics, world.service.access.view)
    after_a_start.follow([("tenant", "acme")])
    assert topic.publisher.message_bytes_max == 0
    topic.publisher.message_bytes_max = 7
    after_a_start.follow([("tenant", "acme")])
    assert topic.publisher.message_bytes_max == 7  # nothing has changed since then


async def test_a_throttled_tenant_has_the_least_of_its_rates(world: BrokerWorld) -> None:
    policies = world.service.policies
    name, other = parse_topic(HERE), parse_topic("persistent://other/things/t")
    await spend(
        world, {"rates": {"tenant_publish_rate_messages": 5, "tenant_dispatch_rate_bytes": 100}}, tenant_publish_rate_messages=9
    )
    rates = ("tenant_publish_rate_messages", "tenant_publish_rate_bytes", "tenant_dispatch_rate_bytes")
    assert [policies.value(rate, name) for rate in rates] == [5, 0, 100]
    assert [policies.value(rate, other) for rate in rates] == [0, 0, 0]
    await spend(world, {}, tenant_publish_rate_messages=9)
    assert [policies.value(rate, name) for rate in rates] == [9, 0, 0]
