"""Upkeep over very many topics that nobody uses: it costs a look-up each."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.block_header import encode_plain
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.meta_store import LedgerRecord, TopicRecord
from tests.support.worlds.broker_world import BrokerWorld

TOPICS = 1_000
HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000


@dataclass
class Clock:
    now_ms: int


class Counted:
    """Counts the calls of what it stands before."""

    def __init__(self, behind: Any, counts: Counter[str]) -> None:
        self._behind, self._counts = behind, counts

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._behind, name)
        if callable(value):
            self._counts[name] += 1
        return value


Idle = tuple[BrokerWorld, list[str], Counter[str], Clock]


@pytest.fixture
async def idle(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> Idle:
    """A thousand topics, none loaded, each with a message that nobody acknowledged, an hour and a half old; TTL is two hours."""
    storage = world.service.storage
    names = [f"persistent://acme/orders/idle-{number:04}" for number in range(TOPICS)]
    for name in names:
        ledger_id = await storage.meta.next_ledger_id(storage.fence)
        writer = await world.ledgers.create(storage.fence, ledger_id, {})
        writer.append(encode_plain(NOW_MS, 1, 0, 0, b"p"), b"x", array("I", [1]), lambda error: None)
        await writer.close()  # after what is on its way
        ledger = LedgerRecord(ledger_id, 0, 1, created_ms=NOW_MS - 3 * HOUR_MS, sealed_ms=NOW_MS)
        await storage.meta.cas_topic(storage.fence, TopicRecord(name, ledgers=(ledger,)))
        await storage.meta.create_subscription(storage.fence, name, "s", created_ms=0, mark_delete=EARLIEST, properties={})
    await world.feed(("namespace", "acme/orders", {"policies": {"message_ttl_s": 7_200}}))
    clock = Clock(NOW_MS + 3 * HOUR_MS // 2)
    monkeypatch.setattr(type(storage), "safe_expiry_ms", lambda _: clock.now_ms)
    counts: Counter[str] = Counter()
    storage.meta = world.service.topics.meta = Counted(storage.meta, counts)
    real = world.service.topics.get

    async def get(name: TopicName, *, create: bool) -> Any:
        counts["loads"] += 1
        return await real(name, create=create)

    monkeypatch.setattr(world.service.topics, "get", get)
    return world, names, counts, clock


async def sweep(world: BrokerWorld, names: list[str]) -> int:
    result = await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=names))
    assert result.failed == {}
    return result.expired_entries


async def test_idle_topics_with_nothing_to_expire_are_not_loaded(idle: Idle) -> None:
    """Each was loaded and unloaded at every beat, 30 s a minute at 100,000 of them."""
    world, names, counts, clock = idle
    assert await sweep(world, names) == 0
    assert counts["loads"] == 0
    counts.clear()
    world.ledgers.calls.clear()
    for _ in range(3):
        clock.now_ms += 60_000
        assert await sweep(world, names) == 0
    assert counts == {} and world.ledgers.calls == [], "a look-up each, nothing else"


async def test_a_message_is_expired_when_its_ttl_ends(idle: Idle) -> None:
    world, names, counts, clock = idle
    await sweep(world, names)
    clock.now_ms = NOW_MS + 2 * HOUR_MS
    assert (await sweep(world, names[:50]), counts["loads"]) == (0, 0)
    clock.now_ms += 1
    assert (await sweep(world, names[:50]), counts["loads"]) == (50, 50)
    counts.clear()
    clock.now_ms += HOUR_MS
    assert (await sweep(world, names[:50]), counts["loads"]) == (0, 0), "and rest again"


async def test_a_topic_that_was_used_and_a_policy_that_changed_are_looked_at_anew(
    idle: Idle,
) -> None:
    world, names, counts, _ = idle
    await sweep(world, names[:2])
    topic = await world.service.topics.get(parse_topic(names[0]), create=False)
    await world.service.topics.unload(topic.name)
    counts.clear()
    await sweep(world, names[:2])
    assert counts["get_topic"] == 1
    await world.feed(("namespace", "acme/orders", {"policies": {"message_ttl_s": 60}}))
    assert await sweep(world, names[:2]) == 2


async def test_everything_acknowledged_rests_for_ever(idle: Idle) -> None:
    world, names, counts, clock = idle
    await world.feed(
        ("namespace", "acme/orders", {"policies": {"message_ttl_s": 60, "retention_time_min": -1, "retention_size_mb": -1}})
    )
    meta = world.service.storage.meta
    record = await meta.get_topic(names[0])
    assert record is not None
    (subscription,) = await meta.subscriptions(names[0])
    await meta.save_cursors(
        world.service.storage.fence, [(subscription.subscription_id, Position(record.ledgers[0].ledger_id, 0), b"")]
    )
    clock.now_ms += 1000 * HOUR_MS
    assert await sweep(world, names[:1]) == 0
    assert counts["loads"] == 0
