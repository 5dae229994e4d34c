"""What is read from the log for consumers that are behind: large reads, ahead and shared, and reads that fail or bring less.
Which reads are planned is tested in `core/backlog/test_backlog_plan.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from messaging.broker.core.backlog.read_queue import READS_MAX
from messaging.broker.runtime.admin.stats.internal_stats import internal_stats
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import READ_BYTES, Corrupt, Unavailable
from tests.support.long_topic import SIZE, TOPIC, pending_reads, read_all, reader, resting, stored
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command


async def test_a_consumer_reads_a_long_topic_from_its_beginning(world: BrokerWorld) -> None:
    await stored(world, 100)
    client = await reader(world, 1000)
    await read_all(client, 100)
    reads = world.service.backlog_scheduler.reads
    assert reads <= 1 + 100 * SIZE // READ_BYTES + 2
    assert reads >= 100 * SIZE // (2 * READ_BYTES)


async def test_the_next_read_is_fetched_while_one_is_sent(world: BrokerWorld) -> None:
    client = await resting(world, 40, taken=1)
    assert world.service.backlog_scheduler.reads == 2  # and no further: the consumer takes nothing
    client.say(C.FLOW, consumer_id=1, message_permits=100)
    await read_all(client, 40, first=1)


async def test_two_reads_are_under_way_at_a_time(world: BrokerWorld) -> None:
    """Where the second begins is known before the first is there."""
    await stored(world, 100)
    client = await reader(world, 1)
    await read_all(client, 1)
    await eventually(lambda: world.ledgers.calls.count("read") == 2)  # the next is fetched
    held_back = world.ledgers.delay("read")
    client.say(C.FLOW, consumer_id=1, message_permits=1000)
    await eventually(lambda: world.service.backlog_scheduler.reads_under_way == READS_MAX)
    held_back.set()
    await read_all(client, 100, first=1)


class ForecastsLater(FaultyLedgerStore):
    """Has to ask somebody else how much a read will bring."""

    asked = 0

    def forecast(self, ledger_id: int, first: int, *, entries_max: int, bytes_max: int) -> Awaitable[int]:
        async def answer() -> int:
            await asyncio.sleep(0)
            self.asked += 1
            told = super(ForecastsLater, self).forecast(ledger_id, first, entries_max=entries_max, bytes_max=bytes_max)
            return told if isinstance(told, int) else await told

        return answer()


async def test_what_a_read_brings_may_be_known_only_later(world: BrokerWorld) -> None:
    await stored(world, 60)
    world.ledgers.__class__ = ForecastsLater
    await read_all(await reader(world, 1000), 60)
    assert isinstance(world.ledgers, ForecastsLater) and world.ledgers.asked > 1


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
    await eventually(lambda: pending_reads(topic) == 5)
    cursors = (await internal_stats(topic, TurnSlices(world.service.peers.turn_loop, "acme")))["cursors"]
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
    await eventually(lambda: pending_reads(topic) == 2)
    ingress_limiter.set()
    for client in clients:
        await read_all(client, 5, first=1)


async def test_a_read_that_fails_is_tried_again(world: BrokerWorld) -> None:
    await stored(world, 3)
    world.ledgers.fail_next("read", Unavailable("injected"))
    client = await reader(world, 10)
    await read_all(client, 3)


async def test_entries_sent_again_do_not_disturb_the_place_where_reading_goes_on(world: BrokerWorld) -> None:
    await stored(world, 40)
    client = await world.connected("owner")
    await client.subscribe(TOPIC, permits=30)  # Shared
    found = await client.messages(30)
    first = found[0].body.message_id
    ids = [pb.MessageId(ledger_id=first.ledger_id, entry_id=first.entry_id)]
    client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=ids)
    client.say(C.FLOW, consumer_id=1, message_permits=1)
    assert (await client.next()).body.message_id.entry_id == first.entry_id
    client.say(C.FLOW, consumer_id=1, message_permits=100)
    await read_all(client, 40, first=30)
