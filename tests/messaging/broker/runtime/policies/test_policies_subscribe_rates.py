"""What subscribe rates do; see `test_policies.py`."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.runtime.topics.services import health_topic
from messaging.errors import NotAllowed
from messaging.protocol import pulsar_pb2 as pb
from tests.support.brokers.storage_broker import ADMIN, Inbox
from tests.support.clock import Clock, give
from tests.support.worlds.broker_world import FEED, BrokerWorld, MakeWorld

TOPIC = "persistent://acme/orders/t"
C = pb.Command
GRANTS = next(state["grants"] for kind, key, state in FEED if key == "acme/orders")


async def set_policies(world: BrokerWorld, **policies: Any) -> None:
    await world.feed(("namespace", "acme/orders", {"grants": GRANTS, "policies": policies}))


async def subscribe(world: BrokerWorld, name: str = "c", consumer_id: int = 1) -> str:
    """What a new connection is told."""
    client = await world.connected("owner")
    fields: dict[str, Any] = {"subscription": "s", "sub_type": pb.Subscribe.Shared, "consumer_name": name}
    client.say(C.SUBSCRIBE, topic=TOPIC, consumer_id=consumer_id, **fields)
    answer = await client.next()
    return answer.name if answer.name == "SUCCESS" else pb.Error.Name(answer.body.error)


async def test_policy_subscribe_rate_per_consumer_refuses_who_comes_too_often(world: BrokerWorld) -> None:
    await set_policies(world, subscribe_rate_per_consumer=2)
    assert [await subscribe(world) for _ in range(3)] == ["SUCCESS", "SUCCESS", "NotAllowedError"]
    assert await subscribe(world, "another") == "SUCCESS"
    assert await subscribe(world, consumer_id=2) == "SUCCESS"
    await set_policies(world, subscribe_rate_per_consumer=3)
    assert [await subscribe(world) for _ in range(2)] == ["SUCCESS", "NotAllowedError"]
    for unlimited in (0, -1):
        await set_policies(world, subscribe_rate_per_consumer=unlimited)
        assert await subscribe(world) == "SUCCESS"


async def test_policy_subscribe_rate_period_s_says_when_it_may_come_again(world: BrokerWorld) -> None:
    clock = Clock()
    give(world.service, clock)
    await set_policies(world, subscribe_rate_per_consumer=1, subscribe_rate_period_s=60)
    assert [await subscribe(world) for _ in range(2)] == ["SUCCESS", "NotAllowedError"]
    clock.pass_(59_999)
    assert await subscribe(world) == "NotAllowedError"
    clock.pass_(1)
    assert await subscribe(world) == "SUCCESS"


async def test_websocket_consumers_obey(world: BrokerWorld) -> None:
    await set_policies(world, subscribe_rate_per_consumer=1)
    opening = (ADMIN, TOPIC, "s", "Shared", "latest", True, None)
    (await world.sessions.open_consumer(*opening, Inbox(), consumer_name="a")).close()  # type: ignore[arg-type]
    with pytest.raises(NotAllowed, match="subscribe_rate_per_consumer = 1 in 30 s"):
        await world.sessions.open_consumer(*opening, Inbox(), consumer_name="a")  # type: ignore[arg-type]


async def test_the_settings_are_the_default_of_the_policy(make_world: MakeWorld) -> None:
    world = await make_world(subscribe_throttling_rate_per_consumer=1, subscribe_rate_period_per_consumer_in_second=5)
    clock = Clock()
    give(world.service, clock)
    assert [await subscribe(world) for _ in range(2)] == ["SUCCESS", "NotAllowedError"]
    clock.pass_(5_000)
    assert await subscribe(world) == "SUCCESS"


async def test_a_broker_at_its_limits_is_ready(make_world: MakeWorld) -> None:
    """Its own topics have no limits."""
    limits = {"broker_publisher_throttling_max_byte_rate": 1, "dispatch_throttling_rate_in_byte": 1}
    topics = {"max_publish_rate_per_topic_in_bytes": 1, "dispatch_throttling_rate_per_topic_in_byte": 1}
    world = await make_world(**limits, **topics)
    for _ in range(3):
        await world.sessions.round_trip()
    topic = await world.service.topics.get(health_topic(""), create=False)
    assert topic.publisher.limits is None
