"""Of a topic that was deleted a broker keeps nothing in its memory."""

from __future__ import annotations

import gc
import tracemalloc
from array import array
from itertools import pairwise
from pathlib import Path

import pytest

from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.metering.setup import meter_usage
from messaging.broker.runtime.topics.dispatch import entry_cache
from messaging.broker.runtime.topics.dispatch.entry_cache import EntryCache, EntryCaches
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import Position
from tests.support.brokers.storage_broker import ADMIN, NAMESPACE, Inbox, publish, storage_broker
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore
from tests.support.waiting import eventually

ROUNDS, A_ROUND = 4, 150
OF_THE_BROKER = [tracemalloc.Filter(True, "*/messaging/broker/*"), tracemalloc.Filter(False, "*/audit*.py")]


async def test_what_was_used_unloaded_and_deleted_leaves_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each left usage series, a place in the order of cached blocks, and when it was used last: 548 bytes for the boot."""
    monkeypatch.setattr(entry_cache, "STALE_MAX", 20)
    service = await storage_broker(tmp_path, MemoryLedgerStore(), MemoryMetaStore())
    meter_usage(service, tmp_path / "raw")
    assert service.metering.usage is not None
    await service.stored_problems.read()  # as after each start: until then it remembers which topics were used
    sessions, kept = LocalSessions(service), []

    async def use(topic: str) -> None:
        inbox = Inbox()
        consumer = await sessions.open_consumer(ADMIN, topic, "s", "Shared", "earliest", True, None, inbox)
        consumer.flow(10)
        await publish(service, 0, 3, topic=topic)
        await eventually(lambda: len(inbox.messages) == 3)
        await consumer.ack([one.position for one in inbox.messages])
        consumer.close()

    tracemalloc.start()
    try:
        for number in range(ROUNDS):
            names = [f"persistent://{NAMESPACE}/{number}-{index:03}" for index in range(A_ROUND)]
            for name in names:
                await use(name)
                if name < names[A_ROUND // 2]:
                    await service.topics.unload(parse_topic(name))
            await service.metering.usage.collect()
            for name in names:
                await service.topics.delete(parse_topic(name), force=False)
            await service.metering.usage.collect()
            service.metering.sample_rates()  # as every second
            del names
            gc.collect()
            parse_topic.cache_clear()  # bounded, as are audit events that wait
            snapshot = tracemalloc.take_snapshot().filter_traces(OF_THE_BROKER)
            kept.append(sum(trace.size for trace in snapshot.traces))
        # What is kept for each grows every time; a table that is made larger, once.
        assert min(after - before for before, after in pairwise(kept[1:])) / A_ROUND < 10
    finally:
        tracemalloc.stop()
        await service.stop()


def test_the_order_of_cached_blocks_forgets_those_whose_topic_was_closed_and_keeps_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry_cache, "STALE_MAX", 5)
    limiter = MemoryLimiter(1 << 20)
    caches, stays = EntryCaches(limiter), EntryCache()
    for entry in range(1000):
        caches.clear(_with_block(EntryCache(), caches, entry))
        if entry % 100 == 0:
            _with_block(stays, caches, entry)
    assert caches.places <= 10 + 2 * 6
    held = limiter.tail.used_bytes
    limiter.caches[0](1)  # the oldest first
    assert stays.find(Position(1, 0)) is None and stays.find(Position(1, 100)) is not None
    limiter.caches[0](held)
    assert (limiter.tail.used_bytes, caches.places) == (0, 0)


def _with_block(cache: EntryCache, caches: EntryCaches, entry: int) -> EntryCache:
    cache.add(EntryBlock(1, entry, b"x" * 100, array("I", [100]), 0, 1), caches)
    return cache
