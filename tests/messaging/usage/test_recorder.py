"""The recorder alone: every unit counted once, no gap, no interval that is too long or crosses an hour."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import messaging.broker.usage.recorder as recorder_module
from messaging.broker.usage.record import HOUR_MS, DetailTotals, TopicTotals, UsageRecord, hour_start_ms
from messaging.broker.usage.recorder import LATE_MS_MAX, UsageRecorder
from messaging.usage_schema import (
    CLIENT,
    COUNTERS,
    GAUGE_CARRY_MS_MAX,
    GAUGES,
    INTERVAL_MS_MAX,
    SCHEMA_VERSION,
    SEQUENCE_SPAN,
    SUBSCRIPTION,
    TENANT,
)
from tests.support.examples import examples

NOON_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
TOPIC = "persistent://acme/orders/new"


def totals(topic: str = TOPIC, *values: int) -> TopicTotals:
    """Values in the order messages_in, bytes_in, messages_out, bytes_out, stored_bytes, backlog_entries; missing ones are 0."""
    return TopicTotals("acme", "acme/orders", topic, *(*values, *[0] * 6)[:6])  # type: ignore[arg-type]  # six of them


def started(now_ms: int = NOON_MS) -> UsageRecorder:
    return UsageRecorder("broker-1", 7, now_ms)


def test_one_interval_makes_one_record_a_meter() -> None:
    recorder = started()
    assert recorder.sample(NOON_MS + 60_000, [totals(TOPIC, 3, 300, 2, 200, 5000, 1)]) == 6
    records = recorder.pending()
    assert [(r.meter, r.value, r.cumulative, r.seq) for r in records] == [
        ("messages_in", 3, 3, 0),
        ("bytes_in", 300, 300, 0),
        ("messages_out", 2, 2, 0),
        ("bytes_out", 200, 200, 0),
        ("stored_bytes", 5000, 5000, 0),
        ("backlog_entries", 1, 1, 0),
    ]
    first = records[0]
    assert first == UsageRecord(
        "broker-1", 7, f"messages_in|{TOPIC}", 0, "acme", "acme/orders", TOPIC, "messages_in", 3, 3, NOON_MS, NOON_MS + 60_000,
        NOON_MS + 60_000, SCHEMA_VERSION,
    )  # fmt: skip


def test_still_counters_are_left_out_and_gauges_are_kept_to_their_first_zero() -> None:
    recorder = started()
    for minute, stored in enumerate([500, 500, 0, 0, 70], start=1):
        recorder.sample(NOON_MS + minute * 60_000, [totals(TOPIC, 1, 0, 0, 0, stored)])
    meters = [(r.meter, r.value, r.seq) for r in recorder.pending()]
    assert meters == [
        ("messages_in", 1, 0),
        ("stored_bytes", 500, 0),
        ("stored_bytes", 500, 1),
        ("stored_bytes", 0, 2),
        ("stored_bytes", 70, 3),
    ]


def test_a_sample_after_the_full_hour_is_cut_there_and_spread_in_proportion() -> None:
    recorder = started(NOON_MS - 30_000)
    recorder.sample(NOON_MS + 10_000, [totals(TOPIC, 7)])
    assert [(r.value, r.interval_start_ms, r.interval_end_ms) for r in recorder.pending()] == [
        (5, NOON_MS - 30_000, NOON_MS),
        (2, NOON_MS, NOON_MS + 10_000),
    ]


def test_the_running_interval_must_end_after_a_minute_or_at_the_full_hour() -> None:
    assert started(NOON_MS).next_cut_ms == NOON_MS + 60_000
    assert started(NOON_MS - 20_000).next_cut_ms == NOON_MS
    assert started(NOON_MS + 1).next_cut_ms == NOON_MS + 60_001


def test_a_timer_that_fires_a_little_late_makes_no_second_record() -> None:
    recorder = started()
    recorder.sample(NOON_MS + 60_000 + LATE_MS_MAX, [totals(TOPIC, 7, 0, 0, 0, 500)])
    assert [(r.meter, r.value, r.interval_end_ms) for r in recorder.pending()] == [
        ("messages_in", 7, NOON_MS + 60_000),
        ("stored_bytes", 500, NOON_MS + 60_000),
    ]
    assert recorder.interval_start_ms == NOON_MS + 60_000
    assert recorder.sample(NOON_MS + 120_000 + LATE_MS_MAX + 1, [totals(TOPIC, 7, 0, 0, 0, 500)]) == 2


def test_a_machine_that_slept_counts_at_the_end_of_its_sleep() -> None:
    recorder = started()
    woke_ms = NOON_MS + 7 * HOUR_MS
    recorder.sample(woke_ms, [totals(TOPIC, 10, 0, 0, 0, 999)])
    records = recorder.pending()
    assert sum(r.value for r in records if r.meter == "messages_in") == 10
    assert min(r.interval_start_ms for r in records) == woke_ms - GAUGE_CARRY_MS_MAX


def test_what_another_broker_owns_now_is_not_said_any_more() -> None:
    recorder = started()
    ours, theirs = f"{TOPIC}-ours", f"{TOPIC}-theirs"
    for topic in (ours, theirs):
        recorder.rest(totals(topic, 0, 0, 0, 0, 500))
    recorder.keep(lambda topic: topic == ours)
    recorder.sample(NOON_MS + 60_000, [])
    assert {(record.topic, record.value) for record in recorder.pending()} == {(ours, 500)}


def test_a_retired_topic_starts_again_from_zero() -> None:
    recorder = started()
    recorder.sample(NOON_MS + 1000, [totals(TOPIC, 10)])
    recorder.retire(totals(TOPIC, 12))
    recorder.sample(NOON_MS + 2000, [totals(TOPIC, 30)])  # loaded again: 30 of its own
    assert [(r.value, r.cumulative, r.seq) for r in recorder.pending()] == [(10, 10, 0), (32, 42, 1)]


def test_a_retired_topic_that_does_not_come_back_is_accounted_once() -> None:
    recorder = started()
    recorder.retire(totals(TOPIC, 12))
    recorder.sample(NOON_MS + 1000, [])
    recorder.sample(NOON_MS + 2000, [])
    assert [r.value for r in recorder.pending()] == [12]


def test_a_topic_that_misses_one_sample_is_not_counted_twice() -> None:
    recorder = started()
    recorder.sample(NOON_MS + 1000, [totals(TOPIC, 10)])
    recorder.sample(NOON_MS + 2000, [])
    recorder.sample(NOON_MS + 3000, [totals(TOPIC, 11)])
    assert [r.value for r in recorder.pending()] == [10, 1]


def test_totals_below_the_last_ones_were_started_anew() -> None:
    recorder = started()
    recorder.sample(NOON_MS + 1000, [totals(TOPIC, 10)])
    recorder.sample(NOON_MS + 2000, [totals(TOPIC, 4)])
    assert [r.value for r in recorder.pending()] == [10, 4]


def test_records_stay_until_they_are_confirmed() -> None:
    recorder = started()
    recorder.sample(NOON_MS + 1000, [totals(TOPIC, 1)])
    assert recorder.pending() == recorder.pending()
    recorder.sample(NOON_MS + 2000, [totals(TOPIC, 2)])
    recorder.confirm(1)
    assert [r.seq for r in recorder.pending()] == [1]


def test_while_too_many_records_wait_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "PENDING_RECORDS_MAX", 1)
    recorder = started()
    recorder.sample(NOON_MS + 1000, [totals(TOPIC, 1)])
    assert recorder.sample(NOON_MS + 2000, [totals(TOPIC, 5)]) == 0
    recorder.retire(totals(TOPIC, 6))
    recorder.confirm(1)
    recorder.sample(NOON_MS + 3000, [])
    assert [r.value for r in recorder.pending()] == [5]


def test_a_clock_set_back_loses_no_counter() -> None:
    recorder = started()
    recorder.sample(NOON_MS + 60_000, [totals(TOPIC, 1)])
    assert recorder.sample(NOON_MS + 59_000, [totals(TOPIC, 2)]) == 0  # a small step: wait until time has caught up
    assert recorder.sample(NOON_MS - HOUR_MS, [totals(TOPIC, 3)]) == 0  # a large one: go on from there
    recorder.sample(NOON_MS - HOUR_MS + 1000, [totals(TOPIC, 4)])
    assert [r.value for r in recorder.pending()] == [1, 3]


# A step: time that passes, then for each topic what its counters rise by (None: not loaded in this sample; "retire": unloaded).
_rises = st.one_of(st.none(), st.just("retire"), st.lists(st.integers(0, 1000), min_size=4, max_size=4))
_steps = st.lists(
    st.tuples(st.integers(-120_000, 500_000), st.fixed_dictionaries({"a": _rises, "b": _rises}), st.booleans()), max_size=25
)


@settings(max_examples=examples(200), deadline=None)
@given(start=st.integers(0, HOUR_MS - 1), steps=_steps)
def test_whatever_happens_sums_are_totals_and_sequences_have_no_gap(start: int, steps: list) -> None:  # type: ignore[type-arg]
    now_ms = NOON_MS + start
    recorder = started(now_ms)
    loaded = {"a": [0] * 4, "b": [0] * 4}
    rose: dict[tuple[str, str], int] = defaultdict(int)
    written: list[UsageRecord] = []
    for elapsed_ms, rises, confirm in [*steps, (HOUR_MS, {"a": [1] * 4, "b": [1] * 4}, True)]:
        now_ms += elapsed_ms
        present = []
        for topic, rise in rises.items():
            if rise == "retire":
                recorder.retire(totals(topic, *loaded[topic]))
                loaded[topic] = [0] * 4
            elif rise is not None:
                loaded[topic] = [total + more for total, more in zip(loaded[topic], rise, strict=True)]
                for meter, more in zip(COUNTERS, rise, strict=True):
                    rose[topic, meter] += more
                present.append(totals(topic, *loaded[topic], sum(rise), len(rise)))
        recorder.sample(now_ms, present)
        if confirm:
            batch = recorder.pending(limit=7)
            written += batch
            recorder.confirm(len(batch))
    recorder.sample(now_ms + HOUR_MS, [totals(topic, *values) for topic, values in loaded.items()])
    written += recorder.pending()

    counted: dict[tuple[str, str], int] = defaultdict(int)
    spans: dict[str, int] = {}
    next_seq: dict[tuple[str, int], int] = defaultdict(int)
    running: dict[tuple[str, int], int] = defaultdict(int)
    for record in written:
        span, number = divmod(record.seq, SEQUENCE_SPAN)
        assert span >= spans.setdefault(record.series, span)
        spans[record.series] = span
        assert number == next_seq[record.series, span]
        next_seq[record.series, span] += 1
        assert 0 < record.interval_end_ms - record.interval_start_ms <= INTERVAL_MS_MAX
        assert hour_start_ms(record.interval_start_ms) == hour_start_ms(record.interval_end_ms - 1)
        assert record.series == f"{record.meter}|{record.topic}"
        if record.meter in COUNTERS:
            assert record.value > 0
            counted[record.topic, record.meter] += record.value
            running[record.series, span] += record.value
            assert record.cumulative == running[record.series, span]
        else:
            assert record.meter in GAUGES and record.cumulative == record.value
    assert counted == {key: value for key, value in rose.items() if value}


def test_of_topics_and_members_that_are_gone_nothing_is_kept() -> None:
    """Each topic kept all of its series for the boot: first 631 bytes, then 332; a deleted subscription, and a key that is not
    used any more, about 500."""
    recorder, kept = started(), []
    tracemalloc.start()
    try:
        for minute in range(6):
            names = [f"persistent://acme/orders/{minute}-{number:04}" for number in range(1_000)]
            members = [
                DetailTotals(SUBSCRIPTION, f"reader-{minute}", "", (), (7, 1)),
                DetailTotals(CLIENT, f"reader-{minute}", "key", (0, 0, 2, 200, 0)),
            ]
            stays = totals(TOPIC, 3)._replace(details=(members[0],))
            keys = totals("")._replace(namespace="", details=(DetailTotals(TENANT, "", f"key-{minute}", (), (1,)),))
            ones = [totals(name, 3, 300, 2, 200, 50, 2)._replace(details=tuple(members)) for name in names]
            recorder.sample(recorder.interval_start_ms + 30_000, [stays, keys, *ones])
            for one in ones:
                recorder.retire(one._replace(stored_bytes=0, backlog_entries=0))
            recorder.sample(recorder.interval_start_ms + 30_000, [stays, keys])
            recorder.confirm(len(recorder.pending()))
            del names, members, stays, keys, ones
            kept.append(tracemalloc.get_traced_memory()[0])
        # What is kept for each grows every time. Tables that are made larger, and what threads of other tests do, once.
        assert min(after - before for before, after in pairwise(kept[1:])) / 1_000 < 20
    finally:
        tracemalloc.stop()


def test_a_topic_that_is_made_anew_has_numbers_of_its_own() -> None:
    recorder = started()
    for _minute in range(3):
        recorder.sample(recorder.interval_start_ms + 30_000, [totals(TOPIC, 1, 0, 0, 0, 50)])
        recorder.retire(totals(TOPIC, 3))
        recorder.sample(recorder.interval_start_ms + 30_000, [])
    records = [record for record in recorder.pending() if record.meter == "messages_in"]
    assert [(r.seq // SEQUENCE_SPAN, r.seq % SEQUENCE_SPAN, r.value, r.cumulative) for r in records] == [
        (life, number, *amounts) for life in range(3) for number, amounts in enumerate([(1, 1), (2, 3)])
    ]


def test_of_clients_that_are_gone_others_may_take_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "DETAILS_OF_TENANT_MAX", 2)
    recorder = started()
    for minute in range(4):
        keys = [DetailTotals(TENANT, "", f"key-{minute}-{number}", (), (1,)) for number in range(2)]
        recorder.sample(recorder.interval_start_ms + 30_000, [totals("")._replace(namespace="", details=tuple(keys))])
        recorder.sample(recorder.interval_start_ms + 30_000, [])
    assert len(recorder.pending()) == 8
