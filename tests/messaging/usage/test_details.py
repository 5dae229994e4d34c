"""Clients, subscriptions and tenants beside the topic, and topics that are not loaded."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import messaging.broker.usage.recorder as recorder_module
from messaging.broker.usage.collector import UsageCollector
from messaging.broker.usage.record import DetailTotals, TopicTotals, UsageRecord
from messaging.broker.usage.recorder import UsageRecorder
from messaging.usage_schema import CLIENT, GAUGE_CARRY_MS_MAX, SUBSCRIPTION, TENANT, series_name

START_MS = 1_800_000_000_000
MINUTE_MS = 60_000
TOPIC = "persistent://acme/orders/new"


def totals(*details: DetailTotals, topic: str = TOPIC, stored_bytes: int = 0, messages_in: int = 0) -> TopicTotals:
    return TopicTotals("acme", "acme/orders", topic, messages_in, 0, 0, 0, stored_bytes, 0, "uid", details)


def started() -> UsageRecorder:
    return UsageRecorder("broker-1", 7, START_MS)


def taken(recorder: UsageRecorder) -> list[UsageRecord]:
    found = recorder.pending()
    recorder.confirm(len(found))
    return found


def only_boot(folder: Path) -> dict[str, object]:
    (path,) = folder.glob("boots/*.json")
    found: dict[str, object] = json.loads(path.read_bytes())
    return found


def test_a_record_of_a_client_names_subscription_and_key() -> None:
    recorder = started()
    recorder.sample(START_MS + MINUTE_MS, [totals(DetailTotals(CLIENT, "s", "k1", (0, 0, 3, 30, 1)))])
    recorder.sample(START_MS + 2 * MINUTE_MS, [totals(DetailTotals(CLIENT, "s", "k1", (0, 0, 5, 50, 1)))])
    found = [(one.meter, one.subscription, one.key, one.value, one.cumulative, one.seq) for one in recorder.pending()]
    assert found == [
        ("client_messages_out", "s", "k1", 3, 3, 0),
        ("client_bytes_out", "s", "k1", 30, 30, 0),
        ("client_messages_redelivered", "s", "k1", 1, 1, 0),
        ("client_messages_out", "s", "k1", 2, 5, 1),
        ("client_bytes_out", "s", "k1", 20, 50, 1),
    ]
    assert recorder.pending()[0].series == series_name("client_messages_out", "uid", TOPIC, "s", "k1")


def test_what_a_subscription_and_a_tenant_hold_is_said_until_it_is_nothing() -> None:
    recorder = started()
    for minute, held in enumerate((4, 0, 0), start=1):
        tenant = TopicTotals("acme", "", "", 0, 0, 0, 0, 0, 0, "uid", (DetailTotals(TENANT, "", "k", (), (held,)),))
        recorder.sample(START_MS + minute * MINUTE_MS, [totals(DetailTotals(SUBSCRIPTION, "s", "", (), (held, 2 * held))), tenant])
    assert [(one.meter, one.topic, one.key, one.value) for one in recorder.pending()] == [
        ("subscription_backlog_entries", TOPIC, "", 4),
        ("subscription_delayed_entries", TOPIC, "", 8),
        ("connections", "", "k", 4),
        ("subscription_backlog_entries", TOPIC, "", 0),
        ("subscription_delayed_entries", TOPIC, "", 0),
        ("connections", "", "k", 0),
    ]


def test_a_tenant_with_very_many_clients_leaves_room_for_others_and_keeps_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "DETAILS_OF_TENANT_MAX", 2)
    recorder = started()
    clients = [DetailTotals(CLIENT, "", f"key-{number}", (1, 1, 0, 0, 0)) for number in range(5)]
    other = TopicTotals("other", "other/a", "persistent://other/a/t", 1, 0, 0, 0, 0, 0, "uid-2", (clients[0],))
    recorder.sample(START_MS + MINUTE_MS, [totals(*clients, messages_in=5), other])
    found = Counter((one.tenant, one.meter) for one in recorder.pending())
    assert found["acme", "client_messages_in"] == 2 and found["other", "client_messages_in"] == 1
    assert sum(one.value for one in recorder.pending() if (one.tenant, one.meter) == ("acme", "messages_in")) == 5


def test_what_a_topic_holds_that_is_not_loaded_is_recorded_until_it_is_deleted() -> None:
    recorder = started()
    recorder.rest(totals(stored_bytes=500))
    for minute in (1, 2):
        recorder.sample(START_MS + minute * MINUTE_MS, [])
        assert [(one.meter, one.value) for one in taken(recorder)] == [("stored_bytes", 500)]
    recorder.sample(START_MS + 3 * MINUTE_MS, [totals(stored_bytes=700)])  # loaded, and then not any more
    recorder.retire(totals(stored_bytes=800))
    recorder.sample(START_MS + 4 * MINUTE_MS, [])
    assert [one.value for one in taken(recorder)] == [700, 800]
    recorder.gone(TOPIC)
    recorder.sample(START_MS + 5 * MINUTE_MS, [])
    recorder.sample(START_MS + 6 * MINUTE_MS, [])
    assert [one.value for one in taken(recorder)] == [0]


def test_of_very_many_topics_that_are_not_loaded_each_is_said_before_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "RESTING_A_SAMPLE", 10)
    recorder = started()
    for number in range(1000):
        recorder.rest(totals(topic=f"{TOPIC}-{number}", stored_bytes=1 + number))
    ends: dict[str, int] = {}
    for minute in range(1, 13):
        recorder.sample(START_MS + minute * MINUTE_MS, [])
        records = taken(recorder)
        assert len(records) <= 250
        for one in records:
            assert one.topic not in ends or one.interval_start_ms - ends[one.topic] <= GAUGE_CARRY_MS_MAX
            ends[one.topic] = one.interval_end_ms
    assert len(ends) == 1000 and min(ends.values()) > START_MS + 12 * MINUTE_MS - GAUGE_CARRY_MS_MAX


async def test_a_boot_says_up_to_when_its_usage_is_written_and_whether_it_ended(tmp_path: Path) -> None:
    now_ms = START_MS
    collector = UsageCollector(UsageRecorder("broker-1", 7, START_MS), tmp_path, lambda: (), lambda: now_ms)
    for elapsed_ms, ended in ((40_000, False), (5_000, True)):
        now_ms += elapsed_ms
        await collector.collect(ended=ended)
        found = only_boot(tmp_path)
        assert (found["source"], found["boot_epoch"], found["started_ms"]) == ("broker-1", 7, START_MS)
        assert (found["covered_until_ms"], found["ended"]) == (now_ms, ended)
