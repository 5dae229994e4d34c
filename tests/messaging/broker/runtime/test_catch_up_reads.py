"""What is read from the log for consumers that are behind: large reads, ahead and shared, and reads that fail or bring less."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.admin.stats import internal_stats
from messaging.broker.runtime.topics.backlog_reader import AHEAD_READS, READ_BYTES, ReadAhead
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import Corrupt, Position, Unavailable
from tests.messaging.broker.runtime.long_topic import SIZE, TOPIC, backlog, dispatcher_of, read_all, reader, resting, stored
from tests.support.broker_world import BrokerWorld
from tests.support.waiting import eventually

C = pb.Command


async def test_a_consumer_reads_a_long_topic_from_its_beginning(world: BrokerWorld) -> None:
    await stored(world, 100)
    client = await reader(world, 1000)
    await read_all(client, 100)
    reads = world.service.backlog_scheduler.reads
    assert reads <= 1 + 100 * SIZE // READ_BYTES + 2
    assert reads >= 100 * SIZE // (2 * READ_BYTES)


async def test_the_next_read_is_fetched_while_one_is_sent(world: BrokerWorld) -> None:
    client, held = await resting(world, 40, taken=1)
    assert held.current is not None
    assert held.ahead[0].first == Position(held.current.first.ledger_id, held.current.blocks[-1].last_entry + 1)
    assert world.service.backlog_scheduler.reads == 2  # and no further: the consumer takes nothing
    client.say(C.FLOW, consumer_id=1, message_permits=100)
    await read_all(client, 40, first=1)


@asynccontextmanager
async def by_hand(world: BrokerWorld, topic: Topic, count: int) -> AsyncIterator[tuple[Subscription, ReadAhead]]:
    """A consumer whose first read is there and who is handed out nothing but by hand; in the end it gets all `count` messages."""
    world.service.backlog_scheduler._turn_due = True
    client = await reader(world, count)
    await eventually(lambda: any(one.can_dispatch() for one in topic.subscriptions.values()))
    (subscription,) = topic.subscriptions.values()
    assert not dispatcher_of(topic).dispatch_backlog(subscription, 1)  # nothing is there yet
    (held,) = backlog(topic).readers.values()
    await eventually(lambda: held.current is not None and held.current.there)
    yield subscription, held
    world.service.backlog_scheduler._turn_due = False
    world.service.backlog_scheduler.schedule(dispatcher_of(topic), subscription)
    await read_all(client, count)


async def test_several_reads_wait_for_a_consumer_that_takes_more(world: BrokerWorld) -> None:
    topic = await stored(world, 100)
    async with by_hand(world, topic, 100) as (subscription, held):
        assert dispatcher_of(topic).dispatch_backlog(subscription, 1)
        await eventually(lambda: len(held.ahead) == AHEAD_READS and held.ahead[-1].there)
        assert held.current is not None
        reads = [held.current, *held.ahead]
        for before, after in pairwise(reads):
            assert after.first == Position(before.first.ledger_id, before.blocks[-1].last_entry + 1)
        assert world.service.backlog_scheduler.reads == len(reads)  # and no further


async def test_two_reads_are_under_way_at_a_time(world: BrokerWorld) -> None:
    """Where the second begins is known before the first is there."""
    topic = await stored(world, 100)
    async with by_hand(world, topic, 100) as (subscription, held):
        ingress_limiter = world.ledgers.delay("read")
        for _ in range(3):
            assert dispatcher_of(topic).dispatch_backlog(subscription, 1)
        assert [read.there for read in held.ahead] == [False] * AHEAD_READS
        assert held.current is not None
        for before, after in pairwise([held.current, *held.ahead]):
            assert after.first == Position(before.first.ledger_id, before.stop_entry)
        await eventually(lambda: world.ledgers.calls.count("read") == 1 + AHEAD_READS)
        ingress_limiter.set()


async def test_a_read_that_brings_less_than_was_forecast_loses_nothing(world: BrokerWorld) -> None:
    topic = await stored(world, 60)
    ledger_id = topic.ledger.record.ledgers[0].ledger_id
    for entry in (12, 30):
        world.ledgers.damage(ledger_id, entry)
    client = await reader(world, 100)
    for index in (*range(12), *range(13, 30), *range(31, 60)):
        assert (await client.next()).text[:6] == b"%06d" % index


async def test_subscriptions_at_the_same_place_share_what_is_read(world: BrokerWorld) -> None:
    topic = await stored(world, 60)
    clients = [await reader(world, 0, f"s{number}") for number in range(5)]
    ingress_limiter = world.ledgers.delay("open")
    for client in clients:
        client.say(C.FLOW, consumer_id=1, message_permits=1000)
    await eventually(lambda: dispatcher_of(topic).backlog is not None and len(backlog(topic).readers) == 5)
    cursors = internal_stats(topic)["cursors"]
    assert [cursors[f"s{number}"]["pendingReadOps"] for number in range(5)] == [1] * 5
    ingress_limiter.set()
    for client in clients:
        await read_all(client, 60)
    alone = 2 + 60 * SIZE // READ_BYTES + 1
    assert world.service.backlog_scheduler.reads <= alone + 5  # they drift apart near the end, where reads are small
    assert world.service.backlog_scheduler.reads_joined >= 4


async def test_a_corrupt_entry_is_passed_over_by_all_who_wait_for_it(world: BrokerWorld) -> None:
    topic = await stored(world, 5)
    ledger_id = topic.ledger_list.last.ledger_id
    clients = [await reader(world, 0, f"s{number}") for number in range(2)]
    ingress_limiter = world.ledgers.delay("open")
    world.ledgers.fail_next("read", Corrupt("injected", ledger_id, 0))
    for client in clients:
        client.say(C.FLOW, consumer_id=1, message_permits=10)
    await eventually(lambda: dispatcher_of(topic).backlog is not None and len(backlog(topic).readers) == 2)
    ingress_limiter.set()
    for client in clients:
        await read_all(client, 5, first=1)


async def test_a_read_that_fails_is_tried_again(world: BrokerWorld) -> None:
    await stored(world, 3)
    world.ledgers.fail_next("read", Unavailable("injected"))
    client = await reader(world, 10)
    await read_all(client, 3)


async def test_entries_sent_again_do_not_disturb_the_place_where_reading_goes_on(world: BrokerWorld) -> None:
    topic = await stored(world, 40)
    client = await world.connected("owner")
    await client.subscribe(TOPIC, permits=30)  # Shared
    found = await client.messages(30)
    first = found[0].body.message_id
    ids = [pb.MessageId(ledger_id=first.ledger_id, entry_id=first.entry_id)]
    (held,) = backlog(topic).readers.values()
    current = held.current
    client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=ids)
    client.say(C.FLOW, consumer_id=1, message_permits=1)
    assert (await client.next()).body.message_id.entry_id == first.entry_id
    assert held.current is current
    client.say(C.FLOW, consumer_id=1, message_permits=100)
    await read_all(client, 40, first=30)
