"""Steps of the tests about partitioned topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from messaging.adminrpc.topics import PartitionsGet, PartitionsUpdate
from messaging.errors import MagnetarError
from messaging.protocol.names import parse_topic
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/p"
NAME = parse_topic(TOPIC)


def partition(index: int) -> str:
    return f"{TOPIC}-partition-{index}"


async def grow(world: BrokerWorld, partitions: int) -> None:
    await world.admin.topics.update_partitions(PartitionsUpdate(topic=TOPIC, partitions=partitions))


async def count(world: BrokerWorld) -> int:
    return (await world.admin.topics.partitions(PartitionsGet(topic=TOPIC))).partitions


async def stored_subscriptions(world: BrokerWorld, index: int) -> dict[str, dict[str, str]]:
    return {subscription.name: subscription.properties for subscription in await world.meta.subscriptions(partition(index))}


async def refusal(work: Awaitable[object]) -> MagnetarError | None:
    try:
        await asyncio.wait_for(work, 10)
    except MagnetarError as error:
        assert error.http_status != 500, error.message
        return error
    return None
