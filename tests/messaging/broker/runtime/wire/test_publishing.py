"""Producers over a raw connection: receipts in order and only for what is durable, errors in their place."""

from __future__ import annotations

import pytest

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.chunking import chunk_frames
from tests.support.clients.publishing import TOPIC, damaged, producing, receipts
from tests.support.clients.raw_client import RawClient, batch_frame, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

C = pb.Command


async def test_receipts_come_in_order_with_consecutive_ids(world: BrokerWorld) -> None:
    client = await producing(world)
    client.write(*(send_frame(index, b"x") for index in range(100)))
    ids = []
    for index in range(100):
        receipt = await client.expect("SEND_RECEIPT")
        assert (receipt.producer_id, receipt.sequence_id) == (1, index)
        ids.append((receipt.message_id.ledger_id, receipt.message_id.entry_id))
    assert [entry for _, entry in ids] == list(range(100))
    assert len({ledger for ledger, _ in ids}) == 1


async def test_a_batch_is_one_entry_with_one_receipt(world: BrokerWorld) -> None:
    client = await producing(world)
    client.write(batch_frame(0, [b"a", b"b", b"c"]), batch_frame(3, [b"d"]))
    assert await receipts(client, 2) == [(1, 0), (1, 3)]
    topic = world.service.topics.loaded[TOPIC]
    assert topic.ledger_list.entries == 2
    assert topic.publisher.messages_in == 4


async def test_two_producers_of_one_connection_interleaved(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC, 1, producer_name="one")
    await client.producer(TOPIC + "2", 2, producer_name="two")
    await client.producer(TOPIC, 3, producer_name="three")
    frames_in = [send_frame(index, b"%d" % producer, producer) for index in range(20) for producer in (1, 2, 3)]
    client.write(*frames_in)
    found = await receipts(client, 60)
    for producer in (1, 2, 3):
        assert [sequence for one, sequence in found if one == producer] == list(range(20))
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 40
    assert world.service.topics.loaded[TOPIC + "2"].ledger_list.entries == 20


async def test_no_receipt_before_the_message_is_durable(world: BrokerWorld) -> None:
    client = await producing(world)
    await client.subscribe(TOPIC, permits=10)
    world.ledgers.hold()
    client.write(send_frame(0, b"x"))
    await eventually(lambda: world.ledgers.kept_back > 0)
    client.say(C.GET_LAST_MESSAGE_ID, consumer_id=1)
    answer = await client.expect("GET_LAST_MESSAGE_ID_RESPONSE")  # no receipt and no message came before it
    assert answer.last_message_id.entry_id == frames.NO_ID
    world.ledgers.release()
    assert {(await client.next()).name, (await client.next()).name} == {"SEND_RECEIPT", "MESSAGE"}


async def test_a_close_comes_after_the_receipts(world: BrokerWorld) -> None:
    client = await producing(world)
    world.ledgers.hold()
    close, request_id = client.frame(C.CLOSE_PRODUCER, producer_id=1)
    client.write(send_frame(0, b"x"), send_frame(1, b"y"), close)
    await eventually(lambda: world.ledgers.kept_back > 0)
    assert await client.quiet() == []
    world.ledgers.release()
    assert await receipts(client, 2) == [(1, 0), (1, 1)]
    assert (await client.expect("SUCCESS")).request_id == request_id
    assert len(world.service.topics.loaded[TOPIC].producers) == 0


async def test_closing_twice_or_what_never_was(world: BrokerWorld) -> None:
    client = await producing(world)
    for producer_id in (1, 1, 77):
        request_id = client.say(C.CLOSE_PRODUCER, producer_id=producer_id)
        assert (await client.expect("SUCCESS")).request_id == request_id


async def test_a_damaged_message_is_answered_in_its_place(world: BrokerWorld) -> None:
    """Clients take answers for the head of their queue: an error that overtakes a receipt makes them drop the connection."""
    client = await producing(world)
    world.ledgers.hold()
    client.write(send_frame(0, b"a"), damaged(1), send_frame(2, b"c"), damaged(3))
    await eventually(lambda: world.ledgers.kept_back > 0)
    assert await client.quiet() == []
    world.ledgers.release()
    found = [await client.next() for _ in range(4)]
    assert [(one.name, one.body.sequence_id) for one in found] == [
        ("SEND_RECEIPT", 0),
        ("SEND_ERROR", 1),
        ("SEND_RECEIPT", 2),
        ("SEND_ERROR", 3),
    ]
    assert found[1].body.error == pb.ChecksumError
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 2


