"""Key_Shared subscriptions over raw connections, with their stats."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.topics import StatsAsked
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.consuming import TOPIC, ack, id_of, texts
from tests.support.clients.raw_client import RawClient, batch_frame, send_frame
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

C = pb.Command
LOW, HIGH = (0, 32767), (32768, 65535)  # "key1" is in the lower half of the hashes, "key-0" in the upper one


def sticky(*ranges: tuple[int, int], out_of_order: bool = False) -> pb.KeySharedMeta:
    hash_ranges = [pb.IntRange(start=start, end=end) for start, end in ranges]
    return pb.KeySharedMeta(mode=pb.KeySharedMeta.STICKY, hash_ranges=hash_ranges, allow_out_of_order_delivery=out_of_order)


async def keyed(client: RawClient, consumer_id: int, permits: int = 100, **fields: Any) -> None:
    await client.subscribe(TOPIC, "s", consumer_id, permits, sub_type=pb.Subscribe.Key_Shared, **fields)


async def publish(world: BrokerWorld, *frames: bytes) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.write(*frames)
    for _ in frames:
        await client.expect("SEND_RECEIPT")
    await client.close()


def numbered(keys: list[str], payload: bytes = b"%d") -> list[bytes]:
    return [send_frame(number, payload % number, key=key) for number, key in enumerate(keys)]


async def stats(world: BrokerWorld) -> dict[str, Any]:
    found: dict[str, Any] = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats["subscriptions"]["s"]
    return found


async def pair(world: BrokerWorld, permits: int = 100) -> tuple[RawClient, RawClient]:
    low, high = await world.connected("reader"), await world.connected("reader")
    await keyed(low, 1, permits, key_shared_meta=sticky(LOW))
    await keyed(high, 1, permits, key_shared_meta=sticky(HIGH))
    return low, high


@pytest.mark.parametrize("payload", [b"%d", b"%d" + b"." * 40_000], ids=["small", "large"])
async def test_each_key_goes_to_its_consumer(world: BrokerWorld, payload: bytes) -> None:
    low, high = await pair(world)
    await publish(world, *numbered(["key1", "key-0", "key1", "key1", "key-0", "key1"], payload))
    to_low, to_high = await low.messages(4), await high.messages(2)
    assert texts(to_low) == [payload % number for number in (0, 2, 3, 5)]
    assert [one.body.message_id.entry_id for one in to_low] == [0, 2, 3, 5]
    assert texts(to_high) == [payload % number for number in (1, 4)]
    assert [one.body.message_id.entry_id for one in to_high] == [1, 4]
    assert await low.quiet() + await high.quiet() == []


async def test_what_comes_again_says_how_often_and_what_is_left_of_it(world: BrokerWorld) -> None:
    low, high = await pair(world)
    frames = [batch_frame(number, [b"a", b"b", b"c"], key="key-0" if number == 1 else "key1") for number in range(4)]
    await publish(world, *frames)
    found = await low.messages(3)
    await high.messages(1)
    ack(low, id_of(found[0], batch_size=3, ack_set=[0b110]))
    low.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=[id_of(found[0]), id_of(found[2])])
    again = await low.messages(2)
    assert [(one.body.message_id.entry_id, one.body.redelivery_count) for one in again] == [(0, 1), (3, 1)]
    assert [list(one.body.ack_set) for one in again] == [[0b110], []]


async def test_a_key_changes_hands_when_it_is_acknowledged(make_world: MakeWorld) -> None:
    world = await make_world(subscription_key_shared_use_consistent_hashing=False)
    former, newcomer = await world.connected("reader"), await world.connected("reader")
    await keyed(former, 1, consumer_name="former")
    await publish(world, *numbered(["key1", "key-0"]))
    held = await former.messages(2)
    await keyed(newcomer, 1, consumer_name="newcomer")  # its half of the range has "key1"
    await publish(world, *numbered(["key1", "key-0"]))
    assert texts(await former.messages(1)) == [b"1"]
    assert await newcomer.quiet() == []
    found = await stats(world)
    assert (found["drainingHashesCount"], found["drainingHashesUnackedMessages"], found["msgInReplay"]) == (1, 1, 1)
    assert found["consumers"][0]["drainingHashes"] == [{"hash": 293, "unackMsgs": 1, "blockedAttempts": 1}]
    assert found["consumers"][1]["drainingHashes"] == []
    ack(former, id_of(held[0]))
    assert texts(await newcomer.messages(1)) == [b"0"]
    found = await stats(world)
    assert (found["drainingHashesCount"], found["drainingHashesClearedTotal"], found["msgInReplay"]) == (0, 1, 0)


@pytest.mark.parametrize(
    ("settings", "ranges"),
    [
        ({"subscription_key_shared_use_consistent_hashing": False}, [[[32769, 65536]], [[0, 32768]]]),
        ({"subscription_key_shared_consistent_hashing_replica_points": 1}, [[[18702, 34662]], [[1, 18701], [34663, 65535]]]),
    ],
    ids=["hash range", "one point"],
)
async def test_how_hashes_are_split_is_a_setting(make_world: MakeWorld, settings: dict[str, Any], ranges: list[Any]) -> None:
    world = await make_world(**settings)
    client = await world.connected("reader")
    for number in (1, 2):
        await keyed(client, number, consumer_name=f"c{number}")
    found = await stats(world)
    assert [one["keyHashRangeArrays"] for one in found["consumers"]] == ranges
    assert (found["type"], found["keySharedMode"], found["allowOutOfOrderDelivery"]) == ("Key_Shared", "AUTO_SPLIT", False)


async def test_by_default_the_ring_has_a_hundred_points_of_each(world: BrokerWorld) -> None:
    client = await world.connected("reader")
    for number in (1, 2, 3):
        await keyed(client, number, consumer_name=f"c{number}")
    shown = [one["keyHashRangeArrays"] for one in (await stats(world))["consumers"]]
    assert [len(one) for one in shown] == [72, 59, 66]
    assert shown[0][:2] == [[1, 1031], [1479, 1870]]


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        (sticky((100, 40_000)), pb.ConsumerAssignError),
        (sticky((40_000, 50_000), (50_001, 70_000)), pb.ConsumerAssignError),
        (sticky((50_000, 40_000)), pb.ConsumerAssignError),
        (sticky(), pb.ConsumerAssignError),
        (sticky((40_000, 50_000), out_of_order=True), pb.ConsumerBusy),
        (pb.KeySharedMeta(mode=pb.KeySharedMeta.AUTO_SPLIT), pb.ConsumerBusy),
    ],
)
async def test_a_consumer_that_does_not_fit_is_refused(world: BrokerWorld, meta: pb.KeySharedMeta, code: int) -> None:
    client = await world.connected("reader")
    await keyed(client, 1, key_shared_meta=sticky(LOW))
    fields = {"topic": TOPIC, "subscription": "s", "sub_type": pb.Subscribe.Key_Shared, "consumer_id": 2}
    client.say(C.SUBSCRIBE, **fields, key_shared_meta=meta)
    assert (await client.expect("ERROR")).error == code
    await publish(world, *numbered(["key1"]))
    assert texts(await client.messages(1)) == [b"0"]
    assert [one["keyHashRangeArrays"] for one in (await stats(world))["consumers"]] == [[[0, 32767]]]


async def test_a_cumulative_acknowledgement_is_refused(world: BrokerWorld) -> None:
    low, _ = await pair(world)
    await publish(world, *numbered(["key1"]))
    (one,) = await low.messages(1)
    ack(low, id_of(one), kind=pb.Ack.Cumulative, request_id=5)
    assert (await low.expect("ACK_RESPONSE")).error == pb.NotAllowedError


async def test_after_a_restart_each_key_goes_on_where_it_was(world: BrokerWorld) -> None:
    """The backlog comes from the log: other blocks than those that were dispatched when they were written."""
    low, high = await pair(world, permits=5)
    keys = ["key1", "key-0", "key1"] * 10
    await publish(world, *numbered(keys))
    held = await low.messages(5)
    await high.messages(5)
    ack(low, *(id_of(one) for one in held[1:]))
    await low.quiet()
    await low.close()
    await high.close()
    await world.service.topics.unload(world.service.topics.loaded[TOPIC].name)
    low, high = await pair(world)
    done = {int(text) for text in texts(held[1:])}
    assert texts(await low.messages(16)) == [b"%d" % number for number in range(30) if number % 3 != 1 and number not in done]
    assert texts(await high.messages(10)) == [b"%d" % number for number in range(1, 30, 3)]
