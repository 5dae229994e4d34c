"""Admin RPC: redrive of dead letters. A worker finds what matches, writes down what it is about to move, and has it moved.

`redrive.move` is idempotent: the block that it appends carries the id of the job and the number of the step, and is looked for
behind the position that `redrive.prepare` gave. So a step that may have been done is simply asked for again.
"""

from __future__ import annotations

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request

KEY_SHOWN_MAX = 256  # characters of a message's key in what was found


class RedriveFilter(Request, kw_only=True):
    """All that are given must match. Times are of publishing, in milliseconds, [from, until); 0: open. `origin_subscription`: from
    which the message was dead-lettered, as `origin_topic` and `reason`: its properties. `producer`: the name of who published it
    here; a stock client's has that of the consumer that rejected it."""

    key: fields.Topic = ""
    property_name: fields.PropertyName = ""
    property_value: fields.PropertyValue = ""
    from_ms: fields.Milliseconds = 0
    until_ms: fields.Milliseconds = 0
    origin_subscription: fields.Name = ""
    redriven_max: fields.Redriven = 0  # one that was redriven so often already stays; 0: any
    origin_topic: fields.Topic = ""
    reason: fields.PropertyValue = ""
    producer: fields.Name = ""
    positions: fields.Positions = []  # only these entries (ledger and entry); empty: any


class RedriveEdit(msgspec.Struct, kw_only=True):
    """What a message goes back with, in place of what it has. `key` None: without one."""

    edited_payload: fields.EditedPayload
    key: fields.Topic | None = None
    properties: fields.Properties = {}


class RedriveScan(RedriveFilter, kw_only=True):
    """A page of what the subscription has not acknowledged behind a position, (-1, 0): the beginning. Where it is missing nothing
    counts as acknowledged; it is made, at the beginning of the topic, only if that is asked for. `owner`: the role on whose behalf;
    it has to have CONSUME. `tenant_uid`: of the tenant that asked; NotFound for a later one of its name. "": whichever there is.
    `found_max` entries are found at most, and of each the value of `shown_property`."""

    topic: fields.Topic
    subscription: fields.Name
    owner: fields.Owner
    tenant_uid: fields.TenantUid = ""
    ledger_id: fields.LedgerId
    entry_id: fields.LedgerId
    make_subscription: bool = False
    found_max: fields.FoundMax = 100
    shown_property: fields.PropertyName = ""


class RedriveFound(msgspec.Struct, kw_only=True):
    """An entry. Of `key` and each of what it says of itself at most `KEY_SHOWN_MAX` characters, and "…" where that is not all; of
    `origin_topic` as much as a topic's name may have. `refused`: why it does not move although it matches, "" for one that
    moves. `looked_at`: entries of the page up to this one; 0 from a broker of an earlier release, which does not say."""

    ledger_id: int
    entry_id: int
    messages: int
    size_bytes: int
    looked_at: int = 0
    key: str = ""
    publish_time_ms: int = 0
    refused: str = ""
    origin_topic: str = ""
    origin_subscription: str = ""
    reason: str = ""
    producer: str = ""
    shown_property: str = ""


class RedriveFoundPage(Answer, kw_only=True):
    """`ledger_id` and `entry_id` are for the next call; `done`: nothing follows."""

    found: list[RedriveFound]
    looked_at: int
    ledger_id: int
    entry_id: int
    done: bool


class RedrivePrepare(Request, kw_only=True):
    """Which topic the step goes to (a partition, where the target has some), and where that ends now. `owner` has to have PRODUCE
    on it."""

    target: fields.Topic
    owner: fields.Owner
    step: fields.Step


class RedriveTarget(Answer, kw_only=True):
    target: str
    ledger_id: int
    entry_id: int


class RedriveMove(Request, kw_only=True):
    """Appends the entries at `positions` (ledger and entry) to `target` as one block, unless it holds that block behind the
    prepared position, and then acknowledges them. Conflict: the subscription has consumers. `tenant_uid` as in `RedriveScan`. With
    an `edit`, `positions` is one entry with one message, and that is not encrypted; else NotAllowed."""

    job: fields.Job
    step: fields.Step
    topic: fields.Topic
    subscription: fields.Name
    owner: fields.Owner
    tenant_uid: fields.TenantUid = ""
    target: fields.Topic
    ledger_id: fields.LedgerId
    entry_id: fields.LedgerId
    positions: fields.Positions
    edit: RedriveEdit | None = None


class RedriveMoved(Answer, kw_only=True):
    """`gone`: of the positions, those that were acknowledged or deleted meanwhile, and were not moved."""

    messages: int
    already: bool  # the block had been appended before
    gone: list[list[int]]
