"""Producers over a raw connection: receipts in order and only for what is durable, errors in their place, a failing store."""

from __future__ import annotations

import pytest

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import AppendFailed, DiskFull, Unavailable
from tests.support.broker_world import BrokerWorld
from tests.support.raw_client import RawClient, batch_frame, send_frame
from tests.support.waiting import eventually

C = pb.Command
TOPIC = "persistent://acme/orders/t"


async def producing(world: BrokerWorld, **fields: object) -> RawClient:
    client = await world.connected("owner")
    await client.producer(TOPIC, **fields)  # type: ignore[arg-type]
    return client


def damaged(sequence_id: int) -> bytes:
    frame = bytearray(send_frame(sequence_id, b"payload"))
    frame[-1] ^= 1
    return bytes(frame)


async def receipts(client: RawClient, count: int) -> list[tuple[int, int]]:
    found = []
    for _ in range(count):
        receipt = await client.expect("SEND_RECEIPT")
        found.append((receipt.producer_id, receipt.sequence_id))
    return found


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
    await eventually(lambda: bool(world.ledgers._held))
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
    await eventually(lambda: bool(world.ledgers._held))
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
    await eventually(lambda: bool(world.ledgers._held))
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


# --- names


async def test_a_name_that_is_taken(world: BrokerWorld) -> None:
    first, second = await producing(world, producer_name="p"), await world.connected("owner")
    second.say(C.PRODUCER, topic=TOPIC, producer_id=1, producer_name="p")
    assert (await second.expect("ERROR")).error == pb.ProducerBusy
    await first.close()
    await eventually(lambda: not len(world.service.topics.loaded[TOPIC].producers))
    assert (await second.producer(TOPIC, producer_name="p")).producer_name == "p"


async def test_names_given_by_the_broker_are_unique(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    names = [(await client.producer(TOPIC, index)).producer_name for index in range(5)]
    assert len(set(names)) == 5
    assert all(name.startswith("standalone-") for name in names)


async def test_asking_twice_gives_the_same_answer(world: BrokerWorld) -> None:
    client = await producing(world)
    again = await client.producer(TOPIC)
    assert again.producer_name == (await client.producer(TOPIC)).producer_name
    assert len(world.service.topics.loaded[TOPIC].producers) == 1


async def test_a_successor_of_a_higher_epoch_takes_over(world: BrokerWorld) -> None:
    client = await producing(world, producer_name="p", epoch=1)
    await client.producer(TOPIC, producer_name="p", epoch=2)
    client.write(send_frame(0, b"x"))
    assert await receipts(client, 1) == [(1, 0)]
    assert len(world.service.topics.loaded[TOPIC].producers) == 1


@pytest.mark.parametrize("mode", ["Exclusive", "WaitForExclusive", "ExclusiveWithFencing"])
async def test_access_modes_that_are_not_served(world: BrokerWorld, mode: str) -> None:
    client = await world.connected("owner")
    client.say(C.PRODUCER, topic=TOPIC, producer_id=1, producer_access_mode=mode)
    assert (await client.expect("ERROR")).error == pb.NotAllowedError


# --- duplicates


async def deduplicating(world: BrokerWorld) -> RawClient:
    await world.feed(("namespace", "acme/orders", {"policies": {"deduplication": True}}))
    return await producing(world, producer_name="p")


async def test_a_duplicate_has_no_receipt_before_its_original_is_durable(world: BrokerWorld) -> None:
    """The original came over a connection that broke, and is still on its way to the disk: a receipt now would promise too much."""
    first = await deduplicating(world)
    world.ledgers.hold()
    first.write(send_frame(0, b"x"))
    await eventually(lambda: bool(world.ledgers._held))
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


async def test_the_parts_of_a_large_message_are_not_duplicates_of_each_other(world: BrokerWorld) -> None:
    """They share a sequence id: all but the first were answered as duplicates, and were lost."""
    client = await deduplicating(world)
    for sequence_id in (0, 1):
        for part in (b"a", b"b", b"c"):
            whole = send_frame(sequence_id, part)
            head = pb.Command(type=C.SEND, send=pb.Send(producer_id=1, sequence_id=sequence_id, is_chunk=True)).SerializeToString()
            rest = whole[8 + int.from_bytes(whole[4:8], "big") :]
            client.write((4 + len(head) + len(rest)).to_bytes(4, "big") + len(head).to_bytes(4, "big") + head + rest)
    assert await receipts(client, 6) == [(1, 0)] * 3 + [(1, 1)] * 3
    await client.subscribe(TOPIC, permits=10)
    assert b"".join(one.text for one in await client.messages(6)) == b"abcabc"
    client.write(send_frame(1, b"again"), send_frame(0, b"again"))
    assert await receipts(client, 2) == [(1, 1), (1, 0)]
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 6


# --- where a topic may be


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("persistent://acme/orders/", pb.InvalidTopicName),
        ("persistent://acme/orders/a/b", pb.InvalidTopicName),
        ("nonsense://acme/orders/t", pb.InvalidTopicName),
        ("non-persistent://acme/orders/t", pb.NotAllowedError),
        ("persistent://acme/absent/t", pb.TopicNotFound),
        ("persistent://absent/orders/t", pb.TopicNotFound),
        ("persistent://acme/strict/t", pb.TopicNotFound),  # no auto-creation there
    ],
)
async def test_topics_that_cannot_be(world: BrokerWorld, topic: str, code: int) -> None:
    client = await world.connected("superuser")
    client.say(C.PRODUCER, topic=topic, producer_id=1)
    assert (await client.expect("ERROR")).error == code
    client.say(C.SUBSCRIBE, topic=topic, subscription="s", sub_type=pb.Subscribe.Shared, consumer_id=1)
    assert (await client.expect("ERROR")).error == code
    assert await world.meta.list_all_topics() == []


