"""Admin RPC: delayed messages of a topic that has messages of its own: cancelling, rescheduling, listing."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class DelayedChange(Request, kw_only=True):
    """`batch_index` -1: all of the entry. `deliver_at_ms`, milliseconds since 1970: the new time; None: it is cancelled."""

    topic: fields.Topic
    ledger_id: fields.LedgerId
    entry_id: fields.LedgerId
    batch_index: fields.BatchIndex = -1
    deliver_at_ms: fields.Milliseconds | None = None


class DelayedChanged(Answer, kw_only=True):
    already: Annotated[bool, Meta(description="true: it was cancelled before.")]
    former_ms: Annotated[int, Meta(description="When it was to be delivered.")]


class DelayedKeyChange(Request, kw_only=True):
    """The messages with this key that are not due yet, from a position on: those that are stored at or after it."""

    topic: fields.Topic
    key: fields.Topic
    deliver_at_ms: fields.Milliseconds | None = None
    ledger_id: fields.LedgerId = -1
    entry_id: fields.LedgerId = -1
    limit: fields.PageLimit = 1_000


class DelayedRefused(msgspec.Struct, kw_only=True):
    message_id: Annotated[str, Meta(description="ledger:entry")]
    sentence: str


class DelayedKeyChanged(Answer, kw_only=True):
    """`refused`: some of the `refused_count` messages that subscriptions had. `next`: ledger:entry, where the next call begins; "":
    there is nothing more."""

    changed: int
    refused_count: int
    refused: list[DelayedRefused]
    looked_at: int
    next: str


class DelayedList(Request, kw_only=True):
    """Delayed messages that are due from `from_ms` to before `until_ms`, in the order of their times, behind (`after_ms`,
    `ledger_id`, `entry_id`). With a `key` its messages alone, as they were stored, from (`ledger_id`, `entry_id`) on."""

    topic: fields.Topic
    from_ms: fields.Milliseconds = 0
    until_ms: fields.Milliseconds = 1 << 62
    key: fields.Topic = ""
    after_ms: fields.AfterMs = -1
    ledger_id: fields.LedgerId = -1
    entry_id: fields.LedgerId = -1
    limit: fields.PageLimit = 100


class DelayedMessage(msgspec.Struct, kw_only=True):
    message_id: Annotated[str, Meta(description="ledger:entry")]
    deliver_at_ms: int
    former_ms: Annotated[int | None, Meta(description="What it asks for itself, if it was rescheduled.")]
    publish_time_ms: Annotated[int, Meta(description="By the clock of the producer.")]
    producer: str
    key: str
    messages: Annotated[int, Meta(description="More than 1 for a batch.")]
    size_bytes: int


class DelayedPage(Answer, kw_only=True):
    """`next_ms`, `next_ledger_id`, `next_entry_id`: the position of the next request; no more if `done`. `complete`: false for a
    while after a start, when not all may be known; each request finds more."""

    messages: list[DelayedMessage]
    next_ms: int
    next_ledger_id: int
    next_entry_id: int
    done: bool
    complete: bool


class DelayedBucket(msgspec.Struct, kw_only=True):
    """Entries due from `from_ms` to before `until_ms`."""

    from_ms: int
    until_ms: Annotated[int | None, Meta(description="null: whenever later.")]
    entries: int


class DelayedCounts(Answer, kw_only=True):
    buckets: Annotated[list[DelayedBucket], Meta(description="An hour by minutes, the rest of a day by hours, a month by days.")]
    entries: Annotated[int, Meta(description="All that wait, also those that subscriptions have skipped.")]
    exact: Annotated[bool, Meta(description="false: counts far ahead are estimates.")]
    complete: Annotated[bool, Meta(description="false: some may be missing still, for a while after a start.")]
