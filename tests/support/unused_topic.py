"""A topic that nobody uses, and the maintenance that comes by."""

from __future__ import annotations

from messaging.adminrpc.maintenance import MaintenanceResult, MaintenanceRun
from messaging.adminrpc.subscriptions import SubscriptionSkip
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
NAME = parse_topic(TOPIC)
MINUTE_MS = 60_000


async def upkeep(world: BrokerWorld, *topics: str) -> MaintenanceResult:
    result = await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=list(topics or [TOPIC])))
    assert result.failed == {}
    return result


async def published(world: BrokerWorld, *subscriptions: str, count: int = 1) -> RawClient:
    """A client with a producer on the topic, which has these subscriptions and so many messages."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    topic = await world.service.topics.get(NAME, create=False)
    for name in subscriptions:
        if name not in topic.subscriptions.table:
            await topic.subscriptions.create(name, EARLIEST)
    for index in range(count):
        client.write(send_frame(index, b"x"))
        await client.expect("SEND_RECEIPT")
    return client


async def left(client: RawClient) -> None:
    """The producer is gone when this returns."""
    client.say(pb.Command.CLOSE_PRODUCER, producer_id=1)
    await client.expect("SUCCESS")


async def consumed(world: BrokerWorld) -> None:
    for name in list((await world.service.topics.get(NAME, create=False)).subscriptions.table):
        await world.admin.subscriptions.skip(SubscriptionSkip(topic=TOPIC, subscription=name))


async def exists(world: BrokerWorld) -> bool:
    return await world.meta.get_topic(TOPIC) is not None


async def unloaded(world: BrokerWorld) -> None:
    await world.service.topics.unload(NAME)
