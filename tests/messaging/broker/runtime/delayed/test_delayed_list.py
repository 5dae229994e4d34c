"""Listing and counting the delayed messages of a topic: in memory, in stored runs, after a kill, rescheduled and cancelled."""

from __future__ import annotations

import pytest

from messaging.adminrpc import delayed as schema
from messaging.adminrpc.topics import TopicRef
from messaging.broker.core.delayed.due_list import counts, page
from messaging.broker.core.delayed.run_format import Entries
from messaging.broker.core.delayed.run_jobs import DueEntry
from messaging.broker.runtime.topics.delayed.due_list import DAY_MS, HOUR_MS, edges_from
from messaging.protocol.names import parse_topic
from tests.support.brokers.delayed_broker import MINUTE_MS, SEALED, START_MS, begun, cancel, move, passes, published
from tests.support.clients.consuming import TOPIC
from tests.support.clock import Clock
from tests.support.due_entries import entries_of
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld


@pytest.fixture
async def world(make_world: MakeWorld) -> BrokerWorld:
    return begun(await make_world(), START_MS)[0]


@pytest.fixture
async def clock(world: BrokerWorld) -> Clock:
    return begun(world, START_MS)[1]


async def listed(
    world: BrokerWorld, limit: int = 7, key: str = "", *, from_ms: int = 0, until_ms: int = 1 << 62
) -> tuple[list[int], bool]:
    """Delivery times after the start, in minutes, of all pages; and whether all were known in the end."""
    found, after, complete = [], schema.DelayedList(topic=TOPIC, limit=limit, key=key, from_ms=from_ms, until_ms=until_ms), True
    for _ in range(100):
        answer = await world.admin.delayed.list(after)
        assert len(answer.messages) <= limit
        found += [(one.deliver_at_ms - START_MS) // MINUTE_MS for one in answer.messages]
        complete = answer.complete
        if answer.done:
            return found, complete
        after = schema.DelayedList(
            topic=TOPIC,
            limit=limit,
            key=key,
            after_ms=answer.next_ms,
            ledger_id=answer.next_ledger_id,
            entry_id=answer.next_entry_id,
            from_ms=from_ms,
            until_ms=until_ms,
        )
    raise AssertionError("the pages have no end")


@pytest.mark.parametrize("count", [10, SEALED + 3, 4 * SEALED])
async def test_all_are_listed_in_the_order_of_their_times(world: BrokerWorld, clock: Clock, count: int) -> None:
    minutes = [1 + at * 7 % 50 for at in range(count)]
    await published(world, *[one * MINUTE_MS for one in minutes])
    assert await listed(world) == (sorted(minutes), True)
    inside = sorted(one for one in minutes if 10 <= one < 30)
    assert (await listed(world, from_ms=START_MS + 10 * MINUTE_MS, until_ms=START_MS + 30 * MINUTE_MS))[0] == inside
    passes(world, clock, 20 * MINUTE_MS)
    assert (await listed(world))[0] == sorted(one for one in minutes if one > 20)


async def test_what_was_changed_is_listed_as_it_is_now(world: BrokerWorld, clock: Clock) -> None:
    positions = await published(world, *[at * MINUTE_MS for at in range(1, SEALED + 5)])
    await cancel(world, positions[2])
    await move(world, positions[0], 500 * MINUTE_MS)
    expected = [at for at in range(2, SEALED + 5) if at != 3]
    assert (await listed(world))[0] == [*expected, 500]
    (last,) = (await world.admin.delayed.list(schema.DelayedList(topic=TOPIC, from_ms=START_MS + 400 * MINUTE_MS))).messages
    assert (last.message_id, last.former_ms) == (f"{positions[0][0]}:{positions[0][1]}", START_MS + MINUTE_MS)


async def test_what_the_index_lost_is_found(make_world: MakeWorld, world: BrokerWorld) -> None:
    await published(world, 0, *[at * MINUTE_MS for at in range(1, SEALED + 6)], 0)
    world, _ = begun(await make_world(after=world), START_MS)
    await world.service.open_topic(parse_topic(TOPIC))
    assert await listed(world) == (list(range(1, SEALED + 6)), True)


async def test_those_of_a_key(world: BrokerWorld, clock: Clock) -> None:
    await published(world, *[at * MINUTE_MS for at in range(1, 10)], keys=list("abcabcabc"))
    assert (await listed(world, limit=2, key="b"))[0] == [2, 5, 8]
    assert (await listed(world, limit=2, key="b", from_ms=START_MS + 3 * MINUTE_MS))[0] == [5, 8]
    answer = await world.admin.delayed.list(schema.DelayedList(topic=TOPIC, key="a", limit=1))
    (one,) = answer.messages
    assert (one.key, one.producer, one.messages, one.publish_time_ms) == ("a", "raw", 1, 1_000)


async def test_those_of_a_key_beside_what_cannot_be_taken_apart(world: BrokerWorld, clock: Clock) -> None:
    positions = await published(world, *[at * MINUTE_MS for at in range(1, 10)], keys=list("abcabcabc"))
    world.ledgers.garble(*positions[4])
    world.ledgers.garble(*positions[8])
    assert (await listed(world, key="b"))[0] == [2, 8]


async def test_counts_by_time(world: BrokerWorld, clock: Clock) -> None:
    times = [MINUTE_MS, MINUTE_MS + 1, 59 * MINUTE_MS, 3 * HOUR_MS, 40 * DAY_MS, 2 * DAY_MS]
    positions = await published(world, *times, *[10 * MINUTE_MS] * SEALED)
    await cancel(world, positions[1])
    await move(world, positions[2], 58 * MINUTE_MS)
    answer = await world.admin.delayed.counts(TopicRef(topic=TOPIC))
    found = {(one.from_ms - START_MS) // MINUTE_MS: one.entries for one in answer.buckets if one.entries}
    first = edges_from(START_MS)[0] - START_MS
    assert sum(found.values()) == answer.entries == SEALED + 5
    assert answer.exact and answer.complete
    assert {at for at in found if at < 60} == {0 if first else 1, 9 if first else 10, 57 if first else 58}
    assert answer.buckets[-1].until_ms is None and answer.buckets[-1].entries == 1


# --- what threads do


def test_a_page_goes_by_time_and_position_and_has_each_once() -> None:
    parts = [entries_of((5, 1, 1), (3, 2, 2), (5, 0, 9)), entries_of((5, 1, 1), (4, 7, 7), (9, 0, 0))]
    assert page(parts, None, 9, 10) == [DueEntry(3, 2, 2), DueEntry(4, 7, 7), DueEntry(5, 0, 9), DueEntry(5, 1, 1)]
    assert page(parts, DueEntry(5, 0, 9), 1 << 62, 10) == [DueEntry(5, 1, 1), DueEntry(9, 0, 0)]
    many = entries_of(*((at % 97, 1, at) for at in range(1_000)))
    assert page([many], None, 1 << 62, 3) == [DueEntry(0, 1, 0), DueEntry(0, 1, 97), DueEntry(0, 1, 194)]


def test_blocks_that_are_not_read_are_spread_over_their_time() -> None:
    nothing: Entries = entries_of()
    half = counts([nothing], nothing.positions, nothing, [([0, 1_000, 2_000], 2 * 8192 + 10)], [0, 500, 1_000, 2_000, 3_000])
    assert half == [4096, 4096, 8192, 10]
