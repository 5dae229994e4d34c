"""The settings of when a topic's ledger ends, in both positions: none of them set, and each alone."""

from __future__ import annotations

import pytest

from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.adminrpc.subscriptions import SubscriptionSkip
from messaging.broker.runtime.storage_opening import ledger_limits
from messaging.protocol.names import parse_topic
from messaging.settings import load
from messaging.storage.ledger_store import EARLIEST
from tests.support.clients.raw_client import send_frame
from tests.support.clock import Clock, give
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
UNLIMITED = {
    "ledger_entries_max": 1 << 30,
    "ledger_bytes_max": 1 << 40,
    "ledger_age_max_s": 10**9,
    "ledger_consumed_age_max_s": 10**9,
}
MESSAGES = 12
PASSES_S = 60  # after each message


@pytest.mark.parametrize(
    ("setting", "value", "entries_of_each"),
    [
        ("ledger_entries_max", 1 << 30, [12]),
        ("ledger_entries_max", 5, [6, 6]),
        ("ledger_bytes_max", 3_000, [3, 3, 3, 3]),
        ("ledger_age_max_s", 3 * PASSES_S, [3, 3, 3, 3]),
        ("ledger_consumed_age_max_s", 2 * PASSES_S, [2, 2, 2, 2, 2, 2]),
    ],
)
async def test_a_ledger_ends_by_its_setting(world: BrokerWorld, setting: str, value: int, entries_of_each: list[int]) -> None:
    """Everything is acknowledged at once and kept by retention. A ledger takes what comes while the next is being opened."""
    clock = Clock()
    give(world.service, clock)
    world.service.storage.limits = ledger_limits(load({}, **{**UNLIMITED, setting: value}))
    await world.feed(("namespace", "acme/orders", {"policies": {"retention_time_min": 100_000, "retention_size_mb": -1}}))
    client = await world.connected("owner")
    await client.producer(TOPIC)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await topic.subscriptions.create("s", EARLIEST)
    for index in range(MESSAGES):
        client.write(send_frame(index, b"x" * 1_000))
        await client.expect("SEND_RECEIPT")
        await world.admin.subscriptions.skip(SubscriptionSkip(topic=TOPIC, subscription="s"))
        clock.pass_(PASSES_S * 1_000)
        assert (await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))).failed == {}
    ledger_list = topic.ledger_list
    assert [last + 1 for last in ledger_list.lasts if last >= 0] == entries_of_each
