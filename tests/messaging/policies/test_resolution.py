"""The policy in force: the namespace's where it is set, else the broker's default."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.policies.model import Level
from messaging.policies.registry import POLICIES
from messaging.policies.resolution import defaults, resolve_policy
from messaging.settings import Settings


def test_every_policy_has_a_default() -> None:
    values = defaults(Settings())
    assert values.keys() == POLICIES.keys()
    assert all(value is not None for value in values.values())


def test_the_namespace_wins_over_the_broker() -> None:
    assert resolve_policy("message_ttl_s", {Level.NAMESPACE: {"message_ttl_s": 3}}, {"message_ttl_s": 7}) == (3, "namespace")
    for unset in ({}, None, {"message_ttl_s": None}):
        assert resolve_policy("message_ttl_s", {Level.NAMESPACE: unset}, {"message_ttl_s": 7}) == (7, "broker")


@pytest.mark.parametrize(("name", "value"), [("auto_topic_creation", False), ("message_ttl_s", 0)])
def test_false_and_zero_are_values_that_win_over_the_default(name: str, value: Any) -> None:
    assert resolve_policy(name, {Level.NAMESPACE: {name: value}}, {name: 5}) == (value, "namespace")


@pytest.mark.parametrize("value", ["soon", -5, 2**80, [1]])
def test_a_stored_value_that_cannot_be_counts_as_not_set(value: Any) -> None:
    assert resolve_policy("message_ttl_s", {Level.NAMESPACE: {"message_ttl_s": value}}, {"message_ttl_s": 7}) == (7, "broker")


def test_a_policy_that_does_not_exist() -> None:
    with pytest.raises(KeyError):
        resolve_policy("nonsense", {}, {})
