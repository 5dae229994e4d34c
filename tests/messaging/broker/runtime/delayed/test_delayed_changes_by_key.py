"""Cancelling and rescheduling the delayed messages of a key."""

from __future__ import annotations

import pytest

from messaging.adminrpc import delayed as schema
from messaging.broker.runtime.topics.delayed.changes import TURN_JUDGED
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from tests.support.brokers.delayed_broker import MINUTE_MS, START_MS, begun, consuming, passes, published, topic_of
from tests.support.clients.consuming import TOPIC, texts
from tests.support.clients.publishing import producing, receipts
from tests.support.clients.raw_client import delayed_frame
from tests.support.clock import Clock
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

SUBSCRIPTIONS = 25


@pytest.fixture
async def world(make_world: MakeWorld) -> BrokerWorld:
    return begun(await make_world(), START_MS)[0]


@pytest.fixture
async def clock(world: BrokerWorld) -> Clock:
    return begun(world, START_MS)[1]


async def test_the_messages_of_a_key_are_changed_in_pages(world: BrokerWorld, clock: Clock) -> None:
    consumer = await consuming(world)
    await published(world, *[MINUTE_MS] * 6, keys=["a", "b", "a", "b", "a", "a"])
    asked = schema.DelayedKeyChange(topic=TOPIC, key="a", limit=2)
    page = await world.admin.delayed.change_key(asked)
    assert (page.changed, page.refused_count) == (2, 0) and page.next
    ledger_id, entry_id = map(int, page.next.split(":"))
    page = await world.admin.delayed.change_key(
        schema.DelayedKeyChange(
            topic=TOPIC, key="a", ledger_id=ledger_id, entry_id=entry_id, deliver_at_ms=START_MS + 2 * MINUTE_MS
        )
    )
    assert (page.changed, page.next) == (2, "")
    passes(world, clock, MINUTE_MS)
    assert sorted(texts(await consumer.messages(2))) == [b"1", b"3"]
    passes(world, clock, MINUTE_MS)
    assert sorted(texts(await consumer.messages(2))) == [b"4", b"5"]


async def test_the_messages_of_a_key_are_found_where_the_index_is_lost(make_world: MakeWorld, world: BrokerWorld) -> None:
    await published(world, 0, *[MINUTE_MS] * 4, keys=["a"] * 5)
    world, clock = begun(await make_world(after=world), START_MS)
    await world.service.open_topic(parse_topic(TOPIC))
    page = await world.admin.delayed.change_key(schema.DelayedKeyChange(topic=TOPIC, key="a"))
    assert (page.changed, page.next) == (4, "")
    consumer = await consuming(world)
    passes(world, clock, MINUTE_MS)
    assert texts(await consumer.messages(1)) == [b"0"] and await consumer.quiet() == []


async def test_messages_of_a_key_that_somebody_had_are_told(world: BrokerWorld, clock: Clock) -> None:
    holding = await consuming(world, "holding", pb.Subscribe.Exclusive)
    await published(world, MINUTE_MS, keys=["a"])
    await holding.messages(1)
    page = await world.admin.delayed.change_key(schema.DelayedKeyChange(topic=TOPIC, key="a"))
    assert (page.changed, page.refused_count) == (0, 1)
    assert page.refused[0].sentence == "was delivered to subscription 'holding'"


async def test_the_messages_of_a_key_are_all_changed_where_many_subscriptions_are_asked(world: BrokerWorld, clock: Clock) -> None:
    """One turn asks so many subscriptions only: the rest of a block comes in the next."""
    count = 2 * TURN_JUDGED // SUBSCRIPTIONS
    producer = await producing(world)
    topic = await topic_of(world)
    for number in range(SUBSCRIPTIONS):
        await topic.subscriptions.create(f"s{number}", EARLIEST)
    producer.write(b"".join(delayed_frame(at, b"m", START_MS + MINUTE_MS, key="a") for at in range(count)))
    await receipts(producer, count)
    page = await world.admin.delayed.change_key(schema.DelayedKeyChange(topic=TOPIC, key="a"))
    assert (page.changed, page.refused_count, page.next) == (count, 0, "")
    assert [one.backlog_entries for one in topic.subscriptions.table.values()] == [0] * SUBSCRIPTIONS
