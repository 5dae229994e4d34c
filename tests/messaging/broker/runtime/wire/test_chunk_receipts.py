"""Receipts of chunks where the topic is deduplicated."""

from __future__ import annotations

from tests.support.clients.chunking import chunk_frame
from tests.support.clients.raw_client import send_frame
from tests.support.policies import set_policies
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"


async def test_each_says_where_its_entry_is(world: BrokerWorld) -> None:
    """Of a message that its producer left incomplete too: those of the whole block were one too low."""
    await set_policies(world, deduplication=True)
    client = await world.connected("owner")
    await client.producer(TOPIC, producer_name="p")
    incomplete = [chunk_frame(0, b"x", number, 3) for number in range(2)]
    client.write(b"".join([*incomplete, send_frame(5, b"y"), send_frame(6, b"z")]))
    found = [await client.expect("SEND_RECEIPT") for _ in range(4)]
    assert [one.message_id.entry_id for one in found] == [0, 1, 2, 3]
    client.write(b"".join([send_frame(6, b"z"), *(chunk_frame(7, b"x", number, 3) for number in range(2)), send_frame(8, b"y")]))
    found = [await client.expect("SEND_RECEIPT") for _ in range(4)]
    assert [one.message_id.entry_id for one in found] == [3, 4, 5, 6]
