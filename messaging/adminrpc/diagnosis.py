"""Admin RPC: why a subscription is not sent messages, and what became of a message."""

from __future__ import annotations

import msgspec

from messaging.adminrpc.base import Answer, Request


class SubscriptionExplain(Request, kw_only=True):
    """`topic` has messages of its own: it is not a partitioned one."""

    topic: str
    subscription: str


class ExplainFinding(msgspec.Struct, kw_only=True):
    """`reason`: see `messaging.broker.core.explain.Reason`. `position` is ``ledger:entry``, "" if it is about none; `until_ms` is
    milliseconds since 1970, or None."""

    reason: str
    sentence: str
    remedy: str
    consumer: str = ""
    key: str = ""
    position: str = ""
    until_ms: int | None = None


class SubscriptionExplained(Answer, kw_only=True):
    """`sentence` and `remedy` are those of the first, most important finding, now; `health` is a value of `DeliveryHealth`."""

    health: str
    sentence: str
    remedy: str
    findings: list[ExplainFinding]
    backlog_entries: int
    delayed_entries: int
    next_delayed_ms: int | None  # none of these is due before
    message_ttl_s: int  # 0: nothing expires; else delayed messages do, too
    mark_delete: str
    read_position: str


class MessageTrace(Request, kw_only=True):
    topic: str
    ledger_id: int
    entry_id: int


class TracedDelivery(msgspec.Struct, kw_only=True):
    """`certain`: it concerned this message; else it concerned some messages of a block of which this is one."""

    at_ms: int
    event: str
    consumer: str
    certain: bool


class TracedSubscription(msgspec.Struct, kw_only=True):
    """`where`: see `messaging.broker.core.trace.TraceState`. `messages_left`: of a batch of which some messages are acknowledged,
    else None. `redeliveries`: None if unknown."""

    subscription: str
    where: str
    sentence: str
    consumer: str
    messages_left: int | None
    redeliveries: int | None
    deliveries: list[TracedDelivery]


class TracedEntry(msgspec.Struct, kw_only=True):
    """A stored entry. `publish_time_ms` is its producer's clock, `stored_at_ms` the broker's; `deliver_at_ms` None: at once."""

    stored_at_ms: int
    publish_time_ms: int
    producer: str
    sequence_id: int
    messages: int
    size_bytes: int
    deliver_at_ms: int | None


class MessageTraced(Answer, kw_only=True):
    """`entry` None: it is not stored (any more); the sentence says what is known. `recorded_since_ms`: deliveries before are
    unknown; None: none are recorded."""

    sentence: str
    entry: TracedEntry | None
    recorded_since_ms: int | None
    subscriptions: list[TracedSubscription]
