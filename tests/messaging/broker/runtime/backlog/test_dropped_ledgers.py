"""A message that is delayed for long keeps its own ledger, not those after it; stops at each step leave nothing behind."""

from __future__ import annotations

from typing import NoReturn

import pytest

from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.adminrpc.subscriptions import SubscriptionReset
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import Position, Unavailable
from messaging.storage.managed.orphans import collect_orphans
from tests.support.clients.consuming import TOPIC, ack, id_of, texts
from tests.support.clients.raw_client import RawClient, delayed_frame, send_frame
from tests.support.clock import Clock, give
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

NAME = parse_topic(TOPIC)
DAY_MS = 86_400_000


async def delayed_and_four_ledgers(world: BrokerWorld) -> tuple[Topic, RawClient, Clock]:
    """A message for tomorrow, then four ledgers of ten messages each, of which all but number 25 are acknowledged."""
    clock = Clock()
    give(world.service, clock)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, "s", permits=1000)
    topic = await world.service.topics.get(NAME, create=False)
    client.write(delayed_frame(0, b"tomorrow", clock() + DAY_MS))
    await client.expect("SEND_RECEIPT")
    for ledger in range(4):
        await topic.ledger.roll()
        for number in range(10 * ledger, 10 * ledger + 10):
            client.write(send_frame(number + 1, b"%d" % number))
            await client.expect("SEND_RECEIPT")
            (message,) = await client.messages(1)
            if number != 25:
                ack(client, id_of(message))
    await eventually(lambda: topic.subscriptions.table["s"].backlog_entries == 2)
    clock.pass_(1)
    return topic, client, clock


async def upkeep(world: BrokerWorld) -> tuple[int, dict[str, str]]:
    result = await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))
    return result.trimmed_ledgers, result.failed


async def stopped(*_: object) -> NoReturn:
    raise Unavailable("stopped")


def sizes(topic: Topic) -> list[int]:
    return [last + 1 for last in topic.ledger_list.lasts]


async def restarted(make_world: MakeWorld, world: BrokerWorld, clock: Clock) -> tuple[BrokerWorld, Topic]:
    world = await make_world(after=world)
    give(world.service, clock)
    world.service.sweep_memory()
    return world, await world.service.topics.get(NAME, create=False)


async def test_ledgers_after_one_that_is_needed_are_deleted(make_world: MakeWorld) -> None:
    world = await make_world()
    topic, client, clock = await delayed_and_four_ledgers(world)
    assert sizes(topic) == [1, 10, 10, 10, 10]
    assert await upkeep(world) == (2, {})
    assert sizes(topic) == [1, 10, 10]
    assert topic.subscriptions.table["s"].backlog_entries == 2
    assert await upkeep(world) == (0, {})
    await client.close()
    world, topic = await restarted(make_world, world, clock)
    subscription = topic.subscriptions.table["s"]
    assert subscription.backlog_entries == 2 and sizes(topic)[:3] == [1, 10, 10]
    assert (await collect_orphans(world.service.storage)).ledgers == 0
    client = await world.connected("owner")
    await client.subscribe(TOPIC, "s", permits=1000)
    (message,) = await client.messages(1)
    assert texts([message]) == [b"25"]
    ack(client, id_of(message))
    clock.pass_(DAY_MS)
    world.service.sweep_memory()
    (message,) = await client.messages(1)
    assert texts([message]) == [b"tomorrow"]
    ack(client, id_of(message))
    await eventually(lambda: subscription.backlog_entries == 0)
    assert subscription.cursor.mark_delete == topic.ledger_list.last


