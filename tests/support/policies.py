"""Policies of tests, at each level at which they may be set: every test of an effect runs once for the namespace, the topic and the
tenant, without being written twice."""

from __future__ import annotations

from typing import Any

from messaging.policies.model import Level
from messaging.policies.registry import ENFORCED
from tests.support.worlds.broker_world import FEED, BrokerWorld

TOPIC = "persistent://acme/orders/t"
LEVELS = (Level.NAMESPACE, Level.TOPIC, Level.TENANT)
TENANT = next(state for kind, key, state in FEED if (kind, key) == ("tenant", "acme"))
GRANTS = next(state["grants"] for kind, key, state in FEED if key == "acme/orders")


async def set_policies(world: BrokerWorld, topic: str = TOPIC, **policies: Any) -> None:
    """These and no others, on acme/orders, or on its tenant or the topic where the test runs for those."""
    if world.policy_level is Level.TENANT:
        await world.feed(("tenant", "acme", {**TENANT, "policies": policies}))
    elif world.policy_level is Level.TOPIC:
        await world.feed(("topic", topic, {"policies": policies}))
    else:
        await world.feed(("namespace", "acme/orders", {"grants": GRANTS, "policies": policies}))


def levels_of_test(name: str) -> list[Level]:
    """Of the policy that a test called ``test_policy_<name>_...`` is about; of any other test the namespace."""
    named = [policy for policy in ENFORCED.values() if name.startswith(f"test_policy_{policy.name}_")]
    levels = max(named, key=lambda policy: len(policy.name)).levels if named else (Level.NAMESPACE,)
    return [level for level in LEVELS if level in levels]
