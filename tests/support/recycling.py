"""A topic that was used, deleted into the recycle bin and restored, and what is left of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from messaging.adminrpc.recycle_bin import RecycleBinList, Recycled, RecycledRef
from messaging.adminrpc.topics import TopicDelete
from messaging.broker.runtime.local.sessions import LocalSessions
from tests.support.brokers.storage_broker import ADMIN, Inbox, publish
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

NAMESPACE = "acme/orders"
TOPIC = f"persistent://{NAMESPACE}/t"
PARTS = f"persistent://{NAMESPACE}/p"
PARTITIONS = (f"{PARTS}-partition-0", f"{PARTS}-partition-1")


async def used(world: BrokerWorld, topic: str = TOPIC, *, messages: int = 6, acknowledged: Sequence[int] = (0, 1, 3)) -> None:
    """Numbered messages, and subscription s, of which these are acknowledged."""
    await publish(world.service, 0, messages, topic=topic)
    inbox = Inbox()
    consumer = await LocalSessions(world.service).open_consumer(ADMIN, topic, "s", "Shared", "earliest", True, None, inbox)
    consumer.flow(messages)
    await eventually(lambda: len(inbox.messages) == messages)
    await consumer.ack([inbox.messages[index].position for index in acknowledged])
    consumer.close()


async def left(world: BrokerWorld, topic: str = TOPIC, *, expected: int = 3) -> list[bytes]:
    """What subscription s still gets."""
    inbox = Inbox()
    consumer = await LocalSessions(world.service).open_consumer(ADMIN, topic, "s", "Shared", "earliest", True, None, inbox)
    consumer.flow(100)
    await eventually(lambda: len(inbox.messages) >= expected)
    consumer.close()
    return sorted(message.payload for message in inbox.messages)


LEFT = [b"2", b"4", b"5"]


async def deleted(world: BrokerWorld, topic: str = TOPIC, **how: Any) -> str:
    """The id in the bin."""
    asked = TopicDelete(topic=topic, force=True, recycle=True, deleted_by="user:olga", **how)
    return (await world.admin.topics.delete(asked)).recycle_id


async def in_bin(world: BrokerWorld) -> list[Recycled]:
    return (await world.admin.recycle_bin.list(RecycleBinList(namespace=NAMESPACE))).items


def named(recycle_id: str) -> RecycledRef:
    return RecycledRef(namespace=NAMESPACE, recycle_id=recycle_id)
