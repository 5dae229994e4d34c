"""Admin RPC: topic compaction. A worker reads what is to be compacted, in two passes, and writes what is left into a new ledger.

`compaction.begin` gives out a session, which the calls after it carry. There is at most one for a topic; it ends with
`compaction.commit` or `compaction.abort`, or when nothing was heard of its worker for a minute. `compaction.write`, `.commit` and
`.begin` are not idempotent: a worker that does not know whether one of them was done gives the session up.
"""

from __future__ import annotations

import msgspec

from messaging.adminrpc.base import Answer, Request


class CompactionStatus(Answer, kw_only=True):
    """`status`: NOT_RUN, RUNNING, SUCCESS or ERROR, of the last compaction since the broker started."""

    status: str
    last_error: str


class CompactionsDue(Request, kw_only=True):
    """A page of the topics that are to be compacted: those for which it was requested, on the first page, and those that have
    reached their threshold."""

    after: str = ""
    limit: int = 500


class CompactionsDuePage(Answer, kw_only=True):
    topics: list[str]
    next_after: str  # "" when there is no more


class CompactionBegin(Request, kw_only=True):
    """Conflict: another session is compacting the topic."""

    topic: str
    task_id: str


class CompactionStart(Answer, kw_only=True):
    session: str


class CompactionRead(Request, kw_only=True):
    """What follows a position: (-1, 0) is the beginning of each pass."""

    session: str
    ledger_id: int
    entry_id: int


class CompactionBlock(msgspec.Struct, kw_only=True):
    """A block of entries under their original ids; an entry without bytes is a hole."""

    ledger_id: int
    first_entry: int
    block_header: bytes
    block_data: bytes
    end_offsets: list[int]


class CompactionPage(Answer, kw_only=True):
    """`ledger_id` and `entry_id` are for the next call; `done`: nothing follows."""

    blocks: list[CompactionBlock]
    ledger_id: int
    entry_id: int
    done: bool


class CompactionWrite(Request, kw_only=True):
    """Blocks in rising order of ids, after those of the calls before. Durable when the call returns."""

    session: str
    blocks: list[CompactionBlock]


class CompactionCommit(Request, kw_only=True):
    """What was written stands for the topic from now on, up to where it ended when the session began."""

    session: str
    removed_messages: int
    last_batch_index: int


class CompactionEnd(Request, kw_only=True):
    session: str
    error: str
