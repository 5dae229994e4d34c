"""The index of a topic as a log-structured merge tree: the newest entries in memory, the others in sorted runs in storage. Pure: it
names the jobs that somebody has to do, and is told how each ended.

`pending` alone decides what is released. The same entry may be in a chunk, in a slot, in a run and in the run that replaces it; the
first of them that comes due takes it out of `pending`, and the others find nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from pyroaring import BitMap

from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.newest import SEAL_ENTRIES, NewestEntries, NewestParts
from messaging.broker.core.delayed.run_jobs import Drop, Head, Job, Load, Merge, Rewrite, Seal, StoredRun
from messaging.broker.core.delayed.time_slots import NEVER_MS, Due
from messaging.storage.meta_store import DelayedRun

TAKEN_MAX = 65_536  # entries released from runs in one turn
MERGED_RUNS = 8
LEVELS = (2 * SEAL_ENTRIES, 16 * SEAL_ENTRIES)  # runs with fewer entries left than the first, or the second, are merged
HEAD_BYTES = 16 * 8192
REWRITTEN_PART, REWRITTEN_ENTRIES = 2, 1 << 20  # a directory is written again when half of its entries, or so many, were released


class RunIndex:
    def __init__(self, resolution_ms: int = 1, seal_entries: int = SEAL_ENTRIES) -> None:
        self.pending: EntrySets = {}
        self.runs: list[StoredRun] = []
        self.seal_entries = seal_entries
        self.releasing_ms = 0  # `take_due` was asked up to here
        self._newest = NewestEntries(resolution_ms, seal_entries)
        self._merging: Merge | None = None
        self._rewriting: Rewrite | None = None

    @property
    def resolution_ms(self) -> int:
        return self._newest.near.resolution_ms

    @resolution_ms.setter
    def resolution_ms(self, value: int) -> None:
        self._newest.near.resolution_ms = value

    @property
    def memory_bytes(self) -> int:
        runs = sum(8 * len(run.starts) + HEAD_BYTES * len(run.loaded_blocks) for run in self.runs)
        return self._newest.memory_bytes + runs

    @property
    def full(self) -> bool:
        return self._newest.full

    @property
    def grown(self) -> bool:
        """Whether the last block that was added filled a chunk: time to look for jobs."""
        return self._newest.grown

    # --- adding

    def add_block(self, ledger_id: int, first_entry: int, times: Sequence[int]) -> None:
        self._newest.add_block(ledger_id, first_entry, times)
        pending = self.pending.get(ledger_id)
        if pending is None:
            pending = self.pending[ledger_id] = BitMap()
        pending.add_range(first_entry, first_entry + len(times))

    def add(self, ledger_id: int, times: Iterable[tuple[int, int]]) -> None:
        for entry_id, at_ms in times:
            if entry_id not in self.pending.get(ledger_id, ()):
                self.add_block(ledger_id, entry_id, (at_ms,))

    def restore(self, record: DelayedRun, starts: array[int], entries: int, bitmaps: EntrySets) -> None:
        """A run that was stored before the topic was loaded."""
        self.runs.append(StoredRun(record, starts, entries))
        self._add_pending(bitmaps)

    def _add_pending(self, bitmaps: EntrySets) -> None:
        for ledger_id, entries in bitmaps.items():
            bitmap = self.pending.get(ledger_id)
            if bitmap is None:
                self.pending[ledger_id] = entries
            else:
                bitmap |= entries

    # --- releasing

    def next_ms(self) -> int | None:
        first = self._newest.next_ms()
        for run in self.runs:
            if run.head is not None or not (run.done or run.loading):  # whoever loads asks again
                first = min(first, run.next_ms())
        return None if first == NEVER_MS else first

    def take_due(self, until_ms: int) -> Due:
        self.releasing_ms = until_ms
        self._newest.bring_near(until_ms)
        due, reached_ms = self._newest.near.take_due(until_ms)
        reached_ms = min(reached_ms, self._newest.first_far_ms() - 1)
        left = TAKEN_MAX
        for run in self.runs:
            while not run.done and run.next_ms() <= until_ms:
                if run.head is None or left <= 0:
                    reached_ms = min(reached_ms, run.next_ms() - 1)
                    break
                left -= self._take_head(run, until_ms, left, due)
        return Due(entry_sets.take(self.pending, due), reached_ms)

    def _take_head(self, run: StoredRun, until_ms: int, entries_max: int, due: dict[int, BitMap]) -> int:
        head = run.head
        assert head is not None
        before = head.left
        for ledger_id, entries in head.take(until_ms, entries_max).items():
            bitmap = due.get(ledger_id)
            due[ledger_id] = entries if bitmap is None else bitmap | entries
        run.took(before - head.left)
        return before - head.left

    def forget_ledgers_before(self, ledger_id: int) -> None:
        for gone in [earlier for earlier in self.pending if earlier < ledger_id]:
            del self.pending[gone]

    def newest_parts(self, from_ms: int, until_ms: int) -> NewestParts:
        """What no run has yet."""
        return self._newest.parts(from_ms, until_ms)

    # --- jobs: each is to be done once, and then told of

    def jobs(self, now_ms: int) -> list[Job]:
        """All that is to be done now."""
        others = (self.seal(now_ms), self.merge(), self.rewrite(), self.drop())
        return [*self.loads(self.releasing_ms), *(job for job in others if job is not None)]

    def loads(self, until_ms: int) -> list[Load]:
        """The blocks that are needed for what is due up to `until_ms`, or soon after."""
        wanted = []
        for run in self.runs:
            load_ms = run.load_ms()
            if load_ms is not None and load_ms <= until_ms:
                run.loading = True
                wanted.append(Load(run, run.next_block))
        return wanted

    def loads_ms(self) -> int | None:
        """When to ask for `loads` next; None: not before something else happens."""
        return min((load_ms for run in self.runs if (load_ms := run.load_ms()) is not None), default=None)

    def loaded(self, job: Load, head: Head | None) -> None:
        """`head` None: the block cannot be read, and is passed over."""
        run = job.run
        run.loading = False
        if run.next_block == job.block:
            run.loaded(job.block, head)

    def put_off(self, job: Load) -> None:
        """It could not be read: it is to be asked for again now."""
        job.run.loading = False

    def seal(self, now_ms: int, entries_min: int = 0) -> Seal | None:
        """What is to be sealed now: at least so many entries; 0: as many as usual."""
        return self._newest.seal(now_ms, entries_min)

    def sealed(self, job: Seal, run: StoredRun | None) -> None:
        """None: it could not be stored."""
        self._newest.sealed(job, stored=run is not None)
        if run is not None:
            self.runs.append(run)

    def merge(self) -> Merge | None:
        """Runs of about a size that are to become one now."""
        if self._merging is not None:
            return None
        idle = sorted((run for run in self.runs if not run.busy and not run.done), key=lambda run: run.left)
        for level in LEVELS:
            some = [run for run in idle if run.left < level * self.seal_entries // SEAL_ENTRIES][: 2 * MERGED_RUNS]
            if len(some) >= MERGED_RUNS:
                for run in some:
                    run.busy = True
                self._merging = Merge(some, min(run.next_ms() for run in some) - 1)
                return self._merging
        return None

    def merged(self, job: Merge, run: StoredRun | None, *, stored: bool) -> None:
        """`stored`: `run` has taken the place of the others in the topic's record, or nothing has, if None."""
        self._merging = None
        for merged_run in job.runs:
            merged_run.busy = False
        if stored:
            self.runs = [former for former in self.runs if former not in job.runs]
            if run is not None:
                self.runs.append(run)

    def rewrite(self) -> Rewrite | None:
        """A run of which much was released since its directory was written."""
        if self._rewriting is not None:
            return None
        for run in self.runs:
            released = run.directory_entries - run.left
            enough = max(self.seal_entries, min(REWRITTEN_ENTRIES, run.directory_entries // REWRITTEN_PART))
            if not run.busy and not run.done and released >= enough:
                run.busy = True
                self._rewriting = Rewrite(run)
                return self._rewriting
        return None

    def rewritten(self, job: Rewrite, record: DelayedRun | None) -> None:
        """None: it was not stored."""
        self._rewriting, job.run.busy = None, False
        if record is not None:
            job.run.record, job.run.directory_entries = record, job.run.left

    def drop(self) -> Drop | None:
        """Runs of which nothing is left."""
        gone = [run for run in self.runs if run.done and not run.busy]
        for run in gone:
            run.busy = True
        return Drop(gone) if gone else None

    def dropped(self, job: Drop, *, stored: bool) -> None:
        for run in job.runs:
            run.busy = False
        if stored:
            self.runs = [run for run in self.runs if run not in job.runs]
