"""When grants of a namespace end, and its state without those that have. Pure.

A namespace's state (`messaging.adminrpc.feed.NamespaceState`) says in `grant_ends_ms` until when roles have what they were granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

State = Mapping[str, Any]
_NOTHING: State = {}


def first_end_ms(state: State) -> int:
    """0: none of its grants ends by itself."""
    ends = state.get("grant_ends_ms") or _NOTHING
    return min((end_ms for roles in ends.values() for end_ms in roles.values()), default=0)


def without_ended(state: State, now_ms: int) -> dict[str, Any]:
    """A new state: those who read the former one keep what they have."""
    ends: dict[str, dict[str, int]] = {}
    grants = dict(state.get("grants") or _NOTHING)
    topics = {topic: dict(roles) for topic, roles in (state.get("topic_grants") or _NOTHING).items()}
    for topic, roles in (state.get("grant_ends_ms") or _NOTHING).items():
        for role, end_ms in roles.items():
            if end_ms > now_ms:
                ends.setdefault(topic, {})[role] = end_ms
            else:
                (topics.get(topic, {}) if topic else grants).pop(role, None)
    kept = {name: value for name, value in state.items() if name != "grant_ends_ms"}
    return {**kept, "grants": grants, "topic_grants": topics, **({"grant_ends_ms": ends} if ends else {})}
