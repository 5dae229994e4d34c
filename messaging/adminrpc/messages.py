"""Admin RPC: single messages of a topic."""

from __future__ import annotations

from messaging.adminrpc import fields
from messaging.adminrpc.base import Request


class MessageGet(Request, kw_only=True):
    topic: fields.Topic
    ledger_id: fields.LedgerId
    entry_id: fields.LedgerId


class MessageExamine(Request, kw_only=True):
    """The entry number `position`, from 1, of all that are stored; `from_latest`: counted from the last one. Numbers beyond the end
    mean the last entry on that side."""

    topic: fields.Topic
    position: fields.Position
    from_latest: bool = False


class MessageFind(Request, kw_only=True):
    """The first message published at or after `timestamp_ms`; after all messages, the position of the next."""

    topic: fields.Topic
    timestamp_ms: fields.TimestampMs
