"""What the authorization mode of subscriptions does; see `test_policies.py`."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.errors import NotAuthorized
from messaging.permissions.model import Principal
from messaging.protocol import pulsar_pb2 as pb
from tests.support.brokers.storage_broker import Inbox
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
GRANTS = {"reader@acme": ["produce", "consume"], "writer@acme": ["produce", "consume"]}
PREFIX = {"grants": GRANTS, "policies": {"subscription_auth_mode": "Prefix"}}
C = pb.Command


async def subscribe(world: BrokerWorld, key: str, name: str, **fields: Any) -> str:
    """What a new connection is told."""
    client = await world.connected(key)
    client.say(C.SUBSCRIBE, topic=TOPIC, subscription=name, sub_type=pb.Subscribe.Shared, consumer_id=1, **fields)
    answer = await client.next()
    return answer.name if answer.name == "SUCCESS" else f"{pb.Error.Name(answer.body.error)}: {answer.body.message}"


async def test_policy_subscription_auth_mode_lets_roles_use_subscriptions_of_their_name_only(world: BrokerWorld) -> None:
    await world.feed(("namespace", "acme/orders", PREFIX))
    assert await subscribe(world, "reader", "reader@acme-billing") == "SUCCESS"
    assert await subscribe(world, "reader", "reader@acme") == "SUCCESS"
    refused = await subscribe(world, "reader", "billing")
    assert refused.startswith("AuthorizationError: the name of a subscription in acme/orders must begin with the role")
    assert (await subscribe(world, "writer", "reader@acme-billing")).startswith("AuthorizationError: the name of a subscription")
    assert await subscribe(world, "owner", "anything") == "SUCCESS"  # who administers the tenant needs no such name
    assert await subscribe(world, "superuser", "anything") == "SUCCESS"
    topic = next(iter(world.service.topics))
    assert sorted(topic.subscriptions.table) == ["anything", "reader@acme", "reader@acme-billing"]
    await world.feed(("namespace", "acme/orders", {"grants": GRANTS, "policies": {"subscription_auth_mode": "None"}}))
    assert await subscribe(world, "reader", "billing") == "SUCCESS"


async def test_readers_obey_as_in_pulsar(world: BrokerWorld) -> None:
    """Java's reader has `subscriptionRolePrefix` for it."""
    await world.feed(("namespace", "acme/orders", PREFIX))
    assert (await subscribe(world, "reader", "reader-1a2b", durable=False)).startswith("AuthorizationError")
    assert await subscribe(world, "reader", "reader@acme-1a2b", durable=False) == "SUCCESS"


async def test_websocket_consumers_obey(world: BrokerWorld) -> None:
    await world.feed(("namespace", "acme/orders", PREFIX))
    role = Principal("reader@acme", "reader")
    rest = ("Shared", "latest", True, None, Inbox())
    (await world.sessions.open_consumer(role, TOPIC, "reader@acme-ws", *rest)).close()  # type: ignore[arg-type]
    with pytest.raises(NotAuthorized, match="must begin with the role"):
        await world.sessions.open_consumer(role, TOPIC, "ws", *rest)  # type: ignore[arg-type]


async def test_a_producer_makes_no_subscription_of_another_name(world: BrokerWorld) -> None:
    await world.feed(("namespace", "acme/orders", PREFIX))
    client = await world.connected("writer")
    client.say(C.PRODUCER, topic=TOPIC, producer_id=1, initial_subscription_name="first")
    assert (await client.expect("ERROR")).error == pb.AuthorizationError
    client.say(C.PRODUCER, topic=TOPIC, producer_id=1, initial_subscription_name="writer@acme-first")
    await client.expect("PRODUCER_SUCCESS")


async def test_a_change_of_the_mode_ends_what_it_forbids(world: BrokerWorld) -> None:
    await world.feed(("namespace", "acme/orders", {"grants": GRANTS}))
    client = await world.connected("reader")
    await client.subscribe(TOPIC, "billing", 1)
    await client.subscribe(TOPIC, "reader@acme", 2)
    await world.feed(("namespace", "acme/orders", PREFIX))
    assert (await client.expect("CLOSE_CONSUMER")).consumer_id == 1
    assert await client.quiet() == []
