"""What tests of non-persistent topics over a raw connection share."""

from __future__ import annotations

from typing import Any

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.clients.raw_client import RawClient, Received
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "non-persistent://acme/orders/t"
NAME = parse_topic(TOPIC)


def ids(messages: list[Received]) -> list[tuple[int, int, int]]:
    return [
        (message.body.message_id.ledger_id, message.body.message_id.entry_id, message.body.message_id.partition)
        for message in messages
    ]


async def of_type(client: RawClient, name: str) -> list[Received]:
    """What is there of this type by now."""
    client.write(frames.PING)
    answers = []
    while (answer := await client.next()).name != "PONG":
        answers.append(answer)
    return [answer for answer in answers if answer.name == name]


async def both(world: BrokerWorld, kind: Any = pb.Subscribe.Exclusive, permits: int = 10) -> tuple[RawClient, RawClient]:
    """A producer and a consumer."""
    producer, consumer = await world.connected("owner"), await world.connected("owner")
    await producer.producer(TOPIC)
    await consumer.subscribe(TOPIC, permits=permits, sub_type=kind)
    return producer, consumer
