"""Cancelling and rescheduling delayed messages on a real broker: what consumers get, what is refused, what outlives a kill."""

from __future__ import annotations

import asyncio

import pytest

from messaging.adminrpc import delayed
from messaging.adminrpc.diagnosis import MessageTrace
from messaging.adminrpc.subscriptions import SubscriptionCreate, SubscriptionReset
from messaging.broker.core.delayed import run_format
from messaging.broker.runtime.topics.persistent import persistent
from messaging.errors import Conflict, NotFound, NotReady
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.meta_store import DelayedRun
from tests.support.brokers.delayed_broker import (
    MINUTE_MS,
    SEALED,
    START_MS,
    begun,
    cancel,
    consuming,
    move,
    passes,
    published,
    topic_of,
)
from tests.support.clients.consuming import TOPIC, ack, id_of, texts
from tests.support.clients.publishing import producing, receipts
from tests.support.clients.raw_client import delayed_frame
from tests.support.clock import Clock
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld


def runs(world: BrokerWorld) -> tuple[DelayedRun, ...]:
    return world.service.topics.loaded[str(parse_topic(TOPIC))].ledger.record.delayed_runs


@pytest.fixture
async def world(make_world: MakeWorld) -> BrokerWorld:
    return begun(await make_world(), START_MS)[0]


@pytest.fixture
async def clock(world: BrokerWorld) -> Clock:
    return begun(world, START_MS)[1]


async def test_what_is_cancelled_is_never_delivered_and_counts_as_acknowledged(world: BrokerWorld, clock: Clock) -> None:
    consumer = await consuming(world)
    first, second = await published(world, MINUTE_MS, MINUTE_MS)
    done = await cancel(world, first)
    assert (done.already, done.former_ms) == (False, START_MS + MINUTE_MS)
    assert (await cancel(world, first)).already
    subscription = (await topic_of(world)).subscriptions.named("s")
    assert (subscription.backlog_entries, subscription.delayed_entries) == (1, 1)
    passes(world, clock, MINUTE_MS)
    (got,) = await consumer.messages(1)
    assert got.text == b"1"
    assert await consumer.quiet() == []
    ack(consumer, id_of(got))
    await eventually(lambda: subscription.backlog_entries == 0)
    assert subscription.cursor.mark_delete == second


async def test_a_subscription_that_is_created_later_or_moved_back_does_not_get_it(world: BrokerWorld, clock: Clock) -> None:
    first, _ = await published(world, MINUTE_MS, MINUTE_MS)
    await cancel(world, first)
    shared, exclusive = await consuming(world, "later"), await consuming(world, "at-once", pb.Subscribe.Exclusive)
    assert texts(await exclusive.messages(1)) == [b"1"]
    passes(world, clock, MINUTE_MS)
    assert texts(await shared.messages(1)) == [b"1"]
    topic = await topic_of(world)
    await world.admin.subscriptions.reset(
        SubscriptionReset(topic=TOPIC, subscription="later", ledger_id=EARLIEST[0], entry_id=EARLIEST[1])
    )
    again = await consuming(world, "later")
    assert texts(await again.messages(1)) == [b"1"]
    assert await again.quiet() == []
    assert topic.subscriptions.named("later").backlog_entries == 1


@pytest.mark.parametrize("after_ms", [2 * MINUTE_MS, 20_000])
async def test_what_is_rescheduled_comes_at_its_new_time_only(world: BrokerWorld, clock: Clock, after_ms: int) -> None:
    consumer = await consuming(world)
    (position,) = await published(world, MINUTE_MS)
    await move(world, position, after_ms)
    passes(world, clock, after_ms - 5_000)
    assert await consumer.quiet() == []
    passes(world, clock, 5_000)
    (got,) = await consumer.messages(1)
    assert (got.body.message_id.ledger_id, got.body.message_id.entry_id) == position
    passes(world, clock, 3 * MINUTE_MS)
    assert await consumer.quiet() == []


async def test_what_is_rescheduled_to_the_past_comes_at_once(world: BrokerWorld, clock: Clock) -> None:
    consumer = await consuming(world)
    (position,) = await published(world, MINUTE_MS)
    await move(world, position, -1_000)
    assert texts(await consumer.messages(1)) == [b"0"]
    with pytest.raises(Conflict, match="was delivered to subscription 's'"):
        await move(world, position, MINUTE_MS)


