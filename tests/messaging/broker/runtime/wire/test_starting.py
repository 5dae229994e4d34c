"""Where subscriptions start: what Pulsar 4.0.8 was seen to do with message ids, initial positions and roll-back times."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.consuming import TOPIC, ack, id_of, texts
from tests.support.clients.raw_client import RawClient, batch_frame, send_frame
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
LATEST, EARLIEST = 2**63 - 1, 2**64 - 1
AGE_MS = 60_000  # of the first three messages; the other two are new


async def aged(world: BrokerWorld) -> int:
    """Five messages. Returns their ledger."""
    client, now_ms = await world.connected("owner"), world.service.now_ms()
    await client.producer(TOPIC)
    for index in range(5):
        published = now_ms - (AGE_MS if index < 3 else 0)
        metadata = pb.Metadata(producer_name="p", sequence_id=index, publish_time=published)
        client.write(frames.build_send(1, index, metadata, b"%d" % index))
        receipt = await client.expect("SEND_RECEIPT")
    return int(receipt.message_id.ledger_id)


async def check_delivery(client: RawClient, expected: str) -> None:
    """One message for each letter, and no more."""
    assert texts(await client.messages(len(expected))) == [letter.encode() for letter in expected]
    assert await client.quiet() == []


def at(entry: int, **fields: int) -> dict[str, Any]:
    return {"start": (0, entry), **fields}


@pytest.mark.parametrize(
    ("fields", "reader", "durable"),
    [
        (at(2), "234", ""),
        (at(2, batch_index=1), "234", ""),
        (at(20), "", ""),
        ({"start": (100, 0)}, "", ""),
        ({}, "", ""),
        ({"initial_position": pb.Subscribe.Earliest}, "01234", "01234"),
        ({"start_message_rollback_duration_sec": 3600}, "01234", "01234"),
        ({"start_message_rollback_duration_sec": AGE_MS // 2000}, "34", "34"),
        ({"start_message_rollback_duration_sec": 2**63}, "01234", "01234"),
        (at(LATEST, start_message_rollback_duration_sec=3600), "01234", "01234"),
        (at(EARLIEST, start_message_rollback_duration_sec=AGE_MS // 2000), "34", "34"),
    ],
)
async def test_where_it_starts(world: BrokerWorld, fields: dict[str, Any], reader: str, durable: str) -> None:
    ledger_id = await aged(world)
    client, fields = await world.connected("reader"), dict(fields)
    start = fields.pop("start", None)
    if start is not None:
        offset, entry = start
        ends = entry in (LATEST, EARLIEST)
        extra = {"batch_index": fields.pop("batch_index")} if "batch_index" in fields else {}
        fields["start_message_id"] = pb.MessageId(ledger_id=entry if ends else ledger_id + offset, entry_id=entry, **extra)
    fields = {"initial_position": pb.Subscribe.Latest, "sub_type": pb.Subscribe.Exclusive} | fields
    await client.subscribe(TOPIC, "r", 1, 10, durable=False, **fields)
    await check_delivery(client, reader)
    await client.subscribe(TOPIC, "d", 2, 10, durable=True, **fields)
    await check_delivery(client, durable)


async def test_a_roll_back_moves_a_subscription_that_nobody_uses(world: BrokerWorld) -> None:
    await aged(world)
    client = await world.connected("reader")
    back: dict[str, Any] = {"start_message_rollback_duration_sec": AGE_MS // 2000}
    await client.subscribe(TOPIC, permits=10)
    ack(client, *(id_of(one) for one in await client.messages(5)))
    await client.subscribe(TOPIC, consumer_id=2, permits=10, **back)
    assert await client.quiet() == [], "somebody uses it"
    for consumer_id in (1, 2):
        client.say(C.CLOSE_CONSUMER, consumer_id=consumer_id)
        await client.expect("SUCCESS")
    await client.subscribe(TOPIC, consumer_id=3, permits=10, **back)
    await check_delivery(client, "34")


async def test_where_a_reader_begins_counts_for_its_first_consumer_only(world: BrokerWorld) -> None:
    ledger_id = await aged(world)
    one, two = await world.connected("reader"), await world.connected("reader")
    start: dict[str, Any] = {"durable": False, "sub_type": pb.Subscribe.Shared}
    await one.subscribe(TOPIC, "r", start_message_id=pb.MessageId(ledger_id=ledger_id, entry_id=3), **start)
    await two.subscribe(TOPIC, "r", permits=10, start_message_id=pb.MessageId(ledger_id=ledger_id, entry_id=0), **start)
    await check_delivery(two, "34")


async def test_a_reader_in_the_middle_of_a_batch_gets_the_batch(world: BrokerWorld) -> None:
    """The client drops what it does not want of it."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.write(batch_frame(0, [b"a", b"b", b"c"]), send_frame(1, b"after"))
    first = (await client.expect("SEND_RECEIPT")).message_id
    await client.expect("SEND_RECEIPT")
    start = pb.MessageId(ledger_id=first.ledger_id, entry_id=0, batch_index=1, batch_size=3)
    await client.subscribe(TOPIC, "r", 1, 10, durable=False, start_message_id=start)
    batch, single = await client.messages(2)
    assert (batch.body.message_id.entry_id, list(batch.body.ack_set), single.text) == (0, [], b"after")