async def test_a_reader_and_a_seek_pass_over_the_gap(world: BrokerWorld) -> None:
    topic, _, _ = await delayed_and_four_ledgers(world)
    reader = await world.connected("owner")
    await reader.subscribe(TOPIC, "r", permits=15, durable=False, sub_type=pb.Subscribe.Exclusive)
    before = texts(await reader.messages(15))
    assert before == [b"tomorrow"] + [b"%d" % number for number in range(14)]
    assert (await upkeep(world))[0] == 2
    reader.say(pb.Command.FLOW, consumer_id=1, message_permits=100)
    assert texts(await reader.messages(20)) == [b"%d" % number for number in range(20, 40)]
    later = await world.connected("owner")
    await later.subscribe(TOPIC, "later", permits=100)
    assert texts(await later.messages(20)) == [b"%d" % number for number in range(20, 40)]
    await world.admin.subscriptions.reset(SubscriptionReset(topic=TOPIC, subscription="s", timestamp_ms=0))
    assert topic.subscriptions.table["s"].backlog_entries == 21
    again = await world.connected("owner")
    await again.subscribe(TOPIC, "s", permits=1000)
    assert texts(await again.messages(20)) == [b"%d" % number for number in range(20, 40)]


async def test_what_another_subscription_needs_stays(world: BrokerWorld) -> None:
    topic, _, _ = await delayed_and_four_ledgers(world)
    other = await world.connected("owner")
    await other.subscribe(TOPIC, "other", permits=12)
    for message in await other.messages(12):
        ack(other, id_of(message))
    await eventually(lambda: topic.subscriptions.table["other"].backlog_entries == 29)
    assert (await upkeep(world))[0] == 1
    assert sizes(topic) == [1, 10, 10, 10]
    assert topic.subscriptions.table["other"].backlog_entries == 29 and topic.subscriptions.table["s"].backlog_entries == 2


@pytest.mark.parametrize(("step", "left"), [("record", [1, 10, 10, 10, 10]), ("delete", [1, 10, 10])])
async def test_a_stop_at_each_step_leaves_no_hole(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, step: str, left: list[int]
) -> None:
    world = await make_world()
    topic, client, clock = await delayed_and_four_ledgers(world)
    await client.close()
    if step == "record":
        monkeypatch.setattr(world.meta, "cas_topic", stopped)
    else:
        world.ledgers.fail_next("delete", Unavailable("stopped"))
    assert (await upkeep(world))[1] != {}
    monkeypatch.undo()
    assert sizes(topic) == left and topic.subscriptions.table["s"].backlog_entries == 2
    world, topic = await restarted(make_world, world, clock)
    assert topic.subscriptions.table["s"].backlog_entries == 2
    assert (await collect_orphans(world.service.storage)).ledgers == (2 if step == "delete" else 0)
    client = await world.connected("owner")
    await client.subscribe(TOPIC, "s", permits=1000)
    assert texts(await client.messages(1)) == [b"25"]
    assert await client.quiet() == []


async def test_a_cumulative_acknowledgement_in_a_ledger_that_is_gone_counts_for_those_before(make_world: MakeWorld) -> None:
    """It was confirmed, and what came before that ledger was delivered again after a restart."""
    world = await make_world()
    topic, client, clock = await delayed_and_four_ledgers(world)
    ids = topic.ledger_list.ids
    assert await upkeep(world) == (2, {})
    gone = pb.MessageId(ledger_id=ids[2], entry_id=7)
    assert topic.ledger_list.dropped(gone.ledger_id)
    await client.close()
    await eventually(lambda: not topic.subscriptions.table["s"].consumers)
    client = await world.connected("owner")
    await client.subscribe(TOPIC, "s", sub_type=pb.Subscribe.Exclusive)
    ack(client, gone, kind=pb.Ack.Cumulative, request_id=9)
    assert not (await client.expect("ACK_RESPONSE")).message
    assert topic.subscriptions.table["s"].cursor.acknowledged(Position(ids[0], 0))
    part = pb.MessageId(ledger_id=gone.ledger_id, entry_id=7, ack_set=[1])
    ack(client, part, request_id=10)
    assert not (await client.expect("ACK_RESPONSE")).message
    await client.close()
    world, topic = await restarted(make_world, world, clock)
    assert topic.subscriptions.table["s"].cursor.acknowledged(Position(ids[0], 0))
