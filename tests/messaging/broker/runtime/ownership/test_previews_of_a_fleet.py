"""What a policy would do, in a fleet: each broker looks at the topics that it serves, and what is said is of all of them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from messaging.adminrpc.methods import POLICIES_PREVIEW, SUBSCRIPTIONS_CREATE, TOPICS_CREATE
from messaging.adminrpc.policies import PolicyPreview, PolicyPreviewAnswer
from messaging.adminrpc.subscriptions import SubscriptionCreate
from messaging.adminrpc.topics import TopicCreate
from messaging.client import connect
from tests.support.brokers.fleet import running_fleet
from tests.support.brokers.running_broker import RunningBroker

PLAIN = [f"persistent://acme/orders/t{number}" for number in range(8)]
PARTITIONED = "persistent://acme/orders/parts"
PARTITIONS = [f"{PARTITIONED}-partition-{index}" for index in range(8)]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[list[RunningBroker]]:
    """Two brokers that share the topics, each with two subscriptions."""
    async with running_fleet(tmp_path / uuid.uuid4().hex, 2) as brokers:
        for broker in brokers:
            await broker.service.owners.look()  # type: ignore[attr-defined]
        await brokers[0].admin.methods[TOPICS_CREATE.name](TopicCreate(topic=PARTITIONED, partitions=len(PARTITIONS)))
        async with connect(brokers[1].service.addresses.service_url, brokers[1].token("owner")) as client:
            for topic in [*PLAIN, *PARTITIONS]:
                async with client.producer(topic) as producer:
                    await producer.send(b"order")
        for topic in [*PLAIN, PARTITIONED]:
            for name in ("billing", "shipping"):
                await brokers[0].admin.methods[SUBSCRIPTIONS_CREATE.name](SubscriptionCreate(topic=topic, subscription=name))
        yield brokers


async def preview(broker: RunningBroker, **of: str) -> PolicyPreviewAnswer:
    answer = await broker.admin.methods[POLICIES_PREVIEW.name](PolicyPreview(policies={"max_subscriptions_per_topic": 1}, **of))
    assert isinstance(answer, PolicyPreviewAnswer)
    return answer


@pytest.mark.parametrize("of", [{"namespace": "acme/orders"}, {"tenant": "acme"}])
async def test_topics_of_every_broker_are_looked_at(fleet: list[RunningBroker], of: dict[str, str]) -> None:
    """Those of others were said not to be in use."""
    assert all(broker.service.topics.loaded.keys() & {*PLAIN, *PARTITIONS} for broker in fleet)
    for broker in fleet:
        found = await preview(broker, **of)
        assert (found.topics_looked_at, found.topics_left_out) == (len(PLAIN) + len(PARTITIONS), 0)
        assert {effect.topic for effect in found.effects} == {*PLAIN, *PARTITIONS}
        assert found.effects_count == len(found.effects)


async def test_partitions_of_every_broker_are_looked_at(fleet: list[RunningBroker]) -> None:
    for broker in fleet:
        found = await preview(broker, topic=PARTITIONED)
        assert (found.topics_looked_at, found.topics_left_out) == (len(PARTITIONS), 0)
        assert {effect.topic for effect in found.effects} == {*PARTITIONS}
        assert (await preview(broker, topic=PLAIN[0])).topics_looked_at == 1
