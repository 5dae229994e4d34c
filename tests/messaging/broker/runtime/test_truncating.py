"""Truncating a topic under its clients: everything stored goes, acknowledged or not, and whoever is connected stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.adminrpc.topics import TopicRef
from messaging.errors import NotReady, TopicNotFound
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import Position, Unavailable
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
NAME = parse_topic(TOPIC)


async def sent(client: RawClient, sequence_id: int) -> Position:
    client.write(send_frame(sequence_id, b"%d" % sequence_id))
    receipt = await client.expect("SEND_RECEIPT")
    return Position(receipt.message_id.ledger_id, receipt.message_id.entry_id)


async def entries_stored(world: BrokerWorld) -> int:
    return sum(info.entries for info in await world.ledgers.ledgers() if "reserved" not in info.properties)


async def test_everything_goes_and_everybody_stays(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    for consumer_id, kind in enumerate((pb.Subscribe.Shared, pb.Subscribe.Exclusive, pb.Subscribe.Failover), 1):
        await client.subscribe(TOPIC, f"s{consumer_id}", consumer_id, sub_type=kind)
    assert await client.quiet() == ["ACTIVE_CONSUMER_CHANGE"]
    before = [await sent(client, index) for index in range(5)]
    client.say(pb.Command.FLOW, consumer_id=1, message_permits=2)
    await client.messages(2)  # held, and not acknowledged
    await world.admin.topics.truncate(TopicRef(topic=TOPIC))
    topic = world.service.topics.loaded[TOPIC]
    assert await entries_stored(world) == 0
    assert topic.ledger_list.entries == topic.ledger.stored_bytes == 0
    assert [one.backlog_entries for one in topic.subscriptions.table.values()] == [0, 0, 0]
    assert topic.subscriptions.table["s1"].unacked_messages == 0
    assert await client.quiet() == []
    after = await sent(client, 5)
    assert after > max(before)
    for consumer_id in (1, 2, 3):
        client.say(pb.Command.FLOW, consumer_id=consumer_id, message_permits=10)
        (message,) = await client.messages(1)
        found = message.body.message_id
        assert (message.text, Position(found.ledger_id, found.entry_id)) == (b"5", after)
    await world.service.topics.unload(NAME)
    topic = await world.service.topics.get(NAME, create=False)
    assert [one.backlog_entries for one in topic.subscriptions.table.values()] == [1, 1, 1]


async def test_ids_rise_over_any_number_of_truncations(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    last = Position(-1, -1)
    for index in range(3):
        for _ in range(2):  # the second finds nothing to do
            await world.admin.topics.truncate(TopicRef(topic=TOPIC))
        position = await sent(client, index)
        assert position > last
        last = position
    await world.service.topics.unload(NAME)
    await world.admin.topics.truncate(TopicRef(topic=TOPIC))  # nobody is connected now
    assert await entries_stored(world) == 0
    await client.expect("CLOSE_PRODUCER")
    await client.producer(TOPIC, producer_id=2)
    client.write(send_frame(9, b"9", 2))
    receipt: Any = await client.expect("SEND_RECEIPT")
    assert Position(receipt.message_id.ledger_id, receipt.message_id.entry_id) > last


async def test_what_is_on_its_way_is_answered(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, "s")
    world.ledgers.hold()
    client.write(send_frame(0, b"0"))
    await eventually(lambda: world.ledgers.kept_back > 0)
    truncating = asyncio.ensure_future(world.admin.topics.truncate(TopicRef(topic=TOPIC)))
    assert await client.quiet() == []
    world.ledgers.release()
    await truncating
    await client.expect("SEND_RECEIPT")
    assert await entries_stored(world) == 0


async def test_what_was_cut_off_is_finished_by_the_next_call(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, "s")
    await sent(client, 0)
    world.ledgers.fail_next("create", Unavailable("not now"))
    with pytest.raises(NotReady):
        await world.admin.topics.truncate(TopicRef(topic=TOPIC))
    topic = world.service.topics.loaded[TOPIC]
    await topic.recover()
    await world.admin.topics.truncate(TopicRef(topic=TOPIC))
    assert await entries_stored(world) == 0


async def test_duplicates_are_known_after_truncating(world: BrokerWorld) -> None:
    await world.feed(("namespace", "acme/orders", {"policies": {"deduplication": True}}))
    client = await world.connected("owner")
    await client.producer(TOPIC, producer_name="p")
    await sent(client, 0)
    await world.admin.topics.truncate(TopicRef(topic=TOPIC))
    await world.service.topics.unload(NAME)
    await client.expect("CLOSE_PRODUCER")
    await client.producer(TOPIC, producer_name="p", producer_id=2)
    client.write(send_frame(0, b"again", 2))
    receipt: Any = await client.expect("SEND_RECEIPT")
    # Its id is not remembered: -1:-1. This ended the connection, which the client then opened again, sending the same.
    assert (receipt.message_id.ledger_id, receipt.message_id.entry_id) == (2**64 - 1, 2**64 - 1)
    assert await entries_stored(world) == 0


async def test_every_partition_is_truncated(world: BrokerWorld) -> None:
    base = parse_topic("persistent://acme/orders/p")
    await world.service.topics.partitioned.create(base, 3, {})
    client = await world.connected("owner")
    for index in range(3):
        await client.producer(str(base.of_partition(index)), producer_id=index)
        client.write(send_frame(0, b"x", index))
        await client.expect("SEND_RECEIPT")
    await world.admin.topics.truncate(TopicRef(topic=str(base)))
    assert await entries_stored(world) == 0


async def test_a_topic_that_does_not_exist_is_not_made(world: BrokerWorld) -> None:
    with pytest.raises(TopicNotFound):
        await world.admin.topics.truncate(TopicRef(topic=TOPIC))
