"""Admin RPC: single messages of a topic."""

from __future__ import annotations

from typing import Annotated

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request
from messaging.adminrpc.subscriptions import PeekAnswer
from messaging.adminrpc.topics import MessageIdAnswer


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


class MessagesList(Request, kw_only=True):
    """At most `messages_max` entries behind (`ledger_id`, `entry_id`), fewer where they are large. -1/-1: from the first one on."""

    topic: fields.Topic
    ledger_id: fields.LedgerId = -1
    entry_id: fields.LedgerId = -1
    messages_max: fields.MessagesMax = 100


class MessagesPage(Answer, kw_only=True):
    """`more`: there are others behind the last one."""

    messages: list[PeekAnswer]
    more: bool


class MessageGiven(msgspec.Struct, kw_only=True):
    """`key` None: it has none. Times are milliseconds since 1970; 0: not set."""

    payload: fields.Payload
    key: fields.Topic | None = None
    properties: fields.Properties = {}
    event_time_ms: fields.Milliseconds = 0
    deliver_at_ms: fields.Milliseconds = 0


class MessagesPublish(Request, kw_only=True):
    """Publishes them in this order, to the partitions that their keys say. Whoever calls has checked the permission. Not
    idempotent."""

    topic: fields.Topic
    messages: Annotated[list[MessageGiven], fields.MESSAGES]


class MessagesPublished(Answer, kw_only=True):
    """The ids, in the order of the request."""

    ids: list[MessageIdAnswer]
