"""Admin RPC: long changes, which go on whoever waits for them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class ChangeRef(Request, kw_only=True):
    id: fields.ChangeId


class ChangesList(Request, kw_only=True):
    tenant: fields.Name


class ChangeProgress(msgspec.Struct, kw_only=True):
    """`state` waiting: for its turn. Of an interrupted one nothing is known after a restart."""

    id: str
    change: Annotated[str, Meta(description="What is done, such as topics.delete.")]
    resource: Annotated[str, Meta(description="The topic or namespace.")]
    state: Annotated[str, Meta(description="waiting, running, done or failed.")]
    done: Annotated[int, Meta(description="Partitions that were changed; each counts again for each step over all of them.")]
    partitions: Annotated[int, Meta(description="Those to be changed that are known so far, counted in the same way.")]
    error: Annotated[str, Meta(description="Why it failed.")]
    started_ms: Annotated[int, Meta(description="Milliseconds since 1970.")]
    ended_ms: int | None


class ChangesUnderWay(Answer, kw_only=True):
    """Those of a tenant, newest first: under way, and ended lately."""

    changes: list[ChangeProgress]
