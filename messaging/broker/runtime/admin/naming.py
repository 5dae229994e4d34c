"""Names in requests of the admin RPC, and the topics they stand for."""

from __future__ import annotations

from typing import NamedTuple

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import MagnetarError, NotAllowed, NotReady, TopicNotFound
from messaging.protocol.names import TopicName, parse_topic


async def topic_name(broker: Broker, text: str) -> TopicName:
    """Raises `InvalidName`, and `NotFound` for a namespace that does not exist."""
    name = parse_topic(text)
    await broker.require_namespace(str(name.namespace))
    return name


async def stored_topic_name(broker: Broker, text: str, what: str, refused: type[MagnetarError] = NotAllowed) -> TopicName:
    """As `topic_name`; raises `refused` for a non-persistent topic, of which `what` is not possible."""
    name = await topic_name(broker, text)
    if not name.persistent:
        raise refused(f"{what} a non-persistent topic is not possible: its messages are stored nowhere")
    return name


async def plain_topic(broker: Broker, text: str, refused: type[MagnetarError] = NotAllowed) -> Topic:
    """A topic that has messages of its own; raises `refused` for a partitioned one, `TopicNotFound`."""
    name = await topic_name(broker, text)
    await check_plain(broker, name, refused)
    return await broker.topics.get(name, create=False)


async def read_topic(broker: Broker, text: str) -> Topic:
    """As `plain_topic`; to those who read it, a partitioned topic does not exist as a plain one, as in Pulsar."""
    return await plain_topic(broker, text, TopicNotFound)


async def check_plain(broker: Broker, name: TopicName, refused: type[MagnetarError] = NotAllowed) -> None:
    if name.partition < 0 and await broker.topics.partitioned.get(name) is not None:
        raise refused(f"{name} is a partitioned topic: use one of its partitions, {name}-partition-0 and so on")


class Parts(NamedTuple):
    """The topics that hold the messages of a name: the topic itself, or those of its partitions that this broker serves."""

    names: list[TopicName]
    partitioned: bool


async def parts_of(broker: Broker, name: TopicName) -> Parts:
    record = await broker.topics.partitioned.get(name)
    if record is None:
        return Parts([name], partitioned=False)
    names = await broker.owners.own([name.of_partition(index) for index in range(record.partitions)])
    if not names:
        raise NotReady(f"this broker serves no partition of {name} any more: try again in a moment")
    return Parts(names, partitioned=True)
