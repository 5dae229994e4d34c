"""Admin RPC: moves of dead letters, and of what is redriven, to a topic of another broker.

The broker of the source asks that of the target for what it would do itself if the target was its own. `job` is a dead-letter
policy, or a redrive job; `producer` the name under which it publishes.
"""

from __future__ import annotations

from typing import Annotated

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class MoveOpen(Request, kw_only=True):
    """`create`: the topic is made where that is allowed. `subscription`: made where it is missing; "": none."""

    topic: fields.Topic
    create: bool
    subscription: fields.Name = ""


class MovePlace(Answer, kw_only=True):
    """The last position of the topic."""

    ledger_id: int
    entry_id: int


class MovePlan(Request, kw_only=True):
    """`parts`: the sequence id of each block, `ledger_id` and `entry_id`: the last position before the first of them."""

    topic: fields.Topic
    job: fields.Job
    producer: fields.Name
    sequence_id: fields.SequenceId
    parts: Annotated[list[int], fields.PARTS]
    ledger_id: fields.LedgerId
    entry_id: fields.LedgerId


class MoveStored(Answer, kw_only=True):
    parts: int


class MoveAppend(Request, kw_only=True):
    """A piece of a block of `size` bytes, the frames of SEND commands, which is appended with the last one. Doing it twice stores
    it twice, so its outcome is looked for instead. `waited_until_ms`: then the caller looks, and nothing is appended any more."""

    topic: fields.Topic
    job: fields.Job
    producer: fields.Name
    owner: fields.Owner
    sequence_id: fields.SequenceId
    attempt: fields.Attempt
    at: fields.BlockBytes
    size: fields.BlockBytes
    piece: fields.Piece
    waited_until_ms: fields.UntilMs
