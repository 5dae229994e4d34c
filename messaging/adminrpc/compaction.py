"""Admin RPC: topic compaction. A worker reads what is to be compacted, in two passes, and writes what is left into a new ledger.

`compaction.begin` gives out a session, which the calls after it carry. There is at most one for a topic; it ends with
`compaction.commit` or `compaction.abort`, or when nothing was heard of its worker for a minute. `compaction.write`, `.commit` and
`.begin` are not idempotent: a worker that does not know whether one of them was done gives the session up.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class CompactionStatus(Answer, kw_only=True):
    """`status`: NOT_RUN, RUNNING, SUCCESS or ERROR, of the last compaction since the broker started."""

    status: str
    last_error: str


class CompactionsDue(Request, kw_only=True):
    """A page of the topics that are to be compacted: those for which it was requested, on the first page, and those that have
    reached their threshold."""

    after: fields.Topic = ""
    limit: fields.PageLimit = 500


class CompactionsDuePage(Answer, kw_only=True):
    topics: list[str]
    next_after: str  # "" when there is no more


class CompactionBegin(Request, kw_only=True):
    """Conflict: another session is compacting the topic."""

    topic: fields.Topic
    task_id: fields.Name


class CompactionStart(Answer, kw_only=True):
    session: str


class CompactionRead(Request, kw_only=True):
    """What follows a position: (-1, 0) is the beginning of each pass."""

    topic: fields.Topic = ""  # "": whoever is asked has the session
    session: fields.Session
    ledger_id: fields.LedgerId
    entry_id: fields.LedgerId


class CompactionBlock(msgspec.Struct, kw_only=True):
    """A block of entries under their original ids; an entry without bytes is a hole."""

    ledger_id: fields.LedgerId
    first_entry: fields.LedgerId
    block_header: fields.BlockHeader
    block_data: fields.BlockData
    end_offsets: fields.EndOffsets


class CompactionPage(Answer, kw_only=True):
    """`ledger_id` and `entry_id` are for the next call; `done`: nothing follows."""

    blocks: list[CompactionBlock]
    ledger_id: int
    entry_id: int
    done: bool


class CompactionWrite(Request, kw_only=True):
    """Blocks in rising order of ids, after those of the calls before. Durable when the call returns."""

    topic: fields.Topic = ""  # "": whoever is asked has the session
    session: fields.Session
    blocks: Annotated[list[CompactionBlock], fields.BLOCKS]


class CompactionCommit(Request, kw_only=True):
    """What was written stands for the topic from now on, up to where it ended when the session began."""

    topic: fields.Topic = ""  # "": whoever is asked has the session
    session: fields.Session
    removed_messages: fields.RemovedMessages
    last_batch_index: fields.LastBatchIndex


class CompactionEnd(Request, kw_only=True):
    topic: fields.Topic = ""  # "": whoever is asked has the session
    session: fields.Session
    error: fields.Error
