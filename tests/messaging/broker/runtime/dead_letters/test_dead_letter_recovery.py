"""Dead letters after kills and failed appends, and the rules for setting a policy."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import pytest

from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.adminrpc.redrive import RedriveMove, RedrivePrepare, RedriveScan
from messaging.adminrpc.subscriptions import SubscriptionDelete
from messaging.adminrpc.topics import StatsAsked, TopicCreate, TopicDelete
from messaging.broker.core.dead_letters.moves import Move, Part
from messaging.broker.runtime.topics.persistent import persistent
from messaging.broker.runtime.topics.subscriptions.acknowledgements import Acknowledgements
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import MagnetarError, SubscriptionNotFound
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST, AppendFailed, Fence, Position
from tests.support.clients.consuming import TOPIC, filled, id_of, texts
from tests.support.clients.raw_client import send_frame
from tests.support.clock import Clock, give
from tests.support.dead_letters import (
    TARGET,
    consumer,
    dead_letters,
    letters_of,
    moved,
    nack,
    policy_of,
    rejected,
    set_policy,
    subscription_of,
)
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

# --- exactly once


async def killed(world: BrokerWorld, make_world: MakeWorld) -> BrokerWorld:
    after = await make_world(after=world)
    await after.service.topics.get(parse_topic(TOPIC), create=False)
    await eventually(lambda: not subscription_of(after).recovering)
    return after


async def test_killed_between_append_and_acknowledgement_it_is_there_once(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await make_world()
    client = await consumer(world, 2, max_redeliver_count=0)
    nack(client, (await client.messages(2))[0])
    await moved(world, 1)  # the target and its subscription exist from here on
    kept: list[Any] = []
    monkeypatch.setattr(world.service.cursors, "append", lambda *args: kept.append(args))
    monkeypatch.setattr(world.service.cursors, "when_durable", lambda _, done: kept.append(done))
    client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    await eventually(lambda: len(kept) >= 2)
    assert subscription_of(world).backlog_entries == 0
    after = await killed(world, make_world)
    assert subscription_of(after).backlog_entries == 0, "what the target holds is not delivered again"
    assert texts(await dead_letters(after, 2)) == [b"0", b"1"]


async def test_killed_before_the_acknowledgement_it_is_there_once_though_the_target_was_trimmed(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await make_world()
    client = await consumer(world, 2, max_redeliver_count=0)
    nack(client, (await client.messages(2))[0])
    await moved(world, 1)
    kept: list[Any] = []
    monkeypatch.setattr(world.service.cursors, "append", lambda *args: kept.append(args))
    monkeypatch.setattr(world.service.cursors, "when_durable", lambda _, done: kept.append(done))
    client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    await eventually(lambda: len(kept) >= 2)
    world = await make_world(after=world)
    target = await trimmed(world, TARGET)
    await world.service.topics.unload(target.name)
    after = await killed(world, make_world)
    assert subscription_of(after).backlog_entries == 0, "it is known that the target had it"


class Killed(BaseException):
    """The broker ends here."""


async def killed_now(*_: object) -> NoReturn:
    raise Killed


async def trimmed(world: BrokerWorld, name: str) -> Topic:
    """Everything in the topic is acknowledged, and deleted."""
    topic = await world.service.topics.get(parse_topic(name), create=False)
    for subscription in topic.subscriptions.table.values():
        await persistent(topic).acknowledgements.skip_to(subscription, topic.ledger_list.last)
    await topic.ledger.roll()
    clock = Clock()
    give(world.service, clock)
    clock.pass_(1)
    assert (await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[name]))).trimmed_ledgers > 0
    assert topic.ledger_list.entries == 0
    return topic


async def test_a_redrive_that_ended_before_the_acknowledgement_moves_once_though_the_target_was_trimmed(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, back = await make_world(), f"{TOPIC}-back"
    await filled(world, 3)
    asked = RedriveScan(topic=TOPIC, subscription="redrive", owner="owner@acme", ledger_id=-1, entry_id=0)
    found = (await world.admin.redrive.scan(asked)).found
    at = await world.admin.redrive.prepare(RedrivePrepare(step=1, target=back, owner="owner@acme"))
    step = RedriveMove(
        topic=TOPIC,
        subscription="redrive",
        job="j",
        step=1,
        positions=[[one.ledger_id, one.entry_id] for one in found],
        ledger_id=at.ledger_id,
        entry_id=at.entry_id,
        target=back,
        owner="owner@acme",
    )
    monkeypatch.setattr(Acknowledgements, "acknowledge_entries", killed_now)
    with pytest.raises(Killed):
        await world.admin.redrive.move(step)
    monkeypatch.undo()
    world = await make_world(after=world)
    await trimmed(world, back)
    world = await make_world(after=world)
    answer = await world.admin.redrive.move(step)
    assert (answer.messages, answer.already) == (0, True)
    assert world.service.topics.loaded[back].ledger_list.entries == 0
    assert subscription_of(world, TOPIC, "redrive").backlog_entries == 0


async def test_a_target_with_a_block_that_is_none_of_ours_is_trimmed_all_the_same(make_world: MakeWorld) -> None:
    """And what became of the other moves is known."""
    world = await make_world()
    client = await consumer(world, 3, max_redeliver_count=0)
    for number in range(1, 4):
        nack(client, (await client.messages(1))[0])
        await moved(world, number)
    target = world.service.topics.loaded[TARGET]
    world.ledgers.garble(*target.ledger_list.at_index(1))
    assert await persistent(target).stored_moves.parts_stored("p", _move(TARGET, target.ledger_list.first), "x") == 0
    await trimmed(world, TARGET)


async def test_what_a_target_keeps_of_moves_is_charged(world: BrokerWorld) -> None:
    await filled(world, 1)
    topic = world.service.topics.loaded[TOPIC]
    records = world.service.memory_limiter.records
    before = records.tenants.get("acme", 0)
    for number in range(50):
        await persistent(topic).stored_moves.begin(f"mover-{number}", _move(TOPIC, topic.ledger_list.first), "x")
    assert records.tenants["acme"] - before > 50 * 500
    await world.service.topics.unload(topic.name)
    assert records.tenants.get("acme", 0) == 0


def _move(target: str, after: Position) -> Move:
    return Move(1, (after,), target, (after.ledger_id, after.entry_id - 1), (Part(1, 1),))


async def test_killed_before_the_receipt_of_the_append_it_is_there_once(make_world: MakeWorld) -> None:
    world = await make_world()
    client = await consumer(world, 2, max_redeliver_count=0)
    nack(client, (await client.messages(2))[0])
    await moved(world, 1)
    world.ledgers.hold()
    client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    await eventually(lambda: world.ledgers.kept_back > 0)
    assert subscription_of(world).backlog_entries == 1
    after = await killed(world, make_world)
    assert subscription_of(after).backlog_entries == 0
    assert texts(await dead_letters(after, 2)) == [b"0", b"1"]


async def test_killed_before_the_append_it_is_sent_again(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = await make_world()
    client = await consumer(world, 2, max_redeliver_count=0)
    nack(client, (await client.messages(2))[0])
    await moved(world, 1)
    written: list[str] = []
    put_value = world.meta.put_value

    async def put_and_hang(fence: Fence, key: str, value: bytes) -> None:
        await put_value(fence, key, value)
        written.append(key)
        await asyncio.Event().wait()

    monkeypatch.setattr(world.meta, "put_value", put_and_hang)
    client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    await eventually(lambda: written)
    monkeypatch.undo()
    after = await killed(world, make_world)
    assert subscription_of(after).backlog_entries == 1
    assert texts(await dead_letters(after, 1)) == [b"0"]
    reader = await after.connected("reader")
    await reader.subscribe(TOPIC, permits=10)
    await rejected(reader, 1)
    await moved(after, 1)
    assert texts(await dead_letters(after, 2)) == [b"0", b"1"]


async def test_an_append_that_failed_is_made_again_once(world: BrokerWorld) -> None:
    clock = Clock()
    give(world.service, clock)
    client = await consumer(world, 2, max_redeliver_count=0)
    nack(client, (await client.messages(2))[0])
    await moved(world, 1)
    world.ledgers.fail_appends(AppendFailed("disk"))
    client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    await eventually(lambda: bool(letters_of(world).last_error))
    world.ledgers.heal()
    clock.pass_(1_001)

    def again() -> bool:
        clock.pass_(60_000)
        world.service.dead_letters.retry()
        letters = subscription_of(world).dead_letters
        return letters is not None and letters.moved_messages == 2

    await eventually(again)
    assert texts(await dead_letters(world, 2)) == [b"0", b"1"]


async def test_the_policy_outlives_a_kill_and_ends_with_its_subscription(make_world: MakeWorld) -> None:
    world = await make_world()
    await consumer(world, 1, max_redeliver_count=7)
    after = await killed(world, make_world)
    assert (await policy_of(after)).max_redeliver_count == 7
    await after.admin.subscriptions.delete(SubscriptionDelete(topic=TOPIC, subscription="s", force=True))
    topic = after.service.topics.loaded[TOPIC]
    await topic.subscriptions.create("s", EARLIEST)
    assert (await policy_of(after)).target == ""
    last = await killed(after, make_world)
    assert (await policy_of(last)).target == ""


async def test_a_deleted_topic_leaves_no_policy(world: BrokerWorld) -> None:
    await consumer(world, 1)
    await world.admin.topics.delete(TopicDelete(topic=TOPIC, force=True))
    assert not [key for key in world.meta.values if key.startswith("dead-letters:")]


# --- setting it


async def test_the_target_has_pulsars_name_unless_another_is_given(world: BrokerWorld) -> None:
    await consumer(world, 1)
    found = await policy_of(world)
    assert (found.target, found.initial_subscription, found.owner) == (TARGET, "dead", "owner@acme")
    stats = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats["subscriptions"]["s"]["deadLetters"]
    assert (stats["target"], stats["maxRedeliverCount"], stats["waitingEntries"]) == (TARGET, 1, 0)


@pytest.mark.parametrize("target", [TOPIC, f"{TARGET}-partition-0", "non-persistent://acme/orders/x", "a b/c", "x" * 5000])
async def test_a_target_that_cannot_be_one_is_refused(world: BrokerWorld, target: str) -> None:
    await filled(world, 1)
    await world.service.topics.loaded[TOPIC].subscriptions.create("s", EARLIEST)
    with pytest.raises(MagnetarError):
        await set_policy(world, target=target)


async def test_only_a_durable_subscription_has_one(world: BrokerWorld) -> None:
    await filled(world, 1)
    with pytest.raises(SubscriptionNotFound):
        await set_policy(world)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, "reader", durable=False)
    with pytest.raises(MagnetarError, match="not durable"):
        await set_policy(world, subscription="reader")


async def test_of_a_partitioned_topic_every_partition_moves_to_one_target(world: BrokerWorld) -> None:
    base = "persistent://acme/orders/parts"
    await world.admin.topics.create(TopicCreate(topic=base, partitions=2))
    await world.admin.topics.create(TopicCreate(topic=f"{base}-s-DLQ", partitions=2))
    client = await world.connected("owner")
    for number in (0, 1):
        await client.producer(f"{base}-partition-{number}", number + 1)
        await client.subscribe(f"{base}-partition-{number}", "s", number + 1, permits=10)
    await set_policy(world, topic=base, max_redeliver_count=0)
    for number in (0, 1):
        client.write(send_frame(0, b"%d" % number, number + 1))
        found = [await client.next(), await client.next()]
        message = next(one for one in found if one.name == "MESSAGE")
        client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=number + 1, message_ids=[id_of(message)])
    await eventually(
        lambda: (
            sum(
                world.service.topics.loaded[f"{base}-s-DLQ-partition-{number}"].ledger_list.entries
                for number in (0, 1)
                if f"{base}-s-DLQ-partition-{number}" in world.service.topics.loaded
            )
            == 2
        )
    )
