"""Expiry, quotas and retention by a clock that tests move: never early, at the next run of maintenance, never over."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import pytest

from messaging.adminrpc.subscriptions import SubscriptionSkip
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import Position
from messaging.storage.managed.retention import LedgerLimits
from tests.support.clients.consuming import ack, id_of
from tests.support.clients.raw_client import RawClient, delayed_frame, send_frame
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.unused_topic import MINUTE_MS, NAME, TOPIC, published, unloaded, upkeep
from tests.support.worlds.broker_world import BrokerWorld

TICKS = 40
SEEDS = range(6)
LIMITS = LedgerLimits(entries_max=7, age_max_ms=9 * MINUTE_MS, consumed_age_max_ms=4 * MINUTE_MS)


class Message(NamedTuple):
    stored_ms: int
    at: Position
    size: int


class Run:
    """Messages are published at random moments of each minute, and maintenance runs at its end; between two runs the topic may be
    unloaded, with its clients."""

    def __init__(self, world: BrokerWorld, seed: int) -> None:
        self.world, self.random, self.clock = world, Random(seed), Clock()
        give(world.service, self.clock)
        world.service.storage.limits = LIMITS
        self.messages: list[Message] = []
        self._client: RawClient | None = None
        self._producer, self._open = 1, False

    async def topic(self) -> Topic:
        return await self.world.service.topics.get(NAME, create=False)

    async def begin(self, *subscriptions: str) -> None:
        self._client = await published(self.world, *subscriptions, count=0)
        self._open = True

    async def minute(self, size: int = 0) -> None:
        """`size`: of each message; 0: they differ."""
        left_ms = MINUTE_MS
        for _ in range(self.random.choice((0, 0, 1, 2, 5))):
            passes_ms = self.random.randrange(left_ms)
            self.clock.pass_(passes_ms)
            left_ms -= passes_ms
            await self.publish(size or self.random.randrange(1, 100_000))
        self.clock.pass_(left_ms)
        if self.random.random() < 0.3:
            await self.unload()
        await upkeep(self.world)

    async def unload(self) -> None:
        assert self._client is not None
        await unloaded(self.world)
        if self._open:
            await self._client.expect("CLOSE_PRODUCER")
            self._open = False

    async def publish(self, size: int) -> None:
        assert self._client is not None
        if not self._open:
            self._producer += 1
            await self._client.producer(TOPIC, self._producer)
            self._open = True
        self._client.write(send_frame(len(self.messages), b"x" * size, self._producer))
        sent = (await self._client.expect("SEND_RECEIPT")).message_id
        self.messages.append(Message(self.clock.now_ms, Position(sent.ledger_id, sent.entry_id), size))

    async def unacknowledged(self) -> list[Message]:
        mark = (await self.topic()).subscriptions.table["s"].cursor.mark_delete
        return [one for one in self.messages if one.at > mark]

    async def readable(self) -> list[Message]:
        ledger_list = (await self.topic()).ledger_list
        return [one for one in self.messages if ledger_list.holds(one.at)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "values",
    [
        {"message_ttl_s": 150},
        {"backlog_quota_age_s": 150, "backlog_quota_age_policy": "consumer_backlog_eviction"},
        {"message_ttl_s": 150, "backlog_quota_age_s": 1_000, "backlog_quota_age_policy": "consumer_backlog_eviction"},
    ],
)
async def test_messages_stay_unacknowledged_exactly_as_long_as_they_may(
    world: BrokerWorld, values: dict[str, Any], seed: int
) -> None:
    run = Run(world, seed)
    await set_policies(world, **values)
    await run.begin("s")
    for _ in range(TICKS):
        await run.minute()
        young = [one for one in run.messages if run.clock.now_ms - one.stored_ms <= 150_000]
        assert await run.unacknowledged() == young


@pytest.mark.parametrize("seed", SEEDS)
async def test_retention_by_time_drops_nothing_early_and_no_ledger_late(world: BrokerWorld, seed: int) -> None:
    """A ledger goes when its last message could: within a ledger, the young keep the old."""
    run = Run(world, seed)
    await set_policies(world, retention_time_min=5, retention_size_mb=-1)
    await run.begin()
    longest_ms = LIMITS.age_max_ms + 6 * MINUTE_MS + MINUTE_MS
    for _ in range(TICKS):
        await run.minute()
        kept = await run.readable()
        assert {one for one in run.messages if run.clock.now_ms - one.stored_ms <= 5 * MINUTE_MS} <= set(kept)
        assert all(run.clock.now_ms - one.stored_ms <= longest_ms for one in kept)
        sealed = [one for one in (await run.topic()).ledger.record.ledgers[:-1] if one.last_entry is not None]
        assert all(run.clock.now_ms - one.sealed_ms <= 5 * MINUTE_MS for one in sealed)


@pytest.mark.parametrize("seed", SEEDS)
async def test_retention_by_size_keeps_never_more_and_as_much_as_fits(world: BrokerWorld, seed: int) -> None:
    run = Run(world, seed)
    await set_policies(world, retention_time_min=-1, retention_size_mb=1)
    await run.begin()
    before: dict[int, int] = {}
    dropped = 0
    for _ in range(TICKS):
        await run.minute()
        ledgers = (await run.topic()).ledger.record.ledgers
        sealed = {one.ledger_id: one.length_bytes for one in ledgers if one.last_entry is not None}
        total = sum(sealed.values())
        assert total <= 1 << 20
        gone = [size for ledger_id, size in before.items() if ledger_id not in sealed and size]
        dropped += len(gone)
        if len(gone) < len(before):  # else one that was sealed meanwhile may have gone too
            assert not gone or total + gone[-1] > 1 << 20, "the last one that went did not fit any more"
        before = sealed
    assert dropped


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_quota_that_evicts_is_never_exceeded_after_maintenance(world: BrokerWorld, seed: int) -> None:
    """With messages of one size: within a ledger the size of a backlog is estimated from the mean."""
    run = Run(world, seed)
    await set_policies(world, backlog_quota_bytes=500_000, backlog_quota_bytes_policy="consumer_backlog_eviction")
    await run.begin("s")
    for _ in range(TICKS):
        await run.minute(70_000)
        left = await run.unacknowledged()
        assert sum(one.size for one in left) <= 500_000
        assert left == run.messages[len(run.messages) - len(left) :], "the oldest go first"


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_is_not_acknowledged_is_not_dropped(world: BrokerWorld, seed: int) -> None:
    run = Run(world, seed)
    await run.begin("s")
    acknowledged = 0
    for _ in range(TICKS):
        await run.minute()
        held = await run.unacknowledged()
        assert set(held) <= set(await run.readable())
        entries = run.random.randrange(3)
        if entries and held:
            await world.admin.subscriptions.skip(SubscriptionSkip(topic=TOPIC, subscription="s", entries=entries))
            acknowledged += min(entries, len(held))
        assert len(await run.unacknowledged()) == len(run.messages) - acknowledged


async def test_the_ledger_of_a_delayed_message_stays_until_it_is_acknowledged(world: BrokerWorld) -> None:
    """Everything else is acknowledged long before; retention keeps nothing."""
    clock = Clock()
    give(world.service, clock)
    world.service.storage.limits = LedgerLimits(entries_max=2, consumed_age_max_ms=MINUTE_MS)
    client = await published(world, "s", count=2)
    topic = await world.service.topics.get(NAME, create=False)
    for frames in ([delayed_frame(2, b"late", clock.now_ms + 60 * MINUTE_MS), send_frame(3, b"x")], [send_frame(4, b"x")]):
        await topic.ledger.roll()
        for one in frames:
            client.write(one)
            await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, "s", 1, permits=100, sub_type=pb.Subscribe.Shared)
    for _ in range(4):
        (message,) = await client.messages(1)
        ack(client, id_of(message))
    late = Position(topic.ledger_list.ids[1], 0)
    for _ in range(59):
        clock.pass_(MINUTE_MS)
        world.service.sweep_memory()
        await upkeep(world)
    assert topic.ledger_list.first_id == late.ledger_id, "the ledger before it is gone"
    assert topic.ledger_list.holds(late)
    clock.pass_(2 * MINUTE_MS)
    world.service.sweep_memory()
    (message,) = await client.messages(1)
    assert message.text == b"late"
    ack(client, id_of(message))
    await client.quiet()
    for _ in range(3):
        clock.pass_(2 * MINUTE_MS)
        await upkeep(world)
    assert not topic.ledger_list.holds(late)
    assert topic.ledger_list.entries == 0
