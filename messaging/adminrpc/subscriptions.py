"""Admin RPC: subscriptions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request

MOVED_SHOWN = 100  # partitions in `SubscriptionMoved`


class SubscriptionRef(Request, kw_only=True):
    topic: fields.Topic
    subscription: fields.Name


class SubscriptionCreate(Request, kw_only=True):
    """`ledger_id`/`entry_id`: -1/-1 earliest, 2^63-1 each latest, else that position. `acknowledged`: entries behind it that count
    as acknowledged, as `AcksBefore` has them; on one topic or partition. Not idempotent."""

    topic: fields.Topic
    subscription: fields.Name
    ledger_id: fields.LedgerId = 2**63 - 1
    entry_id: fields.LedgerId = 2**63 - 1
    properties: fields.Properties = {}
    acknowledged: fields.AckRanges = ""
    dry_run: bool = False


class SubscriptionDelete(Request, kw_only=True):
    """`dry_run`, here and below: nothing is changed; the answer, or the error, is what that of the change would be."""

    topic: fields.Topic
    subscription: fields.Name
    force: bool = False
    dry_run: bool = False


class SubscriptionSkip(Request, kw_only=True):
    """`entries` None: the whole backlog. With a position up to that one, where a dry run ended: asked for twice, it is skipped
    once."""

    topic: fields.Topic
    subscription: fields.Name
    entries: fields.Entries | None = None
    ledger_id: fields.LedgerId | None = None
    entry_id: fields.LedgerId | None = None
    dry_run: bool = False


class SubscriptionReset(Request, kw_only=True):
    """Exactly one of `timestamp_ms` and (`ledger_id`, `entry_id`). `acknowledged`: as when one is created. With `until_ms` only
    what was published from `timestamp_ms` until then comes again, and everything else stays as it is; Conflict where that is
    nothing."""

    topic: fields.Topic
    subscription: fields.Name
    timestamp_ms: fields.TimestampMs | None = None
    until_ms: fields.TimestampMs | None = None
    ledger_id: fields.LedgerId | None = None
    entry_id: fields.LedgerId | None = None
    excluded: bool = False  # deliver from the entry after this one
    acknowledged: fields.AckRanges = ""
    dry_run: bool = False


class SubscriptionExpire(Request, kw_only=True):
    """Marks entries older than `older_than_s` as consumed, or those up to (`ledger_id`, `entry_id`). `subscription` "": all of the
    topic."""

    topic: fields.Topic
    subscription: fields.Name = ""
    older_than_s: fields.OlderThanS = 0
    ledger_id: fields.LedgerId | None = None
    entry_id: fields.LedgerId | None = None
    excluded: bool = False  # not this entry itself
    dry_run: bool = False


class SubscriptionPropertiesSet(Request, kw_only=True):
    """Replaces all of them."""

    topic: fields.Topic
    subscription: fields.Name
    properties: fields.Properties


class SubscriptionProperties(Answer, kw_only=True):
    properties: dict[str, str]


class Refused(msgspec.Struct, kw_only=True):
    """An error of `messaging.errors`."""

    code: str
    message: str


class AcksBefore(msgspec.Struct, kw_only=True):
    """What a subscription had acknowledged behind its position: `entries` of them in `ranges` (`messaging.ack_ranges`), and
    `left_out` for which there is no room, or that were acknowledged in part."""

    ranges: str = ""
    entries: int = 0
    left_out: int = 0


class SubscriptionMoved(Answer, kw_only=True):
    """Topic, or partition -> the mark-delete position before and after, each as ``ledger:entry``; "" before it
    was created and after it was deleted. Of the first `MOVED_SHOWN` partitions; the counts are of all. `backlog_entries`: not
    acknowledged before. `skipped_entries`: of those, never delivered any more. `again_entries`: acknowledged before, at least in
    part, and delivered again. `consumers`: connected before. `acknowledged`: of those of `moved` that had something acknowledged
    behind their position. `refused`: why it is not done on others. `no_message`: there is none at the position that a reset names,
    so that it continues with what is behind that."""

    moved: dict[str, tuple[str, str]] = {}
    backlog_entries: int = 0
    skipped_entries: int = 0
    again_entries: int = 0
    consumers: int = 0
    acknowledged: dict[str, AcksBefore] = {}
    refused: Refused | None = None
    no_message: bool = False


class DeadLetterPolicySet(Request, kw_only=True):
    """`target` "": Pulsar's name, ``<topic>-<subscription>-DLQ``. `owner`: the role that must be allowed to publish to it."""

    topic: fields.Topic
    subscription: fields.Name
    max_redeliver_count: fields.Redeliveries
    target: fields.Topic = ""
    initial_subscription: fields.Name = ""
    owner: fields.Owner


class DeadLetterPolicyAnswer(Answer, kw_only=True):
    """`target` "": there is no policy."""

    max_redeliver_count: int = 0
    target: Annotated[str, Meta(description="Full name of the topic that dead letters are moved to.")] = ""
    initial_subscription: Annotated[str, Meta(description="Created on the target if it is missing; empty: none.")] = ""
    owner: Annotated[str, Meta(description="The role on whose behalf the broker publishes to the target.")] = ""
    waiting_entries: Annotated[int, Meta(description="That are to be moved.")] = 0
    moved_messages: Annotated[int, Meta(description="Since the policy was set or the topic was loaded.")] = 0
    last_error: Annotated[str, Meta(description="Why the last attempt to move messages failed; empty: it did not.")] = ""


class SubscriptionNames(Answer, kw_only=True):
    subscriptions: list[str]


class PeekAnswer(Answer, kw_only=True):
    """One stored message: `payload` is base64 of what follows the metadata; `headers` are Pulsar's ``X-Pulsar-*`` headers."""

    ledger_id: int
    entry_id: int
    payload: str
    headers: dict[str, str]


class SubscriptionPeek(Request, kw_only=True):
    topic: fields.Topic
    subscription: fields.Name
    position: fields.Position  # 1 = the first unacknowledged entry
