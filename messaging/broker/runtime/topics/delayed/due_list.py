"""Lists the delayed messages of a topic in the order of their times, and counts them by time.

The newest entries are in memory; of each run the blocks are read that may have something between the times asked for. All of it is
read as it is at one moment; threads sort and count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, ParamSpec, TypeVar

from messaging.broker.core.delayed.newest import NewestParts
from messaging.broker.core.delayed.run_jobs import BLOCK_ENTRIES, DueEntry, StoredRun
from messaging.broker.core.delayed.time_slots import ENTRY_MASK
from messaging.broker.runtime.topics.delayed import due_threads
from messaging.broker.runtime.topics.delayed.scan import DelayedScan
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.broker.runtime.topics.services import refusal_of
from messaging.errors import NotReady
from messaging.fairness.in_thread import in_thread
from messaging.storage.ledger_store import NoSuchLedger, Position, StoreError

BLOCKS_MAX = 64  # of all runs, that one request reads
ROUNDS_MAX = 8  # pages that turn out to be of nothing but cancelled or released messages
CATCH_UP_ENTRIES, CATCH_UP_BYTES = 2_000, 4 << 20  # looked at where the index may not know all
MERGES_MAX = 3  # during one request
LEDGERS_END = (1 << 31) - 1
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
MINUTES, HOURS, DAYS = 60, 23, 30  # buckets: an hour by minutes, the rest of a day by hours, a month by days
P = ParamSpec("P")
T = TypeVar("T")


class DuePage(NamedTuple):
    """`following`: where the next page begins, None after the last. `complete`: no message is known to be missing, which it may be
    for a while after a start."""

    entries: list[DueEntry]
    following: DueEntry | None
    complete: bool


class Bucket(NamedTuple):
    """Of messages due from `from_ms` to before `until_ms`; None: whenever later."""

    from_ms: int
    until_ms: int | None
    entries: int


class DueCounts(NamedTuple):
    """`exact`: else counts of blocks that were not read are spread evenly over their times."""

    buckets: list[Bucket]
    entries: int
    exact: bool
    complete: bool


class _Moment(NamedTuple):
    """The index as it is now, from a time on."""

    newest: NewestParts
    runs: list[StoredRun]
    first_blocks: list[int]  # of each run, the first that may have something


class _Found(NamedTuple):
    entries: list[DueEntry]
    following: DueEntry | None


class DelayedList:
    """The delayed messages of one topic by their times."""

    __slots__ = ("_topic",)

    def __init__(self, topic: PersistentTopic) -> None:
        self._topic = topic

    async def page(self, from_ms: int, until_ms: int, after: DueEntry | None, count: int) -> DuePage:
        """Delayed messages due from `from_ms` to before `until_ms`, behind `after`, in order. Raises `NotReady`,
        `StorageFailed`."""
        complete = await self._caught_up()
        for _ in range(ROUNDS_MAX):
            result = await self._unless_merged(partial(self._round, from_ms, until_ms, after, count))
            after = result.following
            kept = [entry for entry in result.entries if self._holds(entry)]
            if kept or after is None:
                return DuePage(kept, after, complete)
        return DuePage([], after, complete)

    def _holds(self, entry: DueEntry) -> bool:
        """Whether this is when an entry is due."""
        overrides = self._topic.overrides
        time = None if overrides is None else overrides.time_of(Position(entry.ledger_id, entry.entry_id))
        pending = self._topic.delayed.delays.index.pending.get(entry.ledger_id, ())
        return entry.entry_id in pending and (time is None or time.at_ms == entry.at_ms)

    async def _round(self, from_ms: int, until_ms: int, after: DueEntry | None, count: int) -> _Found:
        topic = self._topic
        first_ms = max(from_ms, topic.delayed.delays.cutoff_ms + 1, after.at_ms if after is not None else 0)
        moment = self._moment(first_ms, until_ms)
        times = {} if topic.overrides is None else topic.overrides.times()
        parts = [await self._threaded(due_threads.in_memory, moment.newest, times, first_ms, until_ms)]
        at, left = list(moment.first_blocks), BLOCKS_MAX
        while True:
            starts = [_start_of(run, block, until_ms) for run, block in zip(moment.runs, at, strict=True)]
            lowest = min(starts, default=until_ms)
            if lowest >= until_ms or left <= 0:
                break
            if await self._threaded(due_threads.count_before, parts, after, lowest) > count:
                break
            which = starts.index(lowest)
            data = await topic.delayed.jobs.run_block(moment.runs[which], at[which])
            parts.append(await self._threaded(due_threads.block_within, data, first_ms, until_ms))
            at[which] += 1
            left -= 1
        certain = (
            min(lowest, until_ms) if lowest > first_ms else first_ms + 1
        )  # so many at the same moment that some of them have to do
        entries = await self._threaded(due_threads.page, parts, after, certain, count + 1)
        if len(entries) > count:
            return _Found(entries[:count], entries[count - 1])
        return _Found(entries, None if certain >= until_ms else DueEntry(certain - 1, LEDGERS_END, ENTRY_MASK))

    def _moment(self, from_ms: int, until_ms: int) -> _Moment:
        index = self._topic.delayed.index
        runs = [run for run in index.runs if run.first_block < len(run.starts)]
        firsts = [max(run.first_block, bisect_left(run.starts, from_ms) - 1) for run in runs]
        return _Moment(index.newest_parts(from_ms, until_ms), runs, firsts)

    async def counts(self) -> DueCounts:
        """How many delayed messages are due when. Raises `NotReady`, `StorageFailed`."""
        complete = await self._caught_up()
        now_ms = self._topic.services.stores.storage.safe_expiry_ms()
        edges = edges_from(now_ms)
        buckets, exact = await self._unless_merged(partial(self._counted, edges))
        entries = self._topic.delayed.waiting_entries
        ends = [*edges[1:-1], None]
        return DueCounts([Bucket(*bucket) for bucket in zip(edges, ends, buckets, strict=False)], entries, exact, complete)

    async def _counted(self, edges: list[int]) -> tuple[list[int], bool]:
        topic = self._topic
        first_ms, last_ms = topic.delayed.delays.cutoff_ms + 1, edges[-1]
        moment, overrides = self._moment(first_ms, last_ms), topic.overrides
        times = {} if overrides is None else overrides.times()
        left_out = {} if overrides is None else overrides.left_out()
        order = sorted(
            (run.starts[block], which, block)
            for which, (run, first) in enumerate(zip(moment.runs, moment.first_blocks, strict=True))
            for block in range(first, min(first + BLOCKS_MAX, len(run.starts)))
        )[:BLOCKS_MAX]
        at = list(moment.first_blocks)
        parts = [await self._threaded(due_threads.in_memory, moment.newest, {}, first_ms, last_ms)]
        for _, which, block in order:
            data = await topic.delayed.jobs.run_block(moment.runs[which], block)
            parts.append(await self._threaded(due_threads.block_within, data, first_ms, last_ms))
            at[which] = block + 1
        unread = [
            (run.starts[block:], max(0, run.record.entries - block * BLOCK_ENTRIES))
            for run, block in zip(moment.runs, at, strict=True)
            if block < len(run.starts)
        ]
        return await self._threaded(due_threads.counts, parts, left_out, times, unread, edges), not unread

    async def _caught_up(self) -> bool:
        """Looks at some of what the index may not know. Returns whether it knows all now."""
        topic = self._topic
        topic.check_open()
        topic.delayed.begin()
        delays = topic.delayed.delays
        if delays.unindexed is not None:
            scan = DelayedScan(topic, delays.unindexed[0], CATCH_UP_ENTRIES, CATCH_UP_BYTES)
            await scan.look_through()
        return delays.unindexed is None

    async def _unless_merged(self, work: Callable[[], Awaitable[T]]) -> T:
        """`work` on the index of one moment, and once more where the runs were merged meanwhile."""
        for _ in range(MERGES_MAX):
            try:
                return await work()
            except NoSuchLedger:
                continue
            except StoreError as error:
                raise refusal_of(error, f"the index of delayed messages of {self._topic.text} cannot be read") from error
        raise NotReady(f"the index of delayed messages of {self._topic.text} is being merged: try again")

    async def _threaded(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        async with self._topic.services.loops.delay_timers.list_turn(self._topic.name.tenant):
            return await in_thread(work, *arguments, **named)


def _start_of(run: StoredRun, block: int, until_ms: int) -> int:
    return run.starts[block] if block < len(run.starts) else until_ms


def edges_from(now_ms: int) -> list[int]:
    """Where the buckets begin, and an end that no time reaches: minutes for an hour, then hours, then days."""
    first = now_ms // MINUTE_MS * MINUTE_MS
    hours = first + MINUTES * MINUTE_MS
    days = hours + HOURS * HOUR_MS
    return [
        *(first + at * MINUTE_MS for at in range(MINUTES)),
        *(hours + at * HOUR_MS for at in range(HOURS)),
        *(days + at * DAY_MS for at in range(DAYS + 1)),
        1 << 62,
    ]
