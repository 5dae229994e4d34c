"""Admin RPC: policies."""

from __future__ import annotations

from typing import Any

import msgspec

from messaging.adminrpc.base import Answer, Request
from messaging.adminrpc.feed import TopicState

EFFECTS_MAX = 200  # in an answer


class PolicyPreview(Request, kw_only=True):
    """What `policies` would do now if the tenant, the namespace, the topic (full name) or a subscription of it had them. A value of
    None: the policy is not set there. Nothing is changed."""

    tenant: str = ""  # or one of its namespaces
    namespace: str = ""
    topic: str = ""
    subscription: str = ""
    policies: dict[str, Any]


class PolicyEffectFound(Answer, kw_only=True):
    policy: str
    topic: str  # "": the namespace
    subscription: str = ""
    affected: int
    sentence: str


class PolicyPreviewAnswer(Answer, kw_only=True):
    """At most `EFFECTS_MAX` effects, the first of `effects_count`. Topics that are not loaded, or beyond a bound, are not looked
    at: `topics_left_out`."""

    effects: list[PolicyEffectFound]
    effects_count: int
    topics_looked_at: int
    topics_left_out: int


class PolicyChange(msgspec.Struct, kw_only=True):
    """What is set on a topic (full name) since a change; `state` None: nothing. `sequence` rises within a namespace."""

    sequence: int
    topic: str
    state: TopicState | None


class ChangeEventsAppend(Request, kw_only=True):
    """Appends changes, in rising order, to the event topic of the namespace. What that topic holds already is left out."""

    namespace: str
    changes: list[PolicyChange]


class ChangeEventsResult(Answer, kw_only=True):
    """All of them are durable, or, with `refused`, not known to be: why."""

    refused: str = ""
