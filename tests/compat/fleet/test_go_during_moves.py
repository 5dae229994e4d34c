"""Apache's client for Go publishes and consumes while the bundle of its topic moves several times, and closes.

It reads no news of its consumer while an acknowledgement has no response: one that nobody answered kept it from the topic for the
timeout of its requests, 15 s in this program and 30 s by default, and then the next one did.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest

from messaging.broker.runtime import main
from messaging.broker.runtime.ownership.bundle_moves import BundleMoves
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.storage.sql.meta_store import SqlMetaStore
from tests.compat.fleet.programs import GO, Program, missing
from tests.compat.receipts import Deliveries
from tests.support.brokers.fleet import shared_fleet
from tests.support.brokers.running_broker import RunningBroker
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/t0"
MOVES = 3
AGAIN_S = 30.0

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"without {' and '.join(missing())}: make clients")


async def move_on(fleet: list[RunningBroker]) -> None:
    """The bundle of the topic goes to the next broker."""
    for number, broker in enumerate(fleet):
        member, meta = broker.service.owners, broker.service.storage.meta
        assert isinstance(member, SharedMember) and isinstance(meta, SqlMetaStore)
        fence = member.owners.fence_of(TOPIC, member.broker_id)
        bundles = [row.bundle for row in member.owners.owned_by(member.broker_id) if row.fence == fence]
        if bundles:
            taker = fleet[(number + 1) % len(fleet)].service.owners
            assert isinstance(taker, SharedMember)
            await BundleMoves(member, meta.ownership, broker.service.topics, broker.service.cursors).give(
                bundles[0], taker.broker_id
            )
            return
    raise AssertionError(f"nobody owns {TOPIC}")


def _has_seen(consumer: Deliveries, count: int) -> bool:
    return len(consumer.seen) >= count


@pytest.fixture(autouse=True)
def takes_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's own `BundleMoves` know nothing of those that the test makes, and would take back what these give."""
    monkeypatch.setattr(main, "FOLLOW_S", 3600.0)


async def test_go_is_back_after_each_of_several_moves(tmp_path: Path, metadata_url: str) -> None:
    async with shared_fleet(tmp_path, metadata_url, 3) as fleet:
        url = "pulsar://" + ",".join(f"127.0.0.1:{broker.port}" for broker in fleet)
        log = tmp_path / "go.log"
        go = Program(GO, url, fleet[0].token("owner"), log)
        try:
            await asyncio.to_thread(go.publish, TOPIC, batched=True, pause_ms=5)
            await asyncio.to_thread(go.consume, TOPIC, "reading", "Exclusive")
            publisher, consumer = go.publishers[TOPIC], go.subscriptions[TOPIC, "reading"]
            for _ in range(MOVES):
                enough = len(consumer.seen) + 20
                publisher.watch(time.monotonic())
                await eventually(lambda: publisher.first_s, AGAIN_S)
                await eventually(partial(_has_seen, consumer, enough), AGAIN_S)
                await move_on(fleet)
            await asyncio.to_thread(go.close)
            await eventually(lambda: publisher.receipts <= consumer.seen and not consumer.unanswered, AGAIN_S)
            assert not publisher.faults + consumer.faults
            assert "request timed out" not in log.read_text()
        finally:
            await asyncio.to_thread(go.end)
