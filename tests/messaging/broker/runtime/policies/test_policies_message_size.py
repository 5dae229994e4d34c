"""The largest message of a topic: refused one by one, each in its place among the receipts."""

from __future__ import annotations

import asyncio

import pytest

from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import MessageTooLarge
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.storage_broker import Sender
from tests.support.clients.raw_client import send_frame
from tests.support.policies import TOPIC, set_policies
from tests.support.worlds.broker_world import BrokerWorld

LIMIT = 1_000


async def test_policy_max_message_size_bytes_refuses_what_is_larger(world: BrokerWorld) -> None:
    await set_policies(world, max_message_size_bytes=LIMIT)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    for sequence, payload in enumerate((b"x" * 100, b"x" * LIMIT, b"x" * 200)):
        client.write(send_frame(sequence, payload))
    assert (await client.expect("SEND_RECEIPT")).sequence_id == 0
    error = await client.expect("SEND_ERROR")
    assert (error.sequence_id, error.error) == (1, pb.NotAllowedError)
    assert "max_message_size_bytes of the topic is 1000" in error.message
    assert (await client.expect("SEND_RECEIPT")).sequence_id == 2
    await set_policies(world)
    client.write(send_frame(3, b"x" * 5 * LIMIT))
    assert (await client.expect("SEND_RECEIPT")).sequence_id == 3
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    assert topic.ledger_list.entries == 3


async def test_policy_max_message_size_bytes_counts_metadata_and_allows_the_limit_itself(
    world: BrokerWorld,
) -> None:
    frame = send_frame(0, b"x" * 100)
    await set_policies(world, max_message_size_bytes=1)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.write(frame)
    size = int((await client.expect("SEND_ERROR")).message.partition(" has ")[2].partition(" bytes")[0])
    assert 100 < size < 150
    await set_policies(world, max_message_size_bytes=size)
    client.write(frame)
    await client.expect("SEND_RECEIPT")
    await set_policies(world, max_message_size_bytes=size - 1)
    client.write(send_frame(1, b"x" * 100))
    await client.expect("SEND_ERROR")


async def test_policy_max_message_size_bytes_limits_producers_inside_the_process_too(world: BrokerWorld) -> None:
    await set_policies(world, max_message_size_bytes=LIMIT)
    sender = await Sender.open(world.service, "ingest", TOPIC)
    await asyncio.wait_for(sender.send_messages([OutgoingMessage(b"x")]), 10)
    with pytest.raises(MessageTooLarge, match="max_message_size_bytes"):
        await asyncio.wait_for(sender.send_messages([OutgoingMessage(b"x" * LIMIT)]), 10)
    sender.producer.close()