async def test_what_a_subscription_had_is_refused_and_says_which(world: BrokerWorld, clock: Clock) -> None:
    waiting, holding = await consuming(world, "waiting"), await consuming(world, "holding", pb.Subscribe.Exclusive)
    (position,) = await published(world, MINUTE_MS)
    (got,) = await holding.messages(1)
    with pytest.raises(Conflict, match="was delivered to subscription 'holding'"):
        await cancel(world, position)
    ack(holding, id_of(got))
    topic = await topic_of(world)
    await eventually(lambda: topic.subscriptions.named("holding").backlog_entries == 0)
    with pytest.raises(Conflict, match="was acknowledged by subscription 'holding'"):
        await move(world, position, 2 * MINUTE_MS)
    passes(world, clock, MINUTE_MS)
    assert texts(await waiting.messages(1)) == [b"0"]


async def test_a_subscription_that_begins_behind_it_never_had_it(world: BrokerWorld, clock: Clock) -> None:
    (position,) = await published(world, MINUTE_MS)
    passes(world, clock, 1_000)
    await world.admin.subscriptions.create(
        SubscriptionCreate(topic=TOPIC, subscription="latest", ledger_id=2**63 - 1, entry_id=2**63 - 1)
    )
    assert not (await cancel(world, position)).already


async def test_what_is_not_delayed_or_does_not_exist_is_not_found(world: BrokerWorld, clock: Clock) -> None:
    plain, delayed = await published(world, 0, MINUTE_MS)
    with pytest.raises(NotFound, match="is not a delayed message"):
        await cancel(world, plain)
    with pytest.raises(NotFound, match="has no message"):
        await cancel(world, Position(delayed.ledger_id, 9))
    with pytest.raises(NotFound, match="none with batch index 3"):
        await cancel(world, delayed, batch_index=3)


async def test_what_is_due_and_reached_nobody_may_still_be_changed(world: BrokerWorld, clock: Clock) -> None:
    consumer = await consuming(world)
    await consumer.close()
    one, two = await published(world, MINUTE_MS, MINUTE_MS)
    passes(world, clock, MINUTE_MS)
    await cancel(world, one)
    await move(world, two, 2 * MINUTE_MS)
    consumer = await consuming(world)
    assert await consumer.quiet() == []
    passes(world, clock, MINUTE_MS)
    assert texts(await consumer.messages(1)) == [b"1"]


async def test_a_message_of_a_batch_is_cancelled_alone(world: BrokerWorld, clock: Clock) -> None:
    consumer = await consuming(world)
    producer = await producing(world)
    producer.write(delayed_frame(0, b"batch", START_MS + MINUTE_MS, count=3))
    await receipts(producer, 1)
    position = (await topic_of(world)).ledger_list.last
    await cancel(world, position, batch_index=1)
    assert (await cancel(world, position, batch_index=1)).already
    with pytest.raises(Conflict, match="cannot be rescheduled alone"):
        await world.admin.delayed.change(
            delayed.DelayedChange(
                topic=TOPIC, ledger_id=position[0], entry_id=position[1], batch_index=0, deliver_at_ms=START_MS + 2 * MINUTE_MS
            )
        )
    passes(world, clock, MINUTE_MS)
    (got,) = await consumer.messages(1)
    assert list(got.body.ack_set) == [0b101]


async def test_a_batch_of_which_every_message_is_cancelled_is_cancelled(world: BrokerWorld, clock: Clock) -> None:
    producer = await producing(world)
    producer.write(delayed_frame(0, b"batch", START_MS + MINUTE_MS, count=3))
    await receipts(producer, 1)
    topic = await topic_of(world)
    for index in range(3):
        await cancel(world, topic.ledger_list.last, batch_index=index)
    assert (overrides := persistent(topic).overrides) is not None and overrides.is_cancelled(topic.ledger_list.last)


