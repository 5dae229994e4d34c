"""What may be stored: valid values of enforced policies, and nothing that only looks accepted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.errors import InvalidValue, PolicyNotEnforced, PreconditionFailed
from messaging.policies.registry import ENFORCED, POLICIES
from messaging.policies.validation import changed, split

IDLE = sorted(POLICIES.keys() - ENFORCED.keys())


@pytest.mark.parametrize("name", IDLE)
def test_a_policy_that_is_not_enforced_is_refused_by_its_name_and_can_always_be_removed(name: str) -> None:
    policy = POLICIES[name]
    with pytest.raises(PolicyNotEnforced, match=name) as refused:
        changed({}, {name: policy.default if policy.default is not None else 1})
    assert policy.path in refused.value.message
    assert refused.value.http_status == 412
    assert changed({name: policy.default, "message_ttl_s": 5}, {name: None}) == {"message_ttl_s": 5}


def test_policies_that_an_earlier_release_stored_are_kept_and_can_be_removed() -> None:
    stored = {"from_the_future": {"a": 1}, "replicator_dispatch_rate_messages": 1}
    result = changed(stored, {"message_ttl_s": 5})
    assert result == {**stored, "message_ttl_s": 5}
    assert split(result) == ({"message_ttl_s": 5}, stored)
    assert changed(result, dict.fromkeys(stored)) == {"message_ttl_s": 5}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("message_ttl_s", -1, "message_ttl_s cannot be -1"),
        ("message_ttl_s", 2**31, "0 to 2147483647"),
        ("message_ttl_s", True, "message_ttl_s cannot be True"),
        ("message_ttl_s", "9" * 500, r"99\.\.\."),
        ("deduplication", "yes", "true or false"),
        ("nonsense", 1, "'nonsense' is unknown"),
        ("nonsense", None, "'nonsense' is unknown"),
        ("properties", {"k": 1}, "properties cannot be"),
        ("properties", {"k" * 8193: "x"}, "8193 bytes; at most 8192"),
        ("properties", {"k": "v" * 8193}, "8193 bytes; at most 8192"),
        ("properties", {str(index): "v" * 4000 for index in range(20)}, "at most 32768"),
        ("properties", {str(index): "" for index in range(257)}, "properties cannot be"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_range(name: str, value: Any, says: str) -> None:
    with pytest.raises(InvalidValue, match=says) as refused:
        changed({}, {name: value})
    assert len(refused.value.message) < 500


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"retention_time_min": 0, "retention_size_mb": 5}, "is contradictory"),
        ({"properties": {"a": "\x00"}}, "NUL"),
    ],
)
def test_values_that_contradict_each_other(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(PreconditionFailed, match=says):
        changed({}, changes)


def test_a_contradiction_that_is_stored_can_be_taken_back() -> None:
    stored = {"retention_time_min": 0, "retention_size_mb": 5, "properties": {"k": "v" * 100_000}}
    assert changed(stored, {"message_ttl_s": 5}) == {**stored, "message_ttl_s": 5}
    stored.pop("properties")
    assert changed(stored, {"retention_time_min": None}) == {"retention_size_mb": 5}


@given(st.dictionaries(st.sampled_from(sorted(POLICIES)), st.none() | st.booleans() | st.integers() | st.text(max_size=5)))
def test_a_change_adds_enforced_policies_alone(changes: dict[str, Any]) -> None:
    stored = {"replicator_dispatch_rate_messages": 1, "message_ttl_s": 5}
    before = dict(stored)
    try:
        result = changed(stored, changes)
    except (InvalidValue, PreconditionFailed):
        pass
    else:
        assert all(name in ENFORCED or result[name] == before[name] for name in result)
    assert stored == before


@pytest.mark.parametrize("tick", [0, -1, 3_600_001, 2**53 - 1])
def test_a_tick_that_is_no_precision_is_refused_with_the_range(tick: int) -> None:
    with pytest.raises(InvalidValue, match="1 to 3600000"):
        changed({}, {"delayed_delivery_tick_ms": tick})


def test_the_longest_tick_is_accepted() -> None:
    assert changed({}, {"delayed_delivery_tick_ms": 3_600_000}) == {"delayed_delivery_tick_ms": 3_600_000}
