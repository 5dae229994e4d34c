"""Admin RPC: deleted topics in the recycle bin."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class RecycleBinList(Request, kw_only=True):
    """By id, which rises with the time of deletion, beginning after `after_id`."""

    namespace: fields.Namespace
    after_id: fields.RecycleId = ""
    limit: fields.PageLimit = 100


class RecycledRef(Request, kw_only=True):
    """not_found where the bin of the namespace has nothing with this id."""

    namespace: fields.Namespace
    recycle_id: fields.RecycleId


class Recycled(msgspec.Struct, kw_only=True):
    """Times are milliseconds since 1970. `partitions` 0: not a partitioned topic. `stored_bytes`: of its messages."""

    recycle_id: str
    topic: str
    partitions: int
    stored_bytes: int
    deleted_ms: int
    expires_ms: int
    deleted_by: str


class RecycledPage(Answer, kw_only=True):
    """`next_after` is "" on the last page."""

    items: list[Recycled]
    next_after: str = ""


class RecycledAnswer(Answer, kw_only=True):
    """`created_ms`: of the topic. The policies are those that the control plane gave at the deletion."""

    recycled: Recycled
    created_ms: int
    policies: dict[str, Any]
    subscription_policies: dict[str, dict[str, Any]]


class RecycleBinExpire(Request, kw_only=True):
    """Purges up to `topics_max` of those whose time is over."""

    topics_max: fields.PurgeLimit = 20


class RecycleBinExpired(Answer, kw_only=True):
    """`failed`: what went wrong, by topic; it is tried again by a later call."""

    purged: int
    failed: dict[str, str]


class PlaceLeft(Request, kw_only=True):
    """Of one broker of a fleet to that which has the log of `topic`: it left its place in the recycle bin, and is `restored`, or
    gone, and with it the ledgers."""

    topic: fields.Topic
    place: fields.Topic
    restored: bool = False
    ledger_ids: Annotated[list[int], fields.LEDGERS] = []