async def test_a_damaged_message_alone_is_answered_at_once(world: BrokerWorld) -> None:
    client = await producing(world)
    client.write(damaged(0))
    assert (await client.expect("SEND_ERROR")).error == pb.ChecksumError
    client.write(send_frame(0, b"again"))
    assert await receipts(client, 1) == [(1, 0)]


@pytest.mark.parametrize("field", [{"txnid_least_bits": 1}, {"txnid_most_bits": 1}, {"marker": True}])
async def test_what_is_not_served_is_refused_and_not_stored(world: BrokerWorld, field: dict[str, object]) -> None:
    client = await producing(world)
    head = pb.Command(type=C.SEND, send=pb.Send(producer_id=1, sequence_id=0, **field)).SerializeToString()  # type: ignore[arg-type]
    whole = send_frame(0, b"x")
    rest = whole[8 + int.from_bytes(whole[4:8], "big") :]
    client.write((4 + len(head) + len(rest)).to_bytes(4, "big") + len(head).to_bytes(4, "big") + head + rest)
    assert (await client.expect("SEND_ERROR")).error == pb.NotAllowedError
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 0


async def deduplicating(world: BrokerWorld) -> RawClient:
    await world.feed(("namespace", "acme/orders", {"policies": {"deduplication": True}}))
    return await producing(world, producer_name="p")


async def test_a_duplicate_has_no_receipt_before_its_original_is_durable(world: BrokerWorld) -> None:
    """The original came over a connection that broke, and is still on its way to the disk: a receipt now would promise too much."""
    first = await deduplicating(world)
    world.ledgers.hold()
    first.write(send_frame(0, b"x"))
    await eventually(lambda: world.ledgers.kept_back > 0)
    await first.close()
    await eventually(lambda: not len(world.service.topics.loaded[TOPIC].producers))
    second = await producing(world, producer_name="p")
    second.write(send_frame(0, b"x"))
    assert await second.quiet() == []
    world.ledgers.release()
    receipt = await second.expect("SEND_RECEIPT")
    assert receipt.message_id.entry_id == 0
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 1


async def test_receipts_of_duplicates_keep_their_place(world: BrokerWorld) -> None:
    """New messages in the same pipeline went on arriving, and the receipts of a read of duplicates waited for all of them."""
    client = await deduplicating(world)
    client.write(send_frame(0, b"0"), send_frame(1, b"1"))
    await receipts(client, 2)
    world.ledgers.hold()
    for index in (2, 0, 3, 1, 4):
        client.write(send_frame(index, b"%d" % index))
        await client.quiet()  # a read of its own
    world.ledgers.release()
    assert [sequence for _, sequence in await receipts(client, 5)] == [2, 0, 3, 1, 4]


async def test_the_chunks_of_a_message_are_not_duplicates_of_each_other(world: BrokerWorld) -> None:
    """They share a sequence id: all but the first were answered as duplicates, and were lost."""
    client = await deduplicating(world)
    client.write(*chunk_frames(0, b"abc", 1), *chunk_frames(1, b"abc", 1))
    assert await receipts(client, 6) == [(1, 0)] * 3 + [(1, 1)] * 3
    await client.subscribe(TOPIC, permits=10)
    assert b"".join(one.text for one in await client.messages(6)) == b"abcabc"
    client.write(send_frame(1, b"again"), send_frame(0, b"again"), *chunk_frames(1, b"abc", 1))
    found = [await client.expect("SEND_RECEIPT") for _ in range(5)]
    assert [(one.sequence_id, one.message_id.entry_id) for one in found] == [(1, 3), (0, 0), (1, 3), (1, 4), (1, 5)]
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 6


@pytest.mark.parametrize("crash", [False, True], ids=["reconnects", "the broker crashes"])
async def test_an_interrupted_chunked_message_can_be_sent_again_whole(make_world: MakeWorld, crash: bool) -> None:
    world = await make_world()
    client = await deduplicating(world)
    whole = chunk_frames(5, b"abcdef", 2)
    client.write(*whole[:2])
    await receipts(client, 2)
    if crash:
        world = await make_world(after=world)
        client = await deduplicating(world)
    else:
        await client.close()
        client = await world.connected("owner")
        answer = await client.producer(TOPIC, producer_name="p", epoch=1)
        assert answer.last_sequence_id == -1  # it is not complete
    client.write(*whole)
    found = [await client.expect("SEND_RECEIPT") for _ in range(3)]
    assert [one.sequence_id for one in found] == [5, 5, 5]
    await client.subscribe(TOPIC, permits=10)
    assert [one.text for one in await client.messages(3)] == [b"ab", b"cd", b"ef"]
    assert await client.quiet() == []
    assert (await client.producer(TOPIC, producer_name="p", epoch=2)).last_sequence_id == 5
