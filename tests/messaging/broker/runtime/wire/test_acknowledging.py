"""Acknowledgements and redelivery over a raw connection."""

from __future__ import annotations

import pytest

from messaging.adminrpc.topics import StatsAsked
from messaging.broker.runtime.topics.moving import Moving
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import AppendFailed
from tests.support.clients.consuming import TOPIC, ack, filled, id_of, texts
from tests.support.clients.raw_client import RawClient, Received, batch_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

C = pb.Command
SHARED, EXCLUSIVE, FAILOVER = pb.Subscribe.Shared, pb.Subscribe.Exclusive, pb.Subscribe.Failover


async def test_what_is_acknowledged_does_not_come_again(world: BrokerWorld) -> None:
    await filled(world, 5)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    found = await client.messages(5)
    for index in (0, 2, 3):
        ack(client, id_of(found[index]))
    await client.quiet()
    await client.close()
    again = await world.connected("reader")
    await eventually(lambda: not world.service.topics.loaded[TOPIC].subscriptions.table["s"].consumers)
    await again.subscribe(TOPIC, permits=10)
    assert texts(await again.messages(2)) == [b"1", b"4"]
    assert await again.quiet() == []


async def test_an_answer_to_an_acknowledgement_comes_when_it_is_durable(world: BrokerWorld) -> None:
    await filled(world, 2)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    found = await client.messages(2)
    world.ledgers.hold()
    ack(client, id_of(found[0]), request_id=7)
    await eventually(lambda: world.ledgers.kept_back > 0)
    assert await client.quiet() == []
    world.ledgers.release()
    answer = await client.expect("ACK_RESPONSE")
    assert (answer.request_id, answer.consumer_id) == (7, 1)
    assert not answer.HasField("error")
    ack(client, id_of(found[0]), request_id=8)  # acknowledged already
    assert (await client.expect("ACK_RESPONSE")).request_id == 8


async def test_an_acknowledgement_that_is_not_stored_says_so(world: BrokerWorld) -> None:
    await filled(world, 2)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    found = await client.messages(2)
    world.ledgers.fail_appends(AppendFailed("disk"))
    ack(client, id_of(found[0]), request_id=7)
    answer = await client.expect("ACK_RESPONSE")
    assert answer.error == pb.PersistenceError
    assert not world.service.ready()[0]


@pytest.mark.parametrize("kind", [pb.Ack.Individual, pb.Ack.Cumulative])
async def test_what_is_acknowledged_while_a_topic_moves_is_refused_and_comes_again(world: BrokerWorld, kind: int) -> None:
    """Its cursors are saved by then, and whoever has it next goes on from there. Without an answer Go's client came back to the
    topic only after its timeout for each acknowledgement that it had under way, since it does nothing else meanwhile."""
    await filled(world, 2)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, sub_type=EXCLUSIVE, permits=10)
    found = await client.messages(2)
    moving = Moving("it moves")
    await world.service.topics.unload(parse_topic(TOPIC), moving)
    ack(client, id_of(found[0]), kind=kind, request_id=7)
    answer = await client.expect("ACK_RESPONSE")
    assert (answer.request_id, answer.error) == (7, pb.ServiceNotReady)
    moving.tell(None)
    await client.expect("CLOSE_CONSUMER")
    ack(client, id_of(found[0]), kind=kind, request_id=8)
    answer = await client.expect("ACK_RESPONSE")
    assert (answer.request_id, answer.error) == (8, pb.ServiceNotReady), "on its way when the consumer was closed"
    ack(client, id_of(found[0]), kind=kind)
    assert await client.quiet() == []
    await client.subscribe(TOPIC, sub_type=EXCLUSIVE, permits=10)
    assert texts(await client.messages(2)) == [b"0", b"1"]


async def test_acknowledging_up_to(world: BrokerWorld) -> None:
    await filled(world, 5)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, sub_type=EXCLUSIVE, permits=10)
    found = await client.messages(5)
    ack(client, id_of(found[2]), kind=pb.Ack.Cumulative, request_id=1)
    await client.expect("ACK_RESPONSE")
    assert world.service.topics.loaded[TOPIC].subscriptions.table["s"].backlog_entries == 2


async def test_acknowledging_up_to_is_not_for_shared(world: BrokerWorld) -> None:
    await filled(world, 3)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=10)
    found = await client.messages(3)
    ack(client, id_of(found[2]), kind=pb.Ack.Cumulative, request_id=1)
    assert (await client.expect("ACK_RESPONSE")).error == pb.NotAllowedError
    assert world.service.topics.loaded[TOPIC].subscriptions.table["s"].backlog_entries == 3


async def test_a_batch_acknowledged_in_part_comes_with_what_is_left(world: BrokerWorld) -> None:
    client = await filled(world, 0)
    client.write(batch_frame(0, [b"%d" % index for index in range(10)]))
    await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, permits=10)
    (entry,) = await client.messages(1)
    ack(client, id_of(entry, ack_set=[0b1111111011]), request_id=1)
    await client.expect("ACK_RESPONSE")
    client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=[id_of(entry)])
    client.say(C.FLOW, consumer_id=1, message_permits=9)
    (again,) = await client.messages(1)
    assert list(again.body.ack_set) == [1019]
    assert again.body.redelivery_count == 1
    ack(client, id_of(entry, ack_set=[0b100]), request_id=2)  # the other nine
    await client.expect("ACK_RESPONSE")
    assert world.service.topics.loaded[TOPIC].subscriptions.table["s"].backlog_entries == 0


