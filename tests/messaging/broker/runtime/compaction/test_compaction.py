"""Compaction of a topic and reading it: a worker beside a broker over stores in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime.topics.persistent import persistent
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import EARLIEST, LATEST, Position
from messaging.storage.managed.retention import NOTHING
from tests.support.compacting import TOPIC, Reading, Seen, batch, compact, keyed, publish, read_all, topic_of
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

pytestmark = pytest.mark.asyncio


def values(seen: list[Seen]) -> list[tuple[str | None, bytes]]:
    return [(one.key, one.value) for one in seen]


async def test_the_last_message_of_each_key_is_left_under_its_own_id(world: BrokerWorld, tmp_path: Path) -> None:
    sent = [("a", b"1"), ("b", b"1"), ("a", b"2"), (None, b"no key"), ("c", b"1"), ("b", b"")]
    ids = await publish(world.service, *(keyed(*one) for one in sent))
    removed = await compact(world.service, tmp_path)
    found = await read_all(world.service)
    assert [(one.key, one.value, one.position) for one in found] == [("a", b"2", ids[2]), ("c", b"1", ids[4])]
    assert removed == 4
    assert len(await read_all(world.service, compacted=False)) == 6


async def test_what_follows_the_horizon_is_all_sent(world: BrokerWorld, tmp_path: Path) -> None:
    await publish(world.service, keyed("a", b"1"), keyed("a", b"2"))
    await compact(world.service, tmp_path)
    await publish(world.service, keyed("a", b"3"), keyed("a", b"4"))
    assert values(await read_all(world.service)) == [("a", b"2"), ("a", b"3"), ("a", b"4")]
    await compact(world.service, tmp_path)
    assert values(await read_all(world.service)) == [("a", b"4")]


@pytest.mark.parametrize("compression", [pb.NONE, pb.LZ4, pb.ZSTD])
async def test_messages_of_a_batch_keep_their_indexes(world: BrokerWorld, tmp_path: Path, compression: int) -> None:
    one = batch([("a", b"1"), ("b", b"1"), ("a", b"2"), (None, b"x"), ("c", b"1")], compression=compression)
    two = batch([("b", b"2"), ("c", b""), ("d", b"1")], compression=compression)
    ids = await publish(world.service, one, two)
    await compact(world.service, tmp_path)
    found = await read_all(world.service)
    assert [tuple(seen) for seen in found] == [(ids[0], 2, "a", b"2"), (ids[1], 0, "b", b"2"), (ids[1], 2, "d", b"1")]
    await publish(world.service, batch([("d", b"2"), ("a", b"")]))
    await compact(world.service, tmp_path)  # reads batches of which messages were compacted out
    assert values(await read_all(world.service)) == [("b", b"2"), ("d", b"2")]


async def test_encrypted_batches_are_kept_whole(world: BrokerWorld, tmp_path: Path) -> None:
    await publish(world.service, batch([("a", b"1"), ("a", b"2")], encrypted=True), keyed("a", b"3"))
    await compact(world.service, tmp_path)
    assert len(await read_all(world.service)) == 2


async def test_messages_without_a_key_stay_if_that_is_configured(world: BrokerWorld, tmp_path: Path) -> None:
    await publish(world.service, keyed(None, b"1"), batch([(None, b"2"), ("a", b"1"), ("a", b"2")]))
    await compact(world.service, tmp_path, topic_compaction_retain_null_key=True)
    assert values(await read_all(world.service)) == [(None, b"1"), (None, b"2"), ("a", b"2")]


async def test_all_chunks_of_a_message_stay_or_go_together(world: BrokerWorld, tmp_path: Path) -> None:
    def chunk(key: str, uuid: str, index: int, count: int = 2) -> bytes:
        return keyed(key, b"%s-%d" % (uuid.encode(), index), uuid=uuid, chunk_id=index, num_chunks_from_msg=count)

    first = [chunk("a", "m1", 0), chunk("b", "m2", 0), chunk("a", "m1", 1), chunk("b", "m2", 1)]
    await publish(world.service, *first, chunk("a", "m3", 0), chunk("a", "m3", 1), chunk("c", "open", 0))
    await compact(world.service, tmp_path)
    assert [one.value for one in await read_all(world.service)] == [b"m2-0", b"m2-1", b"m3-0", b"m3-1", b"open-0"]
    await publish(world.service, chunk("c", "open", 1))
    await compact(world.service, tmp_path)
    assert [one.value for one in await read_all(world.service)][-2:] == [b"open-0", b"open-1"]


async def test_a_reader_may_start_anywhere(world: BrokerWorld, tmp_path: Path) -> None:
    ids = await publish(world.service, *(keyed(f"k{number % 7}", b"%d" % number) for number in range(50)))
    await compact(world.service, tmp_path)
    whole = await read_all(world.service)
    assert [one.value for one in whole] == [b"%d" % number for number in range(43, 50)]
    for start, position in enumerate(ids):
        assert await read_all(world.service, start=position) == [one for one in whole if one.position >= ids[start]]
    assert await read_all(world.service, start=LATEST) == []


async def test_many_ledgers_and_large_gaps(world: BrokerWorld, tmp_path: Path) -> None:
    topic = await topic_of(world.service)
    sent: dict[str, bytes] = {}
    for number in range(300):
        key = f"once-{number}" if number % 37 == 0 else f"k{number % 3}"
        sent.pop(key, None)
        sent[key] = b"%d" % number
        await publish(world.service, keyed(key, sent[key]))
        if number % 50 == 49:
            await topic.ledger.roll()
            await topic.ledger.writable()
    await compact(world.service, tmp_path)
    found = await read_all(world.service)
    assert {one.key: one.value for one in found} == sent
    assert [one.position for one in found] == sorted(one.position for one in found)
    assert len({one.position.ledger_id for one in found}) > 3


async def test_what_retention_dropped_is_still_in_the_compacted_topic(world: BrokerWorld, tmp_path: Path) -> None:
    ids = await publish(world.service, keyed("a", b"1"), keyed("b", b"1"), keyed("a", b"2"))
    await compact(world.service, tmp_path)
    topic = await topic_of(world.service)
    await topic.ledger.roll()
    await topic.ledger.trim(world.service.compactions.kept_from(persistent(topic), topic.ledger_list.last), NOTHING)
    assert topic.ledger_list.first_id > ids[0].ledger_id
    assert values(await read_all(world.service)) == [("b", b"1"), ("a", b"2")]
    assert values(await read_all(world.service, start=ids[2])) == [("a", b"2")]
    assert await read_all(world.service, start=LATEST) == []
    await publish(world.service, keyed("c", b"1"))
    await compact(world.service, tmp_path)
    assert values(await read_all(world.service)) == [("b", b"1"), ("a", b"2"), ("c", b"1")]


async def test_a_topic_of_which_retention_dropped_everything_is_compacted_again(world: BrokerWorld, tmp_path: Path) -> None:
    await publish(world.service, keyed("a", b"1"))
    await compact(world.service, tmp_path)
    topic = await topic_of(world.service)
    horizon = topic.ledger_list.horizon
    await topic.ledger.roll()
    await topic.ledger.trim(horizon, NOTHING)
    await compact(world.service, tmp_path)
    assert topic.ledger_list.horizon == horizon
    assert values(await read_all(world.service)) == [("a", b"1")]


async def test_retention_keeps_what_no_compaction_has_seen(world: BrokerWorld, tmp_path: Path) -> None:
    await publish(world.service, keyed("a", b"1"))
    await compact(world.service, tmp_path)
    await publish(world.service, keyed("a", b"2"))
    topic = await topic_of(world.service)
    await topic.ledger.roll()
    last = topic.ledger_list.last
    assert world.service.compactions.kept_from(persistent(topic), last) < last
    await topic.ledger.trim(world.service.compactions.kept_from(persistent(topic), last), NOTHING)
    assert values(await read_all(world.service)) == [("a", b"1"), ("a", b"2")]


async def test_a_durable_subscription_acknowledges_what_was_compacted_away(world: BrokerWorld, tmp_path: Path) -> None:
    ids = await publish(world.service, *(keyed(f"k{number % 3}", b"%d" % number) for number in range(30)), keyed("k0", b""))
    await compact(world.service, tmp_path)
    topic = await topic_of(world.service)
    subscription = await topic.subscriptions.create("s", EARLIEST)
    reading = Reading()
    consumer = Consumer(1, "c", reading)
    consumer.read_compacted = True
    topic.consumers.attach(subscription, consumer, SubscriptionType.FAILOVER)
    topic.consumers.flow(subscription, consumer, 100)
    await topic.subscriptions.wait_until_unchanged(subscription)
    await eventually(lambda: subscription.next_due() is None)
    assert reading.entries == [ids[28], ids[29]]
    assert subscription.backlog_entries == 2
    for position in reading.entries:
        topic.acknowledgements.acknowledge(subscription, consumer, position.ledger_id, [position.entry_id])
    assert subscription.backlog_entries == 0
    assert subscription.cursor.mark_delete == ids[30]
    topic.consumers.detach(subscription, consumer)


async def test_a_topic_without_anything_left(world: BrokerWorld, tmp_path: Path) -> None:
    await publish(world.service, keyed("a", b"1"), keyed("a", b""))
    await compact(world.service, tmp_path)
    assert await read_all(world.service) == []
    topic = await topic_of(world.service)
    assert topic.ledger_list.compacted is not None
    assert (topic.ledger_list.compacted.entries, topic.ledger_list.compacted.last) == (0, EARLIEST)
    await publish(world.service, keyed("a", b"3"))
    assert values(await read_all(world.service)) == [("a", b"3")]


async def test_the_last_message_id_of_a_compacted_reader(world: BrokerWorld, tmp_path: Path) -> None:
    kept = await publish(world.service, batch([("a", b"1"), ("b", b"1"), ("c", b"1")]), keyed("c", b""))
    client = await world.connected("owner")
    await client.subscribe(TOPIC, sub_type=pb.Subscribe.Exclusive, durable=False, read_compacted=True)

    async def last() -> tuple[Position, int]:
        client.say(pb.Command.GET_LAST_MESSAGE_ID, consumer_id=1)
        found = (await client.expect("GET_LAST_MESSAGE_ID_RESPONSE")).last_message_id
        return Position(found.ledger_id, found.entry_id), found.batch_index

    assert await last() == (kept[1], -1)
    await compact(world.service, tmp_path)
    assert await last() == (kept[0], 1)
    (late,) = await publish(world.service, keyed("a", b""))
    assert await last() == (late, -1)
    await publish(world.service, keyed("b", b""))
    await compact(world.service, tmp_path)
    assert await last() == (Position((1 << 64) - 1, (1 << 64) - 1), -1)


async def test_a_restart_keeps_the_compacted_topic(make_world: MakeWorld, tmp_path: Path) -> None:
    world = await make_world()
    await publish(world.service, keyed("a", b"1"), keyed("a", b"2"))
    await compact(world.service, tmp_path)
    again = await make_world(after=world)
    assert values(await read_all(again.service)) == [("a", b"2")]
