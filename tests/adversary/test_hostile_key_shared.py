"""Key_Shared consumers that ask for anything, and come and go a thousand times: the others keep their keys and their messages."""

from __future__ import annotations

import pytest

from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.consuming import TOPIC, filled, texts
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.dead_letters import subscription_of
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
KEY_SHARED = pb.Subscribe.Key_Shared
RANGES_MAX = 1024
KEYS = 40


def sticky(*ranges: tuple[int, int]) -> pb.KeySharedMeta:
    meta = pb.KeySharedMeta(mode=pb.KeySharedMeta.STICKY)
    for start, end in ranges:
        meta.hash_ranges.add(start=start, end=end)
    return meta


def out_of_order(hash_range: tuple[int, int]) -> pb.KeySharedMeta:
    meta = sticky(hash_range)
    meta.allow_out_of_order_delivery = True
    return meta


async def refused(client: RawClient, meta: pb.KeySharedMeta) -> None:
    client.say(C.SUBSCRIBE, topic=TOPIC, subscription="s", consumer_id=9, sub_type=KEY_SHARED, key_shared_meta=meta)
    answer = await client.next()
    assert answer.name == "ERROR", answer
    assert await client.quiet() == [], "and the connection goes on"


@pytest.mark.parametrize(
    "meta",
    [
        sticky(),
        sticky((-1, 5)),
        sticky((5, -1)),
        sticky((-(2**31), 2**31 - 1)),
        sticky((7, 6)),
        sticky((0, 65_536)),
        sticky((50_000, 50_010), (50_005, 50_020)),
        sticky((50_000, 50_000), (50_000, 50_000)),
        sticky((0, 65_535)),
        sticky((99, 100)),
        sticky(*((50_000 + number, 50_000 + number) for number in range(RANGES_MAX)), (100, 100)),
        pb.KeySharedMeta(mode=pb.KeySharedMeta.AUTO_SPLIT),
        out_of_order((60_000, 60_000)),
    ],
)
async def test_ranges_that_do_not_fit_change_nothing_for_those_who_are_there(world: BrokerWorld, meta: pb.KeySharedMeta) -> None:
    producer = await filled(world, 0)
    first, hostile = await world.connected("reader"), await world.connected("reader")
    await first.subscribe(TOPIC, permits=100, sub_type=KEY_SHARED, key_shared_meta=sticky((0, 100), (101, 49_999)))
    second = await world.connected("reader")
    await second.subscribe(TOPIC, consumer_id=2, permits=100, sub_type=KEY_SHARED, key_shared_meta=sticky((50_021, 65_535)))
    for _ in range(3):
        await refused(hostile, meta)
    assert len(subscription_of(world).consumers) == 2
    producer.write(*(send_frame(number, b"%d" % number, key=f"k{number}") for number in range(KEYS)))
    for _ in range(KEYS):
        await producer.expect("SEND_RECEIPT")
    delivered = [*await first.quiet(), *await second.quiet()]
    assert delivered.count("MESSAGE") == KEYS


async def test_more_ranges_than_there_may_be_are_refused(world: BrokerWorld) -> None:
    await filled(world, 0)
    first, hostile = await world.connected("reader"), await world.connected("reader")
    await first.subscribe(TOPIC, sub_type=KEY_SHARED, key_shared_meta=sticky((65_535, 65_535)))
    many = sticky(*((2 * number, 2 * number) for number in range(RANGES_MAX + 1)))
    await refused(hostile, many)
    await refused(hostile, many)
    assert len(subscription_of(world).consumers) == 1


async def test_a_thousand_that_come_and_go_leave_every_message_to_who_stays(world: BrokerWorld) -> None:
    producer = await filled(world, 0)
    hostile = await world.connected("reader")
    stays = await world.connected("reader")
    await stays.subscribe(TOPIC, permits=1_000, sub_type=KEY_SHARED)
    for number in range(1_000):
        hostile.say(
            C.SUBSCRIBE, topic=TOPIC, subscription="s", consumer_id=number, sub_type=KEY_SHARED, consumer_name=f"c{number % 7}"
        )
        hostile.say(C.FLOW, consumer_id=number, message_permits=2**32 - 1)
        hostile.say(C.FLOW, consumer_id=number, message_permits=2**32 - 1)
        if number % 10 == 0:
            producer.write(send_frame(number, b"%d" % number, key=f"k{number % KEYS}"))
        hostile.say(C.CLOSE_CONSUMER, consumer_id=number)
        if number % 50 == 0:
            await hostile.quiet()
    await hostile.quiet()
    await hostile.close()
    payloads: list[bytes] = []
    while len(payloads) < 100:
        payloads += texts(await stays.messages(1))
    assert sorted(map(int, payloads)) == list(range(0, 1_000, 10))
    assert await stays.quiet() == []
