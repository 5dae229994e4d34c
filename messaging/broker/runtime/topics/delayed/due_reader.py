"""Reads the delayed messages of one topic before they are due, where they lie scattered over old ledgers: see
`core/delayed/due_ahead.py`. Its reads take their turn with all other reads of the broker (`backlog/scheduler.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from pyroaring import BitMap

from messaging.broker.core.backlog.read import BacklogRead
from messaging.broker.core.bitmaps import ENTRY_IDS
from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.due_reads import DueRead
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.run_index import RunIndex
from messaging.broker.core.delayed.run_jobs import AHEAD_MS, between, known_until
from messaging.broker.core.delayed.topic_delays import TopicDelays
from messaging.broker.core.entries import EntryBlock, from_log
from messaging.broker.runtime.topics.backlog.sizes import ledger_sizes
from messaging.broker.runtime.topics.dispatch.entry_cache import EntryCache
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.ledger_store import Block, Position

LOOK_MS = 1_000  # between two looks into the index
KEPT_MS = 20_000  # after the time at which it was due: its consumers may be slow
READS_MAX = 2  # asked for at a time
READ_BYTES_MIN, READ_BYTES_MAX = 64 << 10, 1 << 20  # what one read counts for


class DueReader:
    """`allows` says whether so many more bytes may be kept; `changed` is called when more is kept, or less."""

    def __init__(
        self,
        topic: TopicContext,
        delays: TopicDelays,
        cache: EntryCache,
        allows: Callable[[int], bool],
        changed: Callable[[], None],
    ) -> None:
        self.tenant = topic.name.tenant
        self._topic = topic
        self._delays = delays
        self._cache = cache
        self._allows = allows
        self._changed = changed
        self._looked_ms = 0  # up to here everything that is due was looked at
        self._again_ms = 0
        self._soon: EntrySets = {}  # what is due by then, and nobody needs yet
        self._reads: dict[BacklogRead, DueRead] = {}
        self._entry_bytes: dict[int, int] = {}  # of each ledger, on average

    def look_ms(self, index: RunIndex) -> int | None:
        """When to call `look` next; None: not before something else happens."""
        near = any(run.head is not None for run in index.runs) or self._delays.ahead.memory_bytes
        return self._again_ms if near else None

    def look(self, index: RunIndex, now_ms: int) -> None:
        """Reads what is due soon, and forgets what was due long ago."""
        ahead = self._delays.ahead
        self._again_ms = now_ms if ahead.forget(now_ms) else now_ms + LOOK_MS
        until_ms = min(now_ms + AHEAD_MS, known_until(index.runs) - 1)
        after_ms = max(min(self._looked_ms, now_ms + AHEAD_MS), now_ms)  # the clock may have been set back
        if until_ms > after_ms:
            self._looked_ms = until_ms
            for ledger_id, entries in between(index.runs, after_ms, until_ms).items():
                entry_sets.add(self._soon, ledger_id, entries)
        self._soon = entry_sets.common(self._soon, index.pending)
        wanted = self._needed(self._soon) if ahead.has_room else {}
        if wanted:
            entry_sets.take(self._soon, wanted)
            self._entry_bytes = {
                size.ledger_id: size.length_bytes // max(1, size.entries) for size in ledger_sizes(self._topic.ledger)
            }
            ahead.want(wanted, now_ms + AHEAD_MS + KEPT_MS)
        self._read()

    def _needed(self, due: EntrySets) -> EntrySets:
        """Of these, what some subscription will be sent, and is not in memory."""
        needed: EntrySets = {}
        for entry in self._delays.entries:
            for ledger_id, entries in entry.needs(due).items():
                entry_sets.add(needed, ledger_id, entries)
        cached = self._cache.first
        if cached is not None:
            for ledger_id in [old_id for old_id in needed if old_id >= cached.ledger_id]:
                first = cached.entry_id if ledger_id == cached.ledger_id else 0
                entry_sets.remove_range(needed, ledger_id, first, ENTRY_IDS)
        return needed

    # --- reading

    def _read(self) -> None:
        ahead, scheduler = self._delays.ahead, self._topic.services.loops.backlog_scheduler
        while len(self._reads) < READS_MAX and self._allows(READ_BYTES_MAX):
            read = ahead.next_read(lambda ledger_id: self._entry_bytes.get(ledger_id, READ_BYTES_MIN))
            if read is None:
                return
            entries = read.last + 1 - read.first
            size = 2 * entries * self._entry_bytes.get(read.ledger_id, READ_BYTES_MIN)  # whole blocks, and some are larger
            asked = BacklogRead(Position(read.ledger_id, read.first), min(max(size, READ_BYTES_MIN), READ_BYTES_MAX), entries)
            self._reads[asked] = read
            scheduler.ask(self, asked)

    def begin(self, read: BacklogRead) -> None:
        """Starts this read; the scheduler granted it memory."""
        work = self._topic.ledger.read(read.first, entries_max=read.entries, bytes_max=read.size_bytes)
        task = asyncio.get_running_loop().create_task(work, name=f"read delayed messages of {self._topic.text}")
        task.add_done_callback(partial(self._ended, read))

    def _ended(self, asked: BacklogRead, task: asyncio.Task[list[Block]]) -> None:
        topic, ahead = self._topic, self._delays.ahead
        scheduler = topic.services.loops.backlog_scheduler
        read = self._reads.pop(asked)
        scheduler.resized(self.tenant, asked.size_bytes, 0)
        with topic.services.loops.dispatching.guard(topic=topic.text, position=str(asked.first)):
            entries = [] if task.cancelled() or task.exception() is not None else task.result()
            try:
                blocks = _with(entries, read.wanted)
            except ValueError:  # none of ours: whoever is sent it tells
                entries = []
            if entries:
                ahead.arrived(read, blocks, entries[-1].last_entry)
            else:
                ahead.failed(read)
            if topic.closed is None:
                self._read()
                self._changed()
        scheduler.ended()

    # --- the end

    def give_back(self) -> bool:
        return False

    def sweep(self) -> None:
        """What is held is forgotten by its time."""

    def close(self) -> None:
        for read in self._reads:
            self._topic.services.loops.backlog_scheduler.withdraw(self, read)
        self._delays.ahead.clear()


def _with(blocks: list[Block], wanted: BitMap) -> list[EntryBlock]:
    """Those that hold something of `wanted`. Raises `ValueError`."""
    return [from_log(block) for block in blocks if wanted.range_cardinality(block.first_entry, block.last_entry + 1)]
