"""Subscriptions that are sent the same entries share the bytes that bring them, and nothing else."""

from __future__ import annotations

from array import array

from messaging.broker.core.entries import EntryBlock
from messaging.broker.runtime.wire.last_frames import KEPT_BYTES_MAX, LastFrames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.consuming import TOPIC, filled, id_of, texts
from tests.support.clients.raw_client import send_frame
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command


def block_of(count: int, size: int = 10) -> EntryBlock:
    sends = [send_frame(number, bytes(size)) for number in range(count)]
    stops = array("I", [len(sends[0]) * (index + 1) for index in range(count)])
    return EntryBlock(7, 0, b"".join(sends), stops, 0, count)


def test_only_the_same_delivery_has_the_same_bytes() -> None:
    last, block, other = LastFrames(), block_of(5), block_of(5)
    assert last.find(block, 0, 0, 0) is None
    last.keep(block, 1, 4, 3, b"made")
    assert last.find(block, 1, 4, 3) == b"made"
    for one, first, stop, consumer_id in ((block, 1, 4, 4), (block, 0, 4, 3), (block, 1, 5, 3), (other, 1, 4, 3)):
        assert last.find(one, first, stop, consumer_id) is None
    last.keep(other, 1, 4, 3, b"others")
    assert last.find(other, 1, 4, 3) == b"others" and last.find(block, 1, 4, 3) is None


def test_what_is_large_is_not_kept() -> None:
    last, large = LastFrames(), block_of(2, size=KEPT_BYTES_MAX // 2)
    last.keep(large, 0, 2, 3, b"made")
    assert last.find(large, 0, 2, 3) is None


async def test_each_subscription_is_sent_its_own_copy_of_a_message(world: BrokerWorld) -> None:
    """The same entries with other numbers of consumers, other permits, and counts of redeliveries."""
    producer = await filled(world, 0)
    client = await world.connected("reader")
    for number, permits in ((1, 10), (2, 10), (3, 2)):
        await client.subscribe(TOPIC, f"sub-{number}", consumer_id=number, permits=permits, sub_type=pb.Subscribe.Shared)
    second = await world.connected("reader")
    await second.subscribe(TOPIC, "sub-4", consumer_id=1, permits=10, sub_type=pb.Subscribe.Shared)
    producer.write(b"".join(send_frame(number, b"%d" % number) for number in range(3)))
    found = await client.messages(8)
    by_consumer = {number: [one for one in found if one.body.consumer_id == number] for number in (1, 2, 3)}
    assert {number: texts(ones) for number, ones in by_consumer.items()} == {
        1: [b"0", b"1", b"2"],
        2: [b"0", b"1", b"2"],
        3: [b"0", b"1"],
    }
    alike = await second.messages(3)
    assert texts(alike) == [b"0", b"1", b"2"] and {one.body.consumer_id for one in alike} == {1}
    client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=[id_of(by_consumer[1][1])])
    (again,) = await client.messages(1)
    assert (again.body.consumer_id, again.body.redelivery_count, texts([again])) == (1, 1, [b"1"])
    client.say(C.FLOW, consumer_id=3, message_permits=5)
    (rest,) = await client.messages(1)
    assert (rest.body.consumer_id, rest.body.redelivery_count, texts([rest])) == (3, 0, [b"2"])
