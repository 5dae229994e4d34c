"""Disconnecting clients: those that are meant, no others, and nobody where it is only asked."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.clients import ClientsDisconnect, ClientsDisconnected
from messaging.broker.core.turns.turn_budget import SLICE_COST
from messaging.broker.runtime.detach import DETACH_COST
from messaging.errors import InvalidValue, TopicNotFound
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"


@pytest.fixture
async def two(world: BrokerWorld) -> tuple[RawClient, RawClient]:
    """Two connections, each with a producer and a consumer of its own name on one Shared subscription."""
    clients = await world.connected("owner"), await world.connected("owner")
    for name, client in zip("ab", clients, strict=True):
        await client.producer(TOPIC, producer_name=f"p-{name}")
        await client.subscribe(TOPIC, consumer_name=f"c-{name}", sub_type=pb.Subscribe.Shared)
    return clients


async def disconnect(world: BrokerWorld, **fields: Any) -> tuple[int, int]:
    answer = await world.admin.clients.disconnect(ClientsDisconnect(**{"topic": TOPIC} | fields))
    assert isinstance(answer, ClientsDisconnected)
    return answer.producers, answer.consumers


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({}, (2, 2)),
        ({"kind": "producer"}, (2, 0)),
        ({"kind": "consumer"}, (0, 2)),
        ({"kind": "producer", "name": "p-a"}, (1, 0)),
        ({"name": "c-b"}, (0, 1)),
        ({"subscription": "s"}, (0, 2)),
        ({"subscription": "other"}, (0, 0)),
        ({"kind": "consumer", "name": "p-a"}, (0, 0)),
        ({"address": "192.0.2.1:1"}, (0, 0)),
    ],
)
async def test_a_dry_run_counts_and_disconnects_nobody(
    world: BrokerWorld, two: tuple[RawClient, RawClient], fields: dict[str, str], counts: tuple[int, int]
) -> None:
    assert await disconnect(world, **fields, dry_run=True) == counts
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    assert len(topic.producers) == 2 and len(topic.subscriptions.table["s"].consumers) == 2
    assert await disconnect(world, **fields) == counts
    assert await disconnect(world, **fields) == (0, 0), "they are gone"


async def test_only_the_one_that_is_named_is_told(world: BrokerWorld, two: tuple[RawClient, RawClient]) -> None:
    first, second = two
    assert await disconnect(world, name="p-a") == (1, 0)
    assert (await first.expect("CLOSE_PRODUCER")).producer_id == 1
    assert await disconnect(world, kind="consumer", name="c-a") == (0, 1)
    assert (await first.expect("CLOSE_CONSUMER")).consumer_id == 1
    second.write(send_frame(0, b"x"))
    await second.expect("SEND_RECEIPT")
    await first.producer(TOPIC, producer_id=7, producer_name="p-a")  # the connection stays, and opens it again


async def test_a_connection_is_named_by_its_address(world: BrokerWorld, two: tuple[RawClient, RawClient]) -> None:
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    address = next(producer.client.address for producer in topic.producers if producer.name == "p-b")
    assert await disconnect(world, address=address) == (1, 1)
    assert [producer.name for producer in topic.producers] == ["p-a"]
    assert [consumer.name for consumer in topic.subscriptions.table["s"].consumers] == ["c-a"]


async def test_what_a_consumer_had_is_sent_to_another(world: BrokerWorld, two: tuple[RawClient, RawClient]) -> None:
    first, second = two
    first.say(pb.Command.FLOW, consumer_id=1, message_permits=10)
    first.write(send_frame(0, b"x"))
    assert {(await first.next()).name for _ in range(2)} == {"SEND_RECEIPT", "MESSAGE"}
    assert await disconnect(world, kind="consumer", name="c-a") == (0, 1)
    second.say(pb.Command.FLOW, consumer_id=1, message_permits=10)
    assert len(await second.messages(1)) == 1


async def test_the_clients_of_every_partition_go(world: BrokerWorld) -> None:
    await world.service.topics.partitioned.create(parse_topic(TOPIC), 3, {})
    client = await world.connected("owner")
    for index in range(2):
        await client.producer(f"{TOPIC}-partition-{index}", producer_id=index, producer_name="p")
    assert await disconnect(world, name="p", dry_run=True) == (2, 0)
    assert await disconnect(world, name="p") == (2, 0)


async def test_many_leave_in_slices_of_turns(world: BrokerWorld) -> None:
    client, count = await world.connected("owner"), SLICE_COST // DETACH_COST * 2
    for index in range(count):
        await client.producer(TOPIC, producer_id=index, producer_name=f"p-{index}")
    turns = world.service.peers.turn_loop.turns
    before = turns.number
    assert await disconnect(world) == (count, 0)
    assert turns.number - before > 1


async def test_what_is_asked_wrongly_is_said(world: BrokerWorld) -> None:
    await world.service.topics.create(parse_topic(TOPIC), {})
    with pytest.raises(InvalidValue, match="kind 'reader' is not known: use producer or consumer"):
        await disconnect(world, kind="reader")
    with pytest.raises(InvalidValue, match="a producer has no subscription"):
        await disconnect(world, kind="producer", subscription="s")
    with pytest.raises(TopicNotFound):
        await disconnect(world, topic="persistent://acme/orders/absent")