@pytest.mark.parametrize("count", [5, 2 * SEALED])
async def test_changes_outlive_a_kill(make_world: MakeWorld, world: BrokerWorld, clock: Clock, count: int) -> None:
    """Also those of entries that the index had stored."""
    consumer = await consuming(world)
    await consumer.close()
    positions = await published(world, *[MINUTE_MS + at for at in range(count)])
    await cancel(world, positions[0])
    await move(world, positions[1], 5 * MINUTE_MS)
    await move(world, positions[2], 30_000)
    world, clock = begun(await make_world(after=world), START_MS + 40_000)
    consumer, new = await consuming(world), await consuming(world, "new")
    for one in (consumer, new):
        assert texts(await one.messages(1)) == [b"2"]
    passes(world, clock, 2 * MINUTE_MS)
    expected = [b"%d" % at for at in range(3, count)]
    for one in (consumer, new):
        assert sorted(texts(await one.messages(count - 3))) == sorted(expected)
    world, clock = begun(await make_world(after=world), START_MS + 4 * MINUTE_MS)
    consumer = await consuming(world, "newest")
    assert b"1" not in texts(await consumer.messages(count - 2)) and await consumer.quiet() == []
    passes(world, clock, MINUTE_MS)
    assert texts(await consumer.messages(1)) == [b"1"]


async def test_what_a_run_had_released_and_was_rescheduled_comes_after_a_kill(
    make_world: MakeWorld, world: BrokerWorld, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulation: the directory of the run, written again meanwhile, named it, though the run releases it no more.
    After a kill it was pending for ever."""
    monkeypatch.setattr(run_format, "BLOCK_ENTRIES", 4)
    consumer = await consuming(world)
    await consumer.close()
    positions = await published(world, *[at * MINUTE_MS for at in range(1, SEALED + 1)])
    await eventually(lambda: len(runs(world)) == 1)
    await world.service.topics.unload(parse_topic(TOPIC))
    world.service.topics.services.memory.delayed_seal_entries = SEALED // 2
    topic, [run] = await topic_of(world), runs(world)
    passes(world, clock, 2 * MINUTE_MS)
    await eventually(lambda: persistent(topic).delayed.waiting_entries < SEALED)
    await move(world, positions[0], 12 * MINUTE_MS)
    passes(world, clock, 9 * MINUTE_MS)
    await eventually(lambda: [one.directory_id for one in runs(world)] not in ([], [run.directory_id]))
    passes(world, clock, MINUTE_MS)
    await move(world, positions[-1], 30 * MINUTE_MS)  # the other reschedule is forgotten: both its times have passed
    world, clock = begun(await make_world(after=world), START_MS + 12 * MINUTE_MS)
    assert b"0" in texts(await (await consuming(world)).messages(12))


async def test_what_cannot_be_stored_is_not_confirmed(world: BrokerWorld, clock: Clock) -> None:
    (position,) = await published(world, MINUTE_MS)
    topic = await topic_of(world)
    await world.meta.acquire(topic.services.stores.storage.fence.scope)  # another owner: nothing is written any more
    with pytest.raises(NotReady, match="a restart may undo it"):
        await cancel(world, position)


async def test_changes_that_come_together_share_a_write(world: BrokerWorld, clock: Clock) -> None:
    positions = await published(world, *[MINUTE_MS] * 8)
    await asyncio.gather(*(cancel(world, one) for one in positions))
    consumer = await consuming(world)
    passes(world, clock, MINUTE_MS)
    assert await consumer.quiet() == []
    stored = await world.meta.get_value(f"delayed/{TOPIC}")
    assert stored is not None


async def test_a_trace_tells_of_it(world: BrokerWorld, clock: Clock) -> None:
    await consuming(world)
    gone, moved = await published(world, MINUTE_MS, MINUTE_MS)
    await cancel(world, gone)
    await move(world, moved, 2 * MINUTE_MS)
    traced = await world.admin.diagnosis.trace(MessageTrace(topic=TOPIC, ledger_id=gone[0], entry_id=gone[1]))
    assert [one.where for one in traced.subscriptions] == ["cancelled"]
    traced = await world.admin.diagnosis.trace(MessageTrace(topic=TOPIC, ledger_id=moved[0], entry_id=moved[1]))
    assert traced.entry is not None and traced.entry.deliver_at_ms == START_MS + 2 * MINUTE_MS


async def test_deleting_the_topic_forgets_what_was_decided(world: BrokerWorld, clock: Clock) -> None:
    (position,) = await published(world, MINUTE_MS)
    await cancel(world, position)
    await world.service.topics.delete(parse_topic(TOPIC), force=True)
    assert await world.meta.get_value(f"delayed/{TOPIC}") is None
