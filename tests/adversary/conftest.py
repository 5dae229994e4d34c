"""Fixtures of the tests that attack a broker; see `tests/support/worlds/broker_world.py`."""

from __future__ import annotations

from tests.support.worlds.broker_world import make_world, policy_level, world

__all__ = ["make_world", "policy_level", "world"]
