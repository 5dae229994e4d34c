"""Policies: the nearest level that says something wins, and every policy has a default."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.policies import LEVELS, POLICIES, defaults, effective
from messaging.settings import Settings


def test_every_policy_has_a_default_and_a_meaning() -> None:
    found = defaults(Settings())
    assert found.keys() == POLICIES.keys()
    assert all(value is not None for value in found.values())
    assert all(POLICIES.values())


@given(
    st.dictionaries(
        st.sampled_from(LEVELS[:-1]),
        st.one_of(st.none(), st.dictionaries(st.just("message_ttl_s"), st.one_of(st.none(), st.integers(0, 9)))),
    )
)
def test_the_nearest_wins(levels: dict[str, dict[str, Any] | None]) -> None:
    found = effective("message_ttl_s", {**levels, "broker": {"message_ttl_s": 7}})
    for level in LEVELS[:-1]:
        value = (levels.get(level) or {}).get("message_ttl_s")
        if value is not None:
            assert found == (value, level)
            return
    assert found == (7, "broker")


@pytest.mark.parametrize("value", [0, False])
def test_what_is_set_to_nothing_is_set(value: Any) -> None:
    name = "auto_topic_creation" if value is False else "message_ttl_s"
    assert effective(name, {"namespace": {name: value}, "broker": {name: 5}}) == (value, "namespace")


def test_what_is_not_known() -> None:
    with pytest.raises(KeyError, match="not known"):
        effective("nonsense", {"broker": {"nonsense": 1}})
    with pytest.raises(KeyError, match="no default"):
        effective("message_ttl_s", {"broker": {}})
