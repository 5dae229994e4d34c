"""Admin RPC: long changes, which go on whoever waits for them."""

from __future__ import annotations

import msgspec

from messaging.adminrpc.base import Answer, Request


class ChangeRef(Request, kw_only=True):
    id: str


class ChangesList(Request, kw_only=True):
    tenant: str


class ChangeProgress(msgspec.Struct, kw_only=True):
    """`state`: waiting (for its turn), running, done or failed. Of an interrupted one nothing is known after a restart."""

    id: str
    change: str  # the method of the admin RPC
    resource: str  # the topic or namespace
    state: str
    done: int  # partitions that were changed; each counts again for each step over all of them
    partitions: int  # known to be changed so far, counted in the same way
    error: str  # why it failed
    started_ms: int
    ended_ms: int | None


class ChangesUnderWay(Answer, kw_only=True):
    """Those of a tenant, newest first: under way, and ended lately."""

    changes: list[ChangeProgress]
