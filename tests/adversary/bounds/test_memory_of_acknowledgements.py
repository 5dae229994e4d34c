"""What acknowledgements make the broker keep is counted, has a bound, and is given back; nothing answered is lost for it."""

from __future__ import annotations

import pytest

from messaging.adminrpc.topics import TopicRef
from messaging.broker.core import subscription as core
from messaging.protocol import pulsar_pb2 as pb
from tests.adversary.acknowledging import NAME, TOPIC, acknowledged, backlogs, published, subscribed
from tests.support.clients.raw_client import RawClient, batch_frame
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

BATCHES = 20


async def partly(client: RawClient, message_id: pb.MessageId, words: list[int]) -> str:
    """Acknowledges a part of a batch; the error it is answered with, "" for none."""
    partial = pb.MessageId(ledger_id=message_id.ledger_id, entry_id=message_id.entry_id, ack_set=words)
    client.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=[partial], request_id=3)
    answer = await client.expect("ACK_RESPONSE")
    return str(answer.message)


async def batches(world: BrokerWorld) -> list[pb.MessageId]:
    client = await world.connected()
    await client.producer(TOPIC)
    client.write(*[batch_frame(index, [b"a", b"b", b"c"]) for index in range(BATCHES)])
    return [(await client.expect("SEND_RECEIPT")).message_id for _ in range(BATCHES)]


def charged(world: BrokerWorld) -> int:
    world.service.sweep_memory()
    return world.service.memory_limiter.cursors.tenants.get("acme", 0)


async def test_memory_of_acknowledgements_is_charged_and_given_back(make_world: MakeWorld) -> None:
    world = await make_world()
    client = await subscribed(world, "s")
    ids = await published(world, 10)
    partial = await batches(world)
    assert charged(world) == 0
    await acknowledged(client, ids[2:9:2])
    holes = charged(world)
    assert holes > 0
    for message_id in partial:
        assert await partly(client, message_id, [0b110]) == ""
    assert charged(world) >= holes + 300 * BATCHES
    await world.admin.topics.unload(TopicRef(topic=TOPIC))
    assert charged(world) == 0
    before = await backlogs(world)  # loads it
    assert charged(world) >= holes + 300 * BATCHES
    after = await make_world(after=world)
    assert await backlogs(after) == before
    assert charged(after) >= holes + 300 * BATCHES
    topic = await after.service.topics.get(NAME, create=False)
    await topic.subscriptions.delete("s")
    assert charged(after) == 0


async def test_batches_acknowledged_in_part_have_a_bound_that_wedges_nobody(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ack sets of a subscription had none: each entry of a topic could be made to keep one, durably."""
    world = await make_world()
    client = await subscribed(world, "s")
    ids = await batches(world)
    monkeypatch.setattr(core, "ACK_SET_BYTES_MAX", 5 * 330)
    answers = [await partly(client, message_id, [0b110]) for message_id in ids]
    assert [bool(answer) for answer in answers] == [index >= 5 for index in range(BATCHES)]
    assert "acknowledge the rest of them" in answers[-1]
    cursor = (await world.service.topics.get(NAME, create=False)).subscriptions.table["s"].cursor
    assert len(cursor.batches) == 5
    # More of one that is kept is taken, and what completes one makes room for another.
    assert await partly(client, ids[0], [0b100]) == ""
    assert await partly(client, ids[19], [0b110]) != ""
    await acknowledged(client, ids[:1])
    assert await partly(client, ids[19], [0b110]) == ""
    # Whole entries are taken whatever there is.
    await acknowledged(client, ids[1:])
    assert await backlogs(world) == {"s": 0}
    assert not cursor.batches
    after = await make_world(after=world)
    assert await backlogs(after) == {"s": 0}


async def test_where_tenants_have_filled_the_account_whole_entries_are_taken_all_the_same(world: BrokerWorld) -> None:
    client = await subscribed(world, "s")
    ids = await batches(world)
    account = world.service.memory_limiter.cursors
    account.take("globex", account.limit_bytes)
    assert await partly(client, ids[0], [0b110]) != ""
    await acknowledged(client, ids[3:])
    account.give("globex", account.limit_bytes)
    assert await partly(client, ids[0], [0b110]) == ""
    assert await backlogs(world) == {"s": 3}
