"""What the command, the API and the console answer about producers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.client.client import connect
from messaging.client.errors import InvalidValue
from messaging.client.savings import TopicTraffic
from messaging.client.tuning_report import MEMORY_BYTES_MAX, TuneQuestion, tune
from messaging.limits.tuning import OWN_SETTINGS

TRAFFIC = TopicTraffic(10_000, 200, None)


def contradictions(**own: Any) -> str:
    return " | ".join(tune(TuneQuestion(TRAFFIC, own=own)).contradictions)


def test_settings_that_producers_have_are_held_against_each_other() -> None:
    assert "can never have batch_messages_max = 2000" in contradictions(batch_messages_max=2000, pending_max=1000)
    assert "holds less than one batch" in contradictions(memory_bytes_max=1 << 10, batch_messages_max=10)
    assert "batch_messages_max = 10 never counts: batching is off" in contradictions(batching=False, batch_messages_max=10)
    assert tune(TuneQuestion(TRAFFIC)).contradictions == ()


def test_savings_are_counted_by_what_is_known_best() -> None:
    own = {"batch_messages_max": 10}
    unknown, by_own = tune(TuneQuestion(TRAFFIC)), tune(TuneQuestion(TRAFFIC, own=own))
    measured = tune(TuneQuestion(TopicTraffic(10_000, 200, 50.0), own=own))
    assert [report.compared_with for report in (unknown, by_own, measured)] == ["unbatched", "own_settings", "messages_per_entry"]
    assert [report.messages_per_entry for report in (unknown, by_own, measured)] == [1.0, 10.0, 50.0]
    entries = [report.saved_a_day.entries for report in (unknown, by_own, measured)]
    assert entries == sorted(entries, reverse=True) and entries[-1] > 0


def test_a_queue_that_is_smaller_than_a_batch_ends_it() -> None:
    report = tune(TuneQuestion(TRAFFIC, own={"batch_messages_max": 1000, "pending_max": 20}))
    assert report.messages_per_entry == 20


def test_money_is_among_what_is_saved_and_unknown_without_a_price() -> None:
    assert tune(TuneQuestion(TRAFFIC)).as_json()["saved_a_day"]["money"] is None
    assert tune(TuneQuestion(TRAFFIC, gib_price=0.1)).as_json()["saved_a_day"]["money"] > 0


def test_memory_is_taken_for_what_connect_gives() -> None:
    assert connect.__kwdefaults__ is not None
    assert connect.__kwdefaults__["memory_bytes_max"] == MEMORY_BYTES_MAX


VALUES = {
    name: st.booleans() if limit is None else st.integers(limit.minimum, limit.maximum) for name, limit in OWN_SETTINGS.items()
}


@given(st.builds(TopicTraffic, st.floats(0.01, 1e9), st.floats(1, 1 << 30), st.none()), st.fixed_dictionaries({}, optional=VALUES))
def test_whatever_is_within_the_limits_is_answered(traffic: TopicTraffic, own: dict[str, Any]) -> None:
    report = tune(TuneQuestion(traffic, own=own))
    assert report.messages_per_entry >= 1 and report.saved_a_day.entries >= 0
    json.dumps(report.as_json(), allow_nan=False)


def test_what_no_producer_takes_is_refused() -> None:
    with pytest.raises(InvalidValue):
        tune(TuneQuestion(TRAFFIC, own={"batch_messages_max": 0}))
    with pytest.raises(InvalidValue):
        tune(TuneQuestion(TRAFFIC, latency_ms=float("nan")))
