"""Server-side dead letters over a raw connection: what is moved, to where, on whose behalf, exactly once."""

from __future__ import annotations

import pytest

from messaging.adminrpc.subscriptions import SubscriptionRef
from messaging.adminrpc.topics import TopicCreate
from messaging.broker.core.dead_letters import moves as dead_letter_moves
from messaging.broker.core.seek_target import SeekTarget
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import EARLIEST
from tests.support.clients.consuming import TOPIC, ack, filled, id_of, texts
from tests.support.clients.raw_client import RawClient, batch_frame, send_frame
from tests.support.clock import Clock, give
from tests.support.dead_letters import (
    TARGET,
    consumer,
    dead_letters,
    letters_of,
    metadata_of,
    moved,
    nack,
    policy_of,
    properties_of,
    rejected,
    set_policy,
    subscription_of,
)
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld


async def test_a_message_that_is_rejected_too_often_is_moved(world: BrokerWorld) -> None:
    client = await consumer(world, max_redeliver_count=2)
    found = await client.messages(3)
    for _ in range(2):
        nack(client, found[1])
        found[1] = (await client.messages(1))[0]
    assert found[1].body.redelivery_count == 2
    nack(client, found[1])
    await moved(world, 1)
    assert await client.quiet() == [], "it comes no more"
    (letter,) = await dead_letters(world, 1)
    assert letter.text == b"1"
    assert properties_of(letter) == {
        "REAL_TOPIC": TOPIC,
        "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": f"{found[1].body.message_id.ledger_id}:{found[1].body.message_id.entry_id}:-1",
        "DEAD_LETTER_REASON": "max redeliver count exceeded",
        "DEAD_LETTER_REDELIVERY_COUNT": "3",
    }
    ack(client, id_of(found[0]), id_of(found[2]))
    await client.quiet()
    assert subscription_of(world).backlog_entries == 0
    assert subscription_of(world, TARGET, "dead").backlog_entries == 1, "the initial subscription has it"


async def test_key_properties_and_bytes_stay_as_they_are(world: BrokerWorld) -> None:
    metadata = pb.Metadata(
        producer_name="raw",
        sequence_id=0,
        publish_time=5,
        partition_key="k",
        ordering_key=b"\x00\xff",
        event_time=77,
        compression=pb.LZ4,
        uncompressed_size=999,
        deliver_at_time=1,
        schema_version=b"12345678",
    )
    metadata.properties.add(key="mine", value="stays")
    metadata.properties.add(key="REAL_TOPIC", value="where it was before")
    key = metadata.encryption_keys.add()
    key.key, key.value = "public-key", b"sealed"
    client = await filled(world, 0)
    client.write(frames.build_send(1, 0, metadata, b"\x00not to be opened\xff"))
    await client.expect("SEND_RECEIPT")
    reader = await world.connected("reader")
    await reader.subscribe(TOPIC, permits=100)
    await set_policy(world, max_redeliver_count=0)
    await rejected(reader, 1)
    await moved(world, 1)
    (letter,) = await dead_letters(world, 1)
    found = metadata_of(letter)
    assert letter.text == b"\x00not to be opened\xff"
    assert (found.partition_key, found.ordering_key, found.event_time) == ("k", b"\x00\xff", 77)
    assert (found.compression, found.uncompressed_size, found.encryption_keys[0].value) == (pb.LZ4, 999, b"sealed")
    assert not found.HasField("deliver_at_time") and not found.HasField("schema_version")
    properties = properties_of(letter)
    assert (properties["mine"], properties["REAL_TOPIC"]) == ("stays", "where it was before")


async def test_of_a_batch_only_what_is_not_acknowledged_is_moved(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    client.write(batch_frame(0, [b"a", b"b", b"c", b"d"]))
    await client.expect("SEND_RECEIPT")
    reader = await world.connected("reader")
    await reader.subscribe(TOPIC, permits=100)
    await set_policy(world, max_redeliver_count=0)
    (batch,) = await reader.messages(1)
    ack(reader, id_of(batch, ack_set=[0b1010]))
    nack(reader, batch)
    await moved(world, 2)
    letters = await dead_letters(world, 2)
    assert texts(letters) == [b"b", b"d"]
    at = batch.body.message_id
    assert [properties_of(one)["ORIGIN_MESSAGE_ID"] for one in letters] == [
        f"{at.ledger_id}:{at.entry_id}:-1:{index}" for index in (1, 3)
    ]
    assert subscription_of(world).backlog_entries == 0


async def test_all_that_is_rejected_at_once_goes_in_few_moves(world: BrokerWorld) -> None:
    client = await consumer(world, 200, max_redeliver_count=0)
    nack(client, *(await client.messages(200)))
    await moved(world, 200)
    assert texts(await dead_letters(world, 200)) == [b"%d" % number for number in range(200)]
    await client.quiet()
    assert subscription_of(world).unacked.messages == 0


async def test_counting_goes_on_when_all_consumers_leave(world: BrokerWorld) -> None:
    client = await consumer(world, 1)
    for _ in range(2):
        await rejected(client, 1)
        await client.quiet()
        await client.close()
        await eventually(lambda: not subscription_of(world).consumers)
        client = await world.connected("reader")
        await client.subscribe(TOPIC, permits=10)
    await moved(world, 1)


async def test_a_failover_subscription_counts_nothing(world: BrokerWorld) -> None:
    await filled(world, 1)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=100, sub_type=pb.Subscribe.Exclusive)
    await set_policy(world, max_redeliver_count=0)
    await rejected(client, 3)
    await client.messages(1)
    assert (await policy_of(world)).waiting_entries == 0


