"""Admin RPC: delayed messages of a topic that has messages of its own: cancelling, rescheduling, listing."""

from __future__ import annotations

import msgspec

from messaging.adminrpc.base import Answer, Request


class DelayedChange(Request, kw_only=True):
    """`batch_index` -1: all of the entry. `deliver_at_ms`, milliseconds since 1970: the new time; None: it is cancelled."""

    topic: str
    ledger_id: int
    entry_id: int
    batch_index: int = -1
    deliver_at_ms: int | None = None


class DelayedChanged(Answer, kw_only=True):
    """`already`: it was cancelled before. `former_ms`: when it was to be delivered."""

    already: bool
    former_ms: int


class DelayedKeyChange(Request, kw_only=True):
    """The messages with this key that are not due yet, from a position on: those that are stored at or after it."""

    topic: str
    key: str
    deliver_at_ms: int | None = None
    ledger_id: int = -1
    entry_id: int = -1
    limit: int = 1_000


class DelayedRefused(msgspec.Struct, kw_only=True):
    """`message_id`: ledger:entry."""

    message_id: str
    sentence: str


class DelayedKeyChanged(Answer, kw_only=True):
    """`refused`: some of the `refused_count` messages that subscriptions had. `next`: ledger:entry, where the next call begins; "":
    there is nothing more."""

    changed: int
    refused_count: int
    refused: list[DelayedRefused]
    looked_at: int
    next: str
