"""Admin RPC: why a subscription is not sent messages, and what became of a message."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request
from messaging.problems.order import Problem

Problems = Annotated[list[Problem], Meta(description="What is wrong with it for longer than a moment, as the page Now lists it.")]


class SubscriptionExplain(Request, kw_only=True):
    """`topic` has messages of its own: it is not a partitioned one."""

    topic: fields.Topic
    subscription: fields.Name


class ExplainFinding(msgspec.Struct, kw_only=True):
    reason: Annotated[str, Meta(description="A stable code for programs.")]  # messaging.broker.core.diagnosis.explain.Reason
    sentence: str
    remedy: Annotated[str, Meta(description="What is safe to do.")]
    consumer: str = ""
    key: str = ""
    position: Annotated[str, Meta(description="ledger:entry")] = ""
    until_ms: Annotated[int | None, Meta(description="Milliseconds since 1970.")] = None


class ExplainStep(msgspec.Struct, kw_only=True):
    """One of the steps that a message passes, in this order."""

    step: Annotated[str, Meta(description="A stable code for programs.")]  # messaging.problems.steps.Step
    state: Annotated[str, Meta(description="open, slows, shut, none or unknown.")]
    sentence: str
    code: Annotated[str, Meta(description="Which sentence it is, without what is filled in.")]
    facts: Annotated[dict[str, str | int | float], Meta(description="What is filled in.")]
    who: Annotated[list[str], Meta(description="Names of the producers or consumers that it is about, up to 20.")]
    since_ms: Annotated[int | None, Meta(description="Milliseconds since 1970; null: it is not known, or says nothing.")] = None


class TopicExplain(Request, kw_only=True):
    """`topic` has messages of its own: it is not a partitioned one."""

    topic: fields.Topic


class TopicExplained(Answer, kw_only=True):
    """Why what producers send is refused, or held. `problems` are in order."""

    held_at: Annotated[str, Meta(description="The step at which it is; empty: nothing stands in the way.")]
    steps: list[ExplainStep]
    problems: Problems = msgspec.field(default_factory=list)


class SubscriptionExplained(Answer, kw_only=True):
    health: Annotated[str, Meta(description="good, idle, blocked or abandoned.")]
    sentence: Annotated[str, Meta(description="Of the most important finding.")]
    remedy: str
    findings: list[ExplainFinding]
    backlog_entries: int
    delayed_entries: Annotated[int, Meta(description="Known to be delivered later.")]
    next_delayed_ms: Annotated[int | None, Meta(description="None of these is due before; ms since 1970.")]
    message_ttl_s: Annotated[int, Meta(description="0: nothing expires; else delayed messages do, due or not.")]
    mark_delete: Annotated[str, Meta(description="ledger:entry")]
    read_position: Annotated[str, Meta(description="ledger:entry")]
    held_at: Annotated[str, Meta(description="The step at which messages stop; empty: at none.")] = ""
    steps: Annotated[list[ExplainStep], Meta(description="All that a message passes, from its producer on.")] = msgspec.field(
        default_factory=list
    )
    problems: Problems = msgspec.field(default_factory=list)


class MessageTrace(Request, kw_only=True):
    topic: fields.Topic
    ledger_id: fields.LedgerId
    entry_id: fields.LedgerId


class TracedDelivery(msgspec.Struct, kw_only=True):
    at_ms: int
    event: Annotated[str, Meta(description="sent, expired or dead_lettered")]
    consumer: str
    certain: Annotated[bool, Meta(description="false: it concerned some messages of a block of which this is one.")]


class TracedSubscription(msgspec.Struct, kw_only=True):
    subscription: str
    where: Annotated[str, Meta(description="A stable code for programs.")]  # messaging.broker.core.diagnosis.trace.TraceState
    sentence: str
    consumer: str
    messages_left: Annotated[int | None, Meta(description="Of a batch of which some messages are acknowledged.")]
    redeliveries: Annotated[int | None, Meta(description="null: unknown.")]
    deliveries: list[TracedDelivery]


class TracedEntry(msgspec.Struct, kw_only=True):
    stored_at_ms: Annotated[int, Meta(description="By the clock of the broker.")]
    publish_time_ms: Annotated[int, Meta(description="By the clock of the producer.")]
    producer: str
    sequence_id: int
    messages: int
    size_bytes: int
    deliver_at_ms: int | None


class MessageTraced(Answer, kw_only=True):
    sentence: str
    entry: Annotated[TracedEntry | None, Meta(description="null: it is not stored (any more); the sentence says what is known.")]
    recorded_since_ms: Annotated[int | None, Meta(description="What was delivered before is unknown; null: anything is.")]
    subscriptions: list[TracedSubscription]
