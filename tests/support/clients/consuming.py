"""What tests of consumers over a raw connection share."""

from __future__ import annotations

from typing import Any

from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import RawClient, Received, send_frame
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
TOPIC = "persistent://acme/orders/t"


async def filled(world: BrokerWorld, count: int, topic: str = TOPIC) -> RawClient:
    """A producer that has sent `count` messages: its connection."""
    client = await world.connected("owner")
    await client.producer(topic)
    if count:
        client.write(*(send_frame(index, b"%d" % index) for index in range(count)))
        for _ in range(count):
            await client.expect("SEND_RECEIPT")
    return client


def id_of(received: Received, **fields: Any) -> pb.MessageId:
    message_id = received.body.message_id
    return pb.MessageId(ledger_id=message_id.ledger_id, entry_id=message_id.entry_id, **fields)


def ack(client: RawClient, *ids: pb.MessageId, consumer_id: int = 1, kind: Any = pb.Ack.Individual, **fields: Any) -> None:
    client.say(C.ACK, consumer_id=consumer_id, ack_type=kind, message_id=ids, **fields)


def texts(messages: list[Received]) -> list[bytes]:
    return [message.text for message in messages]
