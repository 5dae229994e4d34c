"""Policies: which there are, and which value is in force. One table, one pure function.

A policy may be set at several levels; the nearest to the message wins: subscription > topic > namespace > tenant > broker default.
Values carry their unit in their name. `None` or an absent key means "not set here".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from messaging.settings import Settings

LEVELS = ("subscription", "topic", "namespace", "tenant", "broker")  # nearest first

# policy -> what it means; the broker's default is the setting of the same name
POLICIES: dict[str, str] = {
    "message_ttl_s": "a message not acknowledged for this long counts as consumed; 0: never",
    "retention_time_min": "acknowledged messages are kept at least this long; -1: for ever",
    "retention_size_mb": "acknowledged messages are kept up to this size a topic; -1: without bound",
    "deduplication": "a message that a producer sends again, with the same name and sequence id, is stored once",
    "auto_topic_creation": "a producer or consumer of a topic that is not there makes it",
}


class Effective(NamedTuple):
    value: Any
    level: str  # where it was set: one of LEVELS


def defaults(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in POLICIES}


def effective(name: str, levels: Mapping[str, Mapping[str, Any] | None]) -> Effective:
    """The value of policy `name` in force, and where it came from. `levels`: level -> what is set there; "broker" must be given.

    Raises `KeyError` for a policy that does not exist."""
    if name not in POLICIES:
        raise KeyError(f"policy {name!r} is not known")
    for level in LEVELS:
        value = (levels.get(level) or {}).get(name)
        if value is not None:
            return Effective(value, level)
    raise KeyError(f"policy {name!r} has no default")
