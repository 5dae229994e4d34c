"""Fixtures of the broker's tests; see `tests/support/broker_world.py`."""

from __future__ import annotations

from tests.support.broker_world import FEED, KEYS, BrokerWorld, MakeWorld, make_world, world

__all__ = ["FEED", "KEYS", "BrokerWorld", "MakeWorld", "make_world", "world"]
