"""When the policies say that a topic is to be compacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.adminrpc.compaction import CompactionsDue
from messaging.protocol.names import parse_topic
from tests.support.compacting import TOPIC, compact, keyed, publish
from tests.support.policies import set_policies
from tests.support.worlds.broker_world import BrokerWorld

pytestmark = pytest.mark.asyncio


async def due(world: BrokerWorld) -> list[str]:
    return (await world.admin.compaction.due(CompactionsDue())).topics


async def test_policy_compaction_threshold_bytes_says_when_a_topic_is_compacted(world: BrokerWorld, tmp_path: Path) -> None:
    await publish(world.service, *(keyed("a", bytes(500)) for _ in range(4)))
    assert await due(world) == []
    await set_policies(world, compaction_threshold_bytes=3_000)
    assert await due(world) == []
    await set_policies(world, compaction_threshold_bytes=2_000)
    assert await due(world) == [TOPIC]
    await world.service.topics.unload(parse_topic(TOPIC))
    assert await due(world) == [TOPIC]
    await compact(world.service, tmp_path)
    assert await due(world) == []
    await publish(world.service, *(keyed("a", bytes(500)) for _ in range(4)))
    assert await due(world) == [TOPIC]


async def test_a_topic_has_a_threshold_of_its_own(world: BrokerWorld) -> None:
    """0 there: never by itself, whatever the namespace says."""
    other = f"{TOPIC}-other"
    for topic in (TOPIC, other):
        await publish(world.service, *(keyed("a", bytes(500)) for _ in range(4)), topic=topic)
    await set_policies(world, compaction_threshold_bytes=2_000)
    assert await due(world) == [TOPIC, other]
    await world.feed(("topic", TOPIC, {"policies": {"compaction_threshold_bytes": 0}}))
    assert await due(world) == [other]
    await set_policies(world)
    await world.feed(("topic", TOPIC, {"policies": {"compaction_threshold_bytes": 2_000}}))
    assert await due(world) == [TOPIC]
