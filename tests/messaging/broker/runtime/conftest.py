"""Fixtures of the broker's tests; see `tests/support/worlds/broker_world.py`."""

from __future__ import annotations

import pytest

from tests.support import policies
from tests.support.worlds.broker_world import FEED, KEYS, BrokerWorld, MakeWorld, make_world, policy_level, world

__all__ = ["FEED", "KEYS", "BrokerWorld", "MakeWorld", "make_world", "policy_level", "world"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of what policies do run for each level that has the policy."""
    if getattr(metafunc.module, "set_policies", None) is policies.set_policies and "world" in metafunc.fixturenames:
        levels = policies.levels_of_test(metafunc.function.__name__)
        metafunc.parametrize("policy_level", levels, indirect=True, ids=[str(level) for level in levels])
