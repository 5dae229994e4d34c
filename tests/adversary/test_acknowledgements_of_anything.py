"""Acknowledgements, seeks and redeliveries of positions that do not exist, at the edges of every number, on a real broker.

Seen: a cumulative acknowledgement of entry 2^64-1 moved the mark-delete position; from then on no checkpoint of any topic
succeeded, and unload answered 500 and dropped the answered acknowledgements of the topic's other subscriptions."""

from __future__ import annotations

import itertools

import pytest

from messaging.adminrpc.topics import StatsAsked, TopicRef
from messaging.broker.runtime.wire.sinks import MessageSender
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import Position
from tests.adversary.acknowledging import NAME, TOPIC, acknowledged, backlogs, published, subscribed
from tests.support.clients.raw_client import batch_frame
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

EDGES = [0, 9, 10, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("kind", [pb.Subscribe.Exclusive, pb.Subscribe.Shared])
async def test_no_acknowledgement_stops_a_checkpoint_or_an_unload(make_world: MakeWorld, kind: int) -> None:
    world = await make_world()
    other = await subscribed(world, "other")
    ids = await published(world, 10)
    await acknowledged(other, ids[4:8])
    ledger_id = ids[0].ledger_id
    bad = await world.connected()
    await bad.subscribe(TOPIC, "bad", 1, sub_type=kind)
    for ledger, entry, ack_type in itertools.product(
        [0, ledger_id, ledger_id + 1, *EDGES], EDGES, [pb.Ack.Cumulative, pb.Ack.Individual]
    ):
        for ack_set in ([], [1], [-1] * 3):
            if (ledger, entry) in ((ledger_id, 0), (ledger_id, 9)):
                continue  # these exist
            message_id = pb.MessageId(ledger_id=ledger, entry_id=entry, ack_set=ack_set)
            bad.say(pb.Command.ACK, consumer_id=1, ack_type=ack_type, message_id=[message_id])
        bad.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=[message_id])
        assert set(await bad.quiet()) <= {"MESSAGE"}
    assert await backlogs(world) == {"other": 6, "bad": 10}
    await world.service.cursors.checkpoint()
    assert not world.service.cursors.states.unsaved and not world.service.cursors.health.failures
    await world.admin.topics.unload(TopicRef(topic=TOPIC))
    assert await backlogs(world) == {"other": 6, "bad": 10}
    after = await make_world(after=world)
    assert await backlogs(after) == {"other": 6, "bad": 10}


async def test_no_seek_stops_a_checkpoint_or_an_unload(world: BrokerWorld) -> None:
    client = await subscribed(world, "other")
    ids = await published(world, 10)
    await acknowledged(client, ids[4:8])
    for ledger, entry in itertools.product([0, ids[0].ledger_id, *EDGES], EDGES):
        seeker = await world.connected()
        await seeker.subscribe(TOPIC, "bad")
        seeker.say(pb.Command.SEEK, consumer_id=1, message_id=pb.MessageId(ledger_id=ledger, entry_id=entry))
        assert {(await seeker.next()).name for _ in range(2)} == {"CLOSE_CONSUMER", "SUCCESS"}
        topic = await world.service.topics.get(NAME, create=False)
        mark = topic.subscriptions.table["bad"].cursor.mark_delete
        assert mark == Position(-1, -1) or topic.ledger_list.holds(mark)
        await seeker.close()
    await world.service.cursors.checkpoint()
    await world.admin.topics.unload(TopicRef(topic=TOPIC))
    assert (await backlogs(world))["other"] == 6
    assert not world.service.cursors.health.failures


async def test_a_partial_batch_alone_is_sent_with_its_ack_set(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: every delivery of the subscription went through protobuf from then on."""
    client = await subscribed(world, "s")
    await client.producer(TOPIC)
    client.write(*[batch_frame(index, [b"a", b"b"]) for index in range(50)])
    ids = [(await client.expect("SEND_RECEIPT")).message_id for _ in range(50)]
    partial = pb.MessageId(ledger_id=ids[20].ledger_id, entry_id=ids[20].entry_id, ack_set=[2])
    client.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=[partial], request_id=3)
    await client.expect("ACK_RESPONSE")
    heads = 0
    made = MessageSender.encode_head

    def counting(*given: object) -> bytes:
        nonlocal heads
        heads += 1
        return made(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(MessageSender, "encode_head", counting)
    client.say(pb.Command.FLOW, consumer_id=1, message_permits=1000)
    messages = await client.messages(50)
    assert heads == 1
    assert [list(message.body.ack_set) for message in messages] == [[2] if index == 20 else [] for index in range(50)]
    assert [message.body.message_id.entry_id for message in messages] == [message_id.entry_id for message_id in ids]
    client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=ids[30:33])
    again = await client.messages(3)
    assert [(message.body.message_id.entry_id, message.body.redelivery_count) for message in again] == [
        (message_id.entry_id, 1) for message_id in ids[30:33]
    ]
    assert heads == 4


async def test_a_damaged_entry_on_a_shared_subscription_holds_nothing_up(make_world: MakeWorld) -> None:
    """Seen: an entry that storage cannot give can never be acknowledged, and held mark-delete and retention for ever."""
    world = await make_world()
    ids = [(await published(world, 1))[0] for _ in range(10)]  # a block each
    await world.admin.topics.unload(TopicRef(topic=TOPIC))
    world.ledgers.damage(ids[3].ledger_id, ids[3].entry_id)
    client = await subscribed(world, "s")
    client.say(pb.Command.FLOW, consumer_id=1, message_permits=100)
    messages = await client.messages(9)
    await acknowledged(client, [message.body.message_id for message in messages])
    topic = await world.service.topics.get(NAME, create=False)
    subscription = topic.subscriptions.table["s"]
    assert subscription.backlog_entries == 0 and subscription.entries_lost == 1
    assert subscription.cursor.mark_delete == topic.ledger_list.last
    stats = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats
    assert stats["subscriptions"]["s"]["unreadableEntries"] == 1
    await client.quiet()
    after = await make_world(after=world)
    assert await backlogs(after) == {"s": 0}, "that it was passed over is as durable as an acknowledgement"