# --- a store that fails


@pytest.mark.parametrize("failure", [DiskFull("full"), AppendFailed("broken")])
async def test_after_a_failed_store_the_topic_opens_again(world: BrokerWorld, failure: AppendFailed) -> None:
    """No receipt for what may be lost; the producer is closed, comes back, and sends again."""
    client = await producing(world, producer_name="p")
    client.write(send_frame(0, b"kept"))
    await receipts(client, 1)
    world.ledgers.fail_appends(failure)
    client.write(send_frame(1, b"x"), send_frame(2, b"y"))
    closing = await client.expect("CLOSE_PRODUCER")
    assert (closing.producer_id, closing.request_id) == (1, frames.UNSOLICITED)
    client.write(send_frame(3, b"on its way"))  # passed over, not an offence
    assert await client.quiet() == []
    world.ledgers.heal()

    async def back() -> bool:
        client.say(C.PRODUCER, topic=TOPIC, producer_id=1, producer_name="p", epoch=1)
        return (await client.next()).name == "PRODUCER_SUCCESS"

    await eventually(back)
    client.write(*(send_frame(index, b"again") for index in (1, 2, 3)))
    assert await receipts(client, 3) == [(1, 1), (1, 2), (1, 3)]
    await client.subscribe(TOPIC, permits=10)
    assert [one.text for one in await client.messages(4)] == [b"kept", b"again", b"again", b"again"]


async def test_a_store_that_cannot_make_a_ledger(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    world.ledgers.fail_next("create", Unavailable("no space"))
    client.say(C.PRODUCER, topic=TOPIC, producer_id=1)
    assert (await client.expect("ERROR")).error == pb.PersistenceError

    async def works() -> bool:
        client.say(C.PRODUCER, topic=TOPIC, producer_id=1)
        return (await client.next()).name == "PRODUCER_SUCCESS"

    await eventually(works)


async def test_reading_from_a_producer_pauses_while_the_disk_is_behind(world: BrokerWorld) -> None:
    client = await producing(world)
    world.ledgers.hold()
    for index in range(24):
        client.write(send_frame(index, bytes(1 << 20)))
    (connection,) = world.service.peers.connections
    await eventually(lambda: connection.throttle.paused)  # type: ignore[attr-defined]
    stored = world.service.topics.loaded[TOPIC].ledger.pending_bytes
    assert stored <= (8 << 20) + 4 * (1 << 20)
    world.ledgers.release()
    assert await receipts(client, 24) == [(1, index) for index in range(24)]
