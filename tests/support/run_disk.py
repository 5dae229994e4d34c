"""Storage of runs in a dictionary: does the jobs of an index of delayed messages, when a test says so."""

from __future__ import annotations

from messaging.broker.core.delayed.run_format import (
    bitmaps_of,
    decode_block,
    decode_directory,
    encode_directory,
    encode_run,
    joined,
    of_arrays,
    of_slot,
)
from messaging.broker.core.delayed.run_head import RunHead
from messaging.broker.core.delayed.run_index import RunIndex
from messaging.broker.core.delayed.run_jobs import Directory, Job, Load, Merge, Rewrite, RunBytes, Seal, StoredRun
from messaging.broker.core.delayed.run_merge import RunMerge
from messaging.storage.meta_store import DelayedRun


class RunDisk:
    """`full`: nothing can be written."""

    def __init__(self) -> None:
        self.runs: dict[int, tuple[list[bytes], bytes]] = {}
        self.recorded: dict[int, DelayedRun] = {}
        self.full = False
        self._ids = 1000

    def jobs(self, index: RunIndex, now_ms: int) -> list[Job]:
        possible = (index.seal(now_ms), index.merge(), index.rewrite(), index.drop())
        return [*index.loads(max(now_ms, index.releasing_ms)), *(job for job in possible if job is not None)]

    def work(self, index: RunIndex, now_ms: int) -> int:
        """Does all jobs until there are none. Returns how many those were."""
        count = 0
        while jobs := self.jobs(index, now_ms):
            for job in jobs:
                self.do(index, job)
            count += len(jobs)
            if self.full:
                break
        return count

    def do(self, index: RunIndex, job: Job) -> None:
        if isinstance(job, Load):
            stored = self.runs.get(job.run.record.ledger_id)  # it may have been merged meanwhile
            index.loaded(job, None if stored is None else RunHead.of_block(stored[0][job.block]))
        elif isinstance(job, Seal):
            parts = [of_arrays(chunk.times, chunk.positions) for chunk in job.chunks] + [of_slot(slot) for slot in job.slots]
            index.sealed(job, None if self.full else self.write(encode_run(parts)))
        elif isinstance(job, Merge):
            self._merge(index, job)
        elif isinstance(job, Rewrite):
            self._rewrite(index, job)
        else:
            for run in job.runs:
                self._delete(run)
            index.dropped(job, stored=True)

    def _merge(self, index: RunIndex, job: Merge) -> None:
        if self.full:
            index.merged(job, None, stored=False)
            return
        merge, at, blocks = RunMerge(len(job.runs), job.after_ms, 0), [run.first_block for run in job.runs], []
        while hungry := merge.hungry:
            for source in hungry:
                stored = self.runs[job.runs[source].record.ledger_id][0]
                if at[source] < len(stored):
                    merge.feed(source, [stored[at[source]]])
                else:
                    merge.end_of(source)
                at[source] += 1
            if not merge.hungry:
                blocks += merge.take()
        blocks += merge.take()
        last, directory = merge.end()
        run = self.write(RunBytes(blocks + last, directory)) if directory.entries else None
        for merged in job.runs:
            self._delete(merged)
        index.merged(job, run, stored=True)

    def _rewrite(self, index: RunIndex, job: Rewrite) -> None:
        run = job.run
        blocks, stored = self.runs[run.record.ledger_id]
        directory = decode_directory(stored)
        named = bitmaps_of(joined([decode_block(block) for block in blocks[run.first_block :]]).positions)
        left = {ledger: entries & index.pending[ledger] for ledger, entries in named.items() if ledger in index.pending}
        count = sum(map(len, left.values()))
        self.runs[run.record.ledger_id] = blocks, encode_directory(Directory(count, directory.starts, left))
        self.recorded[run.record.ledger_id] = record = DelayedRun(run.record.ledger_id, count, 0, 0, run.first_block)
        index.rewritten(job, record)

    def write(self, run: RunBytes) -> StoredRun:
        self._ids += 1
        self.runs[self._ids] = run.blocks, encode_directory(run.directory)
        self.recorded[self._ids] = record = DelayedRun(self._ids, run.directory.entries, self._ids, len(run.blocks))
        return StoredRun(record, run.directory.starts, run.directory.entries)

    def _delete(self, run: StoredRun) -> None:
        del self.runs[run.record.ledger_id], self.recorded[run.record.ledger_id]

    def restored(self, resolution_ms: int, seal_entries: int) -> RunIndex:
        """What an owner finds that knows the disk alone."""
        index = RunIndex(resolution_ms, seal_entries)
        for ledger_id, record in self.recorded.items():
            directory = decode_directory(self.runs[ledger_id][1])
            index.restore(record, directory.starts, directory.entries, directory.bitmaps)
        return index
