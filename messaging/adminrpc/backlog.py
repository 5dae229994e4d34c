"""Admin RPC: what a subscription has not acknowledged, and what lies behind a position."""

from __future__ import annotations

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class BacklogAnalyze(Request, kw_only=True):
    """Of the whole backlog, or of the part from (`ledger_id`, `entry_id`) on."""

    topic: fields.Topic
    subscription: fields.Name
    ledger_id: fields.LedgerId | None = None
    entry_id: fields.LedgerId | None = None


class BacklogAnalysis(Answer, kw_only=True):
    """Unacknowledged entries, the messages in them, and the first and the last of them as ``ledger:entry``, "" where there is none.
    `aborted`: there are more, and only so many were read."""

    entries: int
    messages: int
    first: str = ""
    last: str = ""
    aborted: bool = False


class BacklogAfter(Request, kw_only=True):
    """What follows the entry (`ledger_id`, `entry_id`)."""

    topic: fields.Topic
    ledger_id: fields.LedgerId
    entry_id: fields.LedgerId


class BacklogSize(Answer, kw_only=True):
    """An estimate, from the mean size of the topic's entries."""

    size_bytes: int