async def test_a_consumer_at_its_bound_goes_on_as_soon_as_it_acknowledges(make_world: MakeWorld) -> None:
    """Acknowledging one batch freed room for its messages, and nobody looked: stuck until the next publish or flow."""
    world = await make_world(consumer_unacked_max=20)
    client = await filled(world, 0)
    client.write(*(batch_frame(10 * index, [b"x"] * 10) for index in range(4)))
    for _ in range(4):
        await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, permits=1000)
    found = await client.messages(2)
    assert await client.quiet() == []
    ack(client, id_of(found[0]))
    (third,) = await client.messages(1)
    ack(client, id_of(found[1]), id_of(third))
    await client.messages(1)


async def test_another_consumers_acknowledgement_frees_one_at_its_bound(make_world: MakeWorld) -> None:
    world = await make_world(consumer_unacked_max=2)
    await filled(world, 4)
    holder, other = await world.connected("reader"), await world.connected("reader")
    await holder.subscribe(TOPIC, permits=1000)
    found = await holder.messages(2)
    await other.subscribe(TOPIC, consumer_id=5)
    ack(other, id_of(found[0]), consumer_id=5)
    await other.quiet()
    assert texts(await holder.messages(1)) == [b"2"]


async def test_a_disconnect_hands_on_with_the_same_count(world: BrokerWorld) -> None:
    await filled(world, 4)
    gone, stays = await world.connected("reader"), await world.connected("reader")
    await gone.subscribe(TOPIC, permits=10)
    await gone.messages(4)
    await stays.subscribe(TOPIC, consumer_id=9, permits=10)
    assert await stays.quiet() == []
    await gone.close()
    found = await stays.messages(4)
    assert texts(found) == [b"0", b"1", b"2", b"3"]
    assert [one.body.redelivery_count for one in found] == [0] * 4


async def test_each_request_raises_the_count_by_one(world: BrokerWorld) -> None:
    await filled(world, 3)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=100)
    found = await client.messages(3)
    for count in (1, 2, 3):
        client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=[id_of(found[1])])
        (again,) = await client.messages(1)
        assert (again.text, again.body.redelivery_count) == (b"1", count)
    client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    assert [one.body.redelivery_count for one in await client.messages(3)] == [1, 4, 1]


async def test_a_request_with_foreign_ids_harms_nothing(world: BrokerWorld) -> None:
    await filled(world, 1)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=100)
    await client.messages(1)
    for entry_id in (2**32, 2**63, 2**64 - 1):
        ids = [pb.MessageId(ledger_id=2, entry_id=entry_id), pb.MessageId(ledger_id=entry_id, entry_id=0)]
        client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=ids)
        ack(client, *ids)
        for one in ids:
            ack(client, pb.MessageId(ledger_id=one.ledger_id, entry_id=one.entry_id, ack_set=[1]))
    assert await client.quiet() == []


# --- batches, one message at a time


async def batch_sent(world: BrokerWorld, sub_type: pb.Subscribe.SubType = SHARED) -> tuple[RawClient, Received]:
    """A consumer that was sent one batch of ten."""
    client = await filled(world, 0)
    client.write(batch_frame(0, [b"x"] * 10))
    await client.expect("SEND_RECEIPT")
    reader = await world.connected("reader")
    await reader.subscribe(TOPIC, permits=100, sub_type=sub_type)
    return reader, (await reader.messages(1))[0]


async def unacked(world: BrokerWorld) -> int:
    found = await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))
    return int(found.stats["subscriptions"]["s"]["consumers"][0]["unackedMessages"])


async def test_a_partial_acknowledgement_lowers_what_the_consumer_holds(world: BrokerWorld) -> None:
    reader, batch = await batch_sent(world)
    assert await unacked(world) == 10
    ack(reader, id_of(batch, ack_set=[0b11111_00000]), request_id=1)
    await reader.expect("ACK_RESPONSE")
    assert await unacked(world) == 5
    ack(reader, id_of(batch, ack_set=[0b00001_11111]), request_id=2)
    await reader.expect("ACK_RESPONSE")
    assert await unacked(world) == 1, "the two acknowledgements overlap"


async def test_a_broker_without_batch_index_acknowledgements_takes_whole_entries_only(make_world: MakeWorld) -> None:
    """As Pulsar with acknowledgmentAtBatchIndexLevelEnabled=false: what names a part is answered, and changes nothing."""
    world = await make_world(acknowledgment_at_batch_index_level=False)
    reader, batch = await batch_sent(world)
    ack(reader, id_of(batch, ack_set=[1]), request_id=1)
    assert not (await reader.expect("ACK_RESPONSE")).HasField("error")
    assert await unacked(world) == 10
    reader.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    (again,) = await reader.messages(1)
    assert list(again.body.ack_set) == []
    ack(reader, id_of(batch), request_id=2)
    await reader.expect("ACK_RESPONSE")
    assert await unacked(world) == 0


async def test_without_batch_index_acknowledgements_a_cumulative_one_stops_before_the_batch(make_world: MakeWorld) -> None:
    world = await make_world(acknowledgment_at_batch_index_level=False)
    client = await filled(world, 3)
    client.write(batch_frame(3, [b"x"] * 10))
    await client.expect("SEND_RECEIPT")
    reader = await world.connected("reader")
    await reader.subscribe(TOPIC, permits=100, sub_type=EXCLUSIVE)
    found = await reader.messages(4)
    ack(reader, id_of(found[3], ack_set=[0b11111_00000]), kind=pb.Ack.Cumulative, request_id=1)
    assert not (await reader.expect("ACK_RESPONSE")).HasField("error")
    subscription = world.service.topics.loaded[TOPIC].subscriptions.table["s"]
    assert (subscription.backlog_entries, len(subscription.cursor.batches)) == (1, 0)
