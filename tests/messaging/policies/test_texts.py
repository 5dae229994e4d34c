"""Durations and sizes as people write them: what they type is what is set, and what is shown can be typed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.errors import InvalidValue
from messaging.policies.model import Policy
from messaging.policies.registry import POLICIES
from messaging.policies.texts import counted, parsed, said, typed

NUMBERS = [policy for policy in POLICIES.values() if msgspec.json.schema(policy.kind).get("type") == "integer"]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("message_ttl_s", "7d", 604_800),
        ("message_ttl_s", "1h 30m", 5_400),
        ("message_ttl_s", " 1.5 Hours", 5_400),
        ("message_ttl_s", "90", 90),
        ("message_ttl_s", "never", 0),
        ("message_ttl_s", "1w", 604_800),
        ("retention_time_min", "7d", 10_080),
        ("retention_time_min", "120s", 2),
        ("recycle_bin_retention_hours", "7d", 168),
        ("recycle_bin_retention_hours", "Not at all", 0),
        ("retention_time_min", "unlimited", -1),
        ("retention_time_min", "-1", -1),
        ("retention_size_mb", "10 GiB", 10_240),
        ("retention_size_mb", "10g", 10_240),
        ("backlog_quota_bytes", "1.5 MB", 1_572_864),
        ("backlog_quota_bytes", "10", 10),
        ("delayed_delivery_tick_ms", "1s", 1_000),
        ("max_producers_per_topic", "3", 3),
        ("max_producers_per_topic", "unlimited", 0),
    ],
)
def test_a_typed_value_is_read_in_the_units_of_people(name: str, text: str, value: int) -> None:
    assert parsed(POLICIES[name], text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("message_ttl_s", ""),
        ("message_ttl_s", "7 parsecs"),
        ("message_ttl_s", "soon"),
        ("message_ttl_s", "7d!"),
        ("message_ttl_s", "--1"),
        ("message_ttl_s", "1.5"),
        ("message_ttl_s", "10 GiB"),
        ("message_ttl_s", "1500ms"),
        ("message_ttl_s", "1s" * 100),
        ("message_ttl_s", "٣d"),
        ("recycle_bin_retention_hours", "90min"),
        ("retention_time_min", "30s"),
        ("retention_size_mb", "1.0000001 MiB"),
        ("max_producers_per_topic", "3d"),
        ("max_producers_per_topic", "many"),
    ],
)
def test_a_malformed_typed_value_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(InvalidValue, match=rf"^policy {name} cannot be") as refused:
        parsed(POLICIES[name], text)
    assert len(refused.value.message) < 300


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("message_ttl_s", 604_800, "after 7 d"),
        ("message_ttl_s", 5_400, "after 1 h 30 min"),
        ("message_ttl_s", 0, "never"),
        ("retention_size_mb", 10_240, "up to 10 GiB"),
        ("retention_size_mb", 1_536, "up to 1536 MiB"),
        ("max_producers_per_topic", 5_000, "5,000 producers"),
        ("deduplication", True, "yes"),
        ("subscription_types", [], "all"),
        ("subscription_types", ["Shared"], "Shared"),
        ("properties", {}, "none"),
        ("schema_compatibility", "FULL", "FULL"),
    ],
)
def test_a_value_is_told_in_words(name: str, value: Any, text: str) -> None:
    assert said(POLICIES[name], value) == text


@given(policy=st.sampled_from(NUMBERS), data=st.data())
def test_a_shown_value_can_be_typed(policy: Policy, data: st.DataObject) -> None:
    schema = msgspec.json.schema(policy.kind)
    value = data.draw(st.integers(schema["minimum"], min(schema["maximum"], 2**40)))
    assert parsed(policy, typed(policy, value)) == value


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [
        (1, "producer", "1 producer"),
        (0, "unacknowledged entry", "0 unacknowledged entries"),
        (12_408, "message", "12,408 messages"),
        (5e6, "byte", "5,000,000 bytes"),
        (0.5, "message", "0.5 messages"),
        (2, "key", "2 keys"),
    ],
)
def test_what_is_counted_has_its_number(count: float, noun: str, said: str) -> None:
    """A limit of five million bytes a second was said as 5e+06 bytes."""
    assert counted(count, noun) == said
