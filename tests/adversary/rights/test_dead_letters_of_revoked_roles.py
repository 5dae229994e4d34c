"""A dead-letter policy outlives the rights of the role that set it.

Seen: a role of another tenant that might consume a topic once had what others rejected there moved to a topic of its own, and
acknowledged, for as long as the policy stayed."""

from __future__ import annotations

from typing import Any

from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.consuming import TOPIC, filled
from tests.support.clients.raw_client import RawClient
from tests.support.clock import Clock, give
from tests.support.dead_letters import letters_of, moved, policy_of, rejected, set_policy, subscription_of
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

OTHERS = "persistent://other/things/stolen"
STRANGER = {"owner": "stranger@other", "target": OTHERS, "max_redeliver_count": 0}


async def granted(world: BrokerWorld, *actions: str, namespace: str = "acme/orders") -> None:
    await world.feed(("namespace", namespace, {"grants": {"stranger@other": list(actions)}}))


async def consuming(world: BrokerWorld, **policy: Any) -> RawClient:
    """A consumer of the topic's own tenant, under a policy of the stranger."""
    await filled(world, 2)
    client = await world.connected("owner")
    await client.subscribe(TOPIC, permits=1)
    await set_policy(world, **{**STRANGER, **policy})
    return client


async def test_nothing_is_moved_for_a_role_that_may_consume_no_longer(world: BrokerWorld) -> None:
    clock = Clock()
    give(world.service, clock)
    await granted(world, "consume")
    client = await consuming(world)
    await rejected(client, 1)
    await moved(world, 1)
    await granted(world)
    client.say(pb.Command.FLOW, consumer_id=1, message_permits=1)
    await rejected(client, 1)
    await eventually(lambda: "lacks 'consume'" in letters_of(world).last_error)
    policy = await policy_of(world)
    assert (policy.waiting_entries, policy.moved_messages, subscription_of(world).backlog_entries) == (1, 1, 1)
    assert world.service.topics.loaded[OTHERS].ledger_list.entries == 1
    await granted(world, "consume")
    clock.pass_(1_001)
    world.service.dead_letters.retry()
    await moved(world, 2)


async def test_the_initial_subscription_needs_the_right_to_consume_the_target(world: BrokerWorld) -> None:
    await granted(world, "consume")
    await granted(world, "produce", namespace="other/things")
    client = await consuming(world, initial_subscription="left behind")
    await rejected(client, 1)
    await eventually(lambda: "lacks 'consume'" in letters_of(world).last_error)
    assert world.service.topics.loaded[OTHERS].subscriptions.table == {}
    assert subscription_of(world).backlog_entries == 2
