"""Steps of the tests about acknowledgements: messages are published, subscriptions made, messages acknowledged."""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
NAME = parse_topic(TOPIC)


async def published(world: BrokerWorld, count: int) -> list[pb.MessageId]:
    client = await world.connected()
    await client.producer(TOPIC)
    client.write(*[send_frame(index, b"%d" % index) for index in range(count)])
    return [(await client.expect("SEND_RECEIPT")).message_id for _ in range(count)]


async def acknowledged(client: RawClient, ids: list[pb.MessageId], consumer_id: int = 1) -> None:
    """Answered, one by one."""
    for message_id in ids:
        client.say(pb.Command.ACK, consumer_id=consumer_id, ack_type=pb.Ack.Individual, message_id=[message_id], request_id=7)
        assert not (await client.expect("ACK_RESPONSE")).HasField("error")


async def backlogs(world: BrokerWorld) -> dict[str, int]:
    topic = await world.service.topics.get(NAME, create=False)
    return {name: subscription.backlog_entries for name, subscription in topic.subscriptions.table.items()}


async def subscribed(world: BrokerWorld, *names: str) -> RawClient:
    client = await world.connected()
    for consumer_id, name in enumerate(names, 1):
        await client.subscribe(TOPIC, name, consumer_id)
    return client
