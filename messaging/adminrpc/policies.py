"""Admin RPC: policies."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request
from messaging.adminrpc.feed import TopicState

EFFECTS_MAX = 200  # in an answer


class PolicyPreview(Request, kw_only=True):
    """What `policies` would do now if the tenant, the namespace, the topic (full name) or a subscription of it had them. A value of
    None: the policy is not set there. Nothing is changed."""

    tenant: fields.Name = ""  # or one of its namespaces
    namespace: fields.Namespace = ""
    topic: fields.Topic = ""
    subscription: fields.Name = ""
    policies: Annotated[dict[str, Any], fields.POLICIES]


class PolicyEffectFound(Answer, kw_only=True):
    policy: str
    topic: Annotated[str, Meta(description="Empty: the namespace.")]
    subscription: str = ""
    affected: Annotated[int, Meta(description="How many things or bytes, as the sentence says.")]
    sentence: str


class PolicyPreviewAnswer(Answer, kw_only=True):
    effects: list[PolicyEffectFound]  # at most EFFECTS_MAX
    effects_count: Annotated[int, Meta(description="How many there are; the first 200 are listed.")]
    topics_looked_at: int
    topics_left_out: Annotated[int, Meta(description="Topics that are not loaded, or beyond the first 500.")]


class PolicyChange(msgspec.Struct, kw_only=True):
    """What is set on a topic (full name) since a change; `state` None: nothing. `sequence` rises within a namespace."""

    sequence: fields.Sequence
    topic: fields.Topic
    state: TopicState | None


class ChangeEventsAppend(Request, kw_only=True):
    """Appends changes, in rising order, to the event topic of the namespace. What that topic holds already is left out."""

    namespace: fields.Namespace
    changes: Annotated[list[PolicyChange], fields.CHANGES]


class ChangeEventsResult(Answer, kw_only=True):
    """All of them are durable, or, with `refused`, not known to be: why."""

    refused: str = ""