# --- what is in the way


async def test_the_owner_of_the_policy_must_be_allowed_to_publish_to_the_target(world: BrokerWorld) -> None:
    clock = Clock()
    give(world.service, clock)
    client = await consumer(world, 1, max_redeliver_count=0, target="persistent://other/things/dead")
    await rejected(client, 1)
    await eventually(lambda: "lacks 'produce'" in letters_of(world).last_error)
    found = await policy_of(world)
    assert (found.waiting_entries, found.moved_messages) == (1, 0)
    assert "persistent://other/things/dead" not in world.service.topics.loaded, "nothing was created there"
    await world.feed(("namespace", "other/things", {"grants": {"owner@acme": ["produce", "consume"]}}))
    world.service.dead_letters.retry()
    assert (await policy_of(world)).waiting_entries == 1, "not before its time"
    clock.pass_(1_001)
    world.service.dead_letters.retry()
    await moved(world, 1)
    assert (await policy_of(world)).last_error == ""


async def test_a_target_that_cannot_be_created_delays_and_loses_nothing(world: BrokerWorld) -> None:
    clock = Clock()
    give(world.service, clock)
    client = await consumer(world, 1, max_redeliver_count=0, target="persistent://acme/strict/dead", owner="admin")
    await rejected(client, 1)
    await eventually(lambda: "does not exist" in letters_of(world).last_error)
    await world.admin.topics.create(TopicCreate(topic="persistent://acme/strict/dead"))
    clock.pass_(1_001)
    world.service.dead_letters.retry()
    await moved(world, 1)


async def test_removing_the_policy_sends_again_what_waited(world: BrokerWorld) -> None:
    client = await consumer(world, 1, max_redeliver_count=0, target="persistent://other/things/dead")
    await rejected(client, 1)
    await eventually(lambda: subscription_of(world).state.redeliveries.dead_entries == 1)
    await eventually(lambda: not letters_of(world).moving)
    await world.admin.dead_letters.remove(SubscriptionRef(topic=TOPIC, subscription="s"))
    (again,) = await client.messages(1)
    assert again.body.redelivery_count == 1
    assert (await policy_of(world)).target == ""
    await rejected_and_back(client)


async def rejected_and_back(client: RawClient) -> None:
    client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    await client.messages(1)


async def test_a_consumer_that_acknowledges_late_is_heard(world: BrokerWorld) -> None:
    client = await consumer(world, 1, max_redeliver_count=0, target="persistent://other/things/dead")
    (found,) = await client.messages(1)
    nack(client, found)
    await eventually(lambda: subscription_of(world).state.redeliveries.dead_entries == 1)
    ack(client, id_of(found), request_id=1)
    await client.expect("ACK_RESPONSE")
    assert (await policy_of(world)).waiting_entries == 0
    assert subscription_of(world).backlog_entries == 0


async def test_a_seek_sends_again_what_waited(world: BrokerWorld) -> None:
    client = await consumer(world, 1, max_redeliver_count=0, target="persistent://other/things/dead")
    await rejected(client, 1)
    await eventually(lambda: subscription_of(world).state.redeliveries.dead_entries == 1)
    topic = world.service.topics.loaded[TOPIC]
    await topic.subscriptions.seek(subscription_of(world), SeekTarget(EARLIEST))
    again = await world.connected("reader")
    await again.subscribe(TOPIC, permits=10)
    (found,) = await again.messages(1)
    assert found.body.redelivery_count == 0


async def test_a_tenant_with_many_dead_letters_does_not_hold_up_those_of_another(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_moves, "MOVE_ENTRIES_MAX", 1)  # of one turn
    other_topic, names = "persistent://other/things/t", [f"s{index}" for index in range(6)]
    other = await world.connected("stranger")
    await other.subscribe(other_topic, permits=10)
    await set_policy(world, topic=other_topic, max_redeliver_count=0, owner="stranger@other", initial_subscription="")
    await filled(world, 200)
    client = await world.connected("reader")
    for number, name in enumerate(names):
        await client.subscribe(TOPIC, name, consumer_id=number)
        await set_policy(world, subscription=name, max_redeliver_count=0, initial_subscription="")
    for number in range(len(names)):
        client.say(pb.Command.FLOW, consumer_id=number, message_permits=200)
    await other.producer(other_topic)
    other.write(send_frame(0, b"mine"))
    await other.expect("SEND_RECEIPT")
    await client.messages(200 * len(names))
    (mine,) = await other.messages(1)
    for number in range(len(names)):
        client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=number)

    def many() -> list[int]:
        letters = [subscription_of(world, name=name).dead_letters for name in names]
        return [one.moved_messages for one in letters if one is not None]

    await eventually(lambda: sum(many()))
    nack(other, mine)
    letters = subscription_of(world, other_topic).dead_letters
    await eventually(lambda: letters is not None and letters.moved_messages)
    assert sum(many()) < 600, "while no other subscription is through"
    await eventually(lambda: sum(many()) == 200 * len(names))
