"""Admin RPC: single messages of a topic."""

from __future__ import annotations

from messaging.adminrpc.base import Request


class MessageGet(Request, kw_only=True):
    topic: str
    ledger_id: int
    entry_id: int


class MessageExamine(Request, kw_only=True):
    """The entry number `position`, from 1, of all that are stored; `from_latest`: counted from the last one. Numbers beyond the end
    mean the last entry on that side."""

    topic: str
    position: int
    from_latest: bool = False


class MessageFind(Request, kw_only=True):
    """The first message published at or after `timestamp_ms`; after all messages, the position of the next."""

    topic: str
    timestamp_ms: int
