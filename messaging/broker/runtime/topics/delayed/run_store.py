"""Stores the index of a topic's delayed messages: its runs are ledgers that the topic's record names. Sorting and packing is done
in threads, which import numpy; nothing here blocks the loop.

A run is written, sealed, and then named by the record in place of what it replaces; what is replaced is deleted last. A crash
leaves a ledger that nothing names, which the next start collects.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog
from msgspec import structs

from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.run_index import RunIndex
from messaging.broker.core.delayed.run_jobs import Directory, Drop, Head, Job, Load, Merge, Rewrite, Seal, StoredRun
from messaging.broker.runtime.topics.delayed import run_entries, run_threads
from messaging.storage.ledger_store import Corrupt, LedgerWriter, NoSuchEntry, NoSuchLedger, StoreError
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.meta_store import DelayedRun

log = structlog.get_logger("broker.delayed")

FED_BLOCKS = 8  # of each run that is merged, at a time
GONE = (Corrupt, NoSuchEntry, NoSuchLedger)


class RunStore:
    def __init__(self, ledger: ManagedLedger, tenant: str) -> None:
        self._ledger = ledger
        self._storage = ledger.storage
        self._properties = {"tenant": tenant}

    # --- at the start of a topic

    async def restore(self, index: RunIndex) -> None:
        """Hands over what the record names. A run whose directory is lost is dropped: reading finds its messages. Raises
        `StoreError`."""
        lost = []
        for record in self._ledger.record.delayed_runs:
            try:
                directory = await self._directory(record)
            except (*GONE, ValueError) as error:
                self._damaged(record, error)
                lost.append(record)
                continue
            index.restore(record, directory.starts, directory.entries, directory.bitmaps)
        if lost:
            await self._replace(lost, [])

    async def _directory(self, record: DelayedRun) -> Directory:
        parts = await self._read(record.directory_id, record.directory_entry, None)
        return await asyncio.to_thread(run_threads.directory_of, parts)

    # --- jobs; what they raise is `StoreError`. The index was told then, but of a `Load`, which the caller puts off

    async def do(self, index: RunIndex, job: Job) -> EntrySets:
        """Returns entries of which it is not known any more when they are due, because storage is damaged. They are not pending
        any more."""
        if isinstance(job, Load):
            return await self._load(index, job)
        if isinstance(job, Seal):
            await self._seal(index, job)
        elif isinstance(job, Merge):
            return await self._merge(index, job)
        elif isinstance(job, Rewrite):
            await self._rewrite(index, job)
        else:
            await self._drop(index, job)
        return {}

    async def _load(self, index: RunIndex, job: Load) -> EntrySets:
        run, head, lost = job.run, None, EntrySets()
        try:
            head = await self._head(run, job.block)
        except (*GONE, ValueError) as error:
            if any(record.ledger_id == run.record.ledger_id for record in self._ledger.record.delayed_runs):  # else it was merged
                lost = await self._lost(index, run, job.block, error)
        index.loaded(job, head)
        return lost

    async def _head(self, run: StoredRun, block: int) -> Head:
        data = await self._read(run.record.ledger_id, block, block)
        return await asyncio.to_thread(run_threads.head_of, data[0])

    async def _seal(self, index: RunIndex, job: Seal) -> None:
        run = None
        try:
            made = await asyncio.to_thread(run_threads.sealed, job)
            run = await self._stored(made.blocks, made.directory, [])
        finally:
            index.sealed(job, run)

    async def _merge(self, index: RunIndex, job: Merge) -> EntrySets:
        run, stored, lost = None, False, EntrySets()
        try:
            writer = await self._create()
            try:
                directory, blocks, lost = await self._merge_into(writer, index, job)
                former = [merged.record for merged in job.runs]
                if directory.entries:
                    run = await self._end(writer, blocks, directory, former)
                else:
                    await self._replace(former, [])
            finally:
                if run is None:
                    self._leave(writer)
            stored = True
        finally:
            index.merged(job, run, stored=stored)
        return lost

    async def _merge_into(self, writer: LedgerWriter, index: RunIndex, job: Merge) -> tuple[Directory, int, EntrySets]:
        merge = await asyncio.to_thread(run_threads.merge_of, len(job.runs), job.after_ms, self._ledger.ledger_list.first_id)
        at, lost, blocks = [run.first_block for run in job.runs], EntrySets(), 0
        while True:
            fed = []
            for source in merge.hungry:
                run, first = job.runs[source], at[source]
                at[source] = stop = min(first + FED_BLOCKS, len(run.starts))
                data, bitmaps = await self._blocks(index, run, first, stop)
                for ledger_id, entries in bitmaps.items():
                    entry_sets.add(lost, ledger_id, entries)
                fed.append((source, data, stop == len(run.starts)))
            made = await asyncio.to_thread(run_threads.fed, merge, fed)
            await run_entries.append(writer, made)
            blocks += len(made)
            if not merge.hungry:
                break
        last, directory = await asyncio.to_thread(merge.end)
        await run_entries.append(writer, last)
        return directory, blocks + len(last), lost

    async def _blocks(self, index: RunIndex, run: StoredRun, first: int, stop: int) -> tuple[list[bytes], EntrySets]:
        """Blocks of a run, without those that cannot be read; and what was lost with those."""
        if first >= stop:
            return [], {}
        try:
            data = await self._read(run.record.ledger_id, first, stop - 1)
            await asyncio.to_thread(run_threads.check, data)
            return data, {}
        except (*GONE, ValueError) as error:
            if stop - first == 1:
                return [], await self._lost(index, run, first, error)
        blocks: list[bytes] = []
        lost = EntrySets()
        for block in range(first, stop):
            data, more = await self._blocks(index, run, block, block + 1)
            blocks += data
            for ledger_id, entries in more.items():
                entry_sets.add(lost, ledger_id, entries)
        return blocks, lost

    async def _rewrite(self, index: RunIndex, job: Rewrite) -> None:
        former, record, first_block = job.run.record, None, job.run.first_block  # what is released meanwhile is named still
        try:
            entries = await self._entries_of(job.run, first_block)
            if entries is None:  # it stays as it is until as much was released again
                job.run.directory_entries = job.run.left
                return
            left = entry_sets.common(entries, index.pending)
            writer = await self._create()
            try:
                count = sum(map(len, left.values()))
                packed = await asyncio.to_thread(run_threads.packed, Directory(count, job.run.starts, left))
                await run_entries.append(writer, run_entries.parts(packed))
                await writer.close()
                made = structs.replace(former, directory_id=writer.ledger_id, directory_entry=0, first_block=first_block)
                await self._replace([former], [made])
                record = made
            finally:
                if record is None:
                    self._leave(writer)
        finally:
            index.rewritten(job, record)

    async def _entries_of(self, run: StoredRun, first_block: int) -> EntrySets | None:
        """As the blocks from `first_block` on have them: the directory may name others of which a block before that was passed, and
        which are pending again since. None: some cannot be read, and must not be left out."""
        of_run = EntrySets()
        for first in range(first_block, len(run.starts), FED_BLOCKS):
            try:
                data = await self._read(run.record.ledger_id, first, min(first + FED_BLOCKS, len(run.starts)) - 1)
                for ledger_id, entries in (await asyncio.to_thread(run_threads.entries_of, *data)).items():
                    entry_sets.add(of_run, ledger_id, entries)
            except (*GONE, ValueError):
                return None
        return of_run

    async def _drop(self, index: RunIndex, job: Drop) -> None:
        stored = False
        try:
            await self._replace([run.record for run in job.runs], [])
            stored = True
        finally:
            index.dropped(job, stored=stored)

    async def block(self, run: StoredRun, block: int) -> bytes | None:
        """None: it is damaged. Raises `StoreError`."""
        try:
            return (await self._read(run.record.ledger_id, block, block))[0]
        except Corrupt:
            return None

    # --- damage

    async def _lost(self, index: RunIndex, run: StoredRun, block: int, error: Exception) -> EntrySets:
        """What only block `block` of this run tells the times of: of the pending entries of its directory those that no other block
        has. They are taken out of the index."""
        self._damaged(run.record, error)
        try:
            missing = (await self._directory(run.record)).bitmaps
        except (*GONE, ValueError) as also:  # nothing tells what was in it: everything is looked at
            self._damaged(run.record, also)
            missing = entry_sets.copied(index.pending)
        missing = entry_sets.common(missing, index.pending)
        for other in range(run.first_block, len(run.starts)):
            if other != block:
                try:
                    data = await self._read(run.record.ledger_id, other, other)
                    entry_sets.take(missing, await asyncio.to_thread(run_threads.entries_of, data[0]))
                except (*GONE, ValueError):
                    continue
        return entry_sets.take(index.pending, missing)

    def _damaged(self, record: DelayedRun, error: Exception) -> None:
        self._storage.damage["delayed"] += 1
        log.error("delayed.damaged", topic=self._ledger.record.name, ledger_id=record.ledger_id, error=str(error))

    # --- reading and writing

    async def _read(self, ledger_id: int, first: int, last: int | None) -> list[bytes]:
        return await run_entries.read(self._storage.ledgers, ledger_id, first, last)

    async def _create(self) -> LedgerWriter:
        fence = self._storage.fence
        return await self._storage.ledgers.create(fence, await self._storage.meta.next_ledger_id(fence), self._properties)

    async def _stored(self, blocks: list[bytes], directory: Directory, former: list[DelayedRun]) -> StoredRun:
        writer = await self._create()
        run = None
        try:
            await run_entries.append(writer, blocks)
            run = await self._end(writer, len(blocks), directory, former)
        finally:
            if run is None:
                self._leave(writer)
        return run

    async def _end(self, writer: LedgerWriter, blocks: int, directory: Directory, former: list[DelayedRun]) -> StoredRun:
        """Its blocks are written: it takes the place of `former`."""
        await run_entries.append(writer, run_entries.parts(await asyncio.to_thread(run_threads.packed, directory)))
        info = await writer.close()
        ledger_id = writer.ledger_id
        record = DelayedRun(ledger_id, directory.entries, ledger_id, blocks, length_bytes=info.length_bytes)
        await self._replace(former, [record])
        return StoredRun(record, directory.starts, directory.entries)

    async def _replace(self, former: list[DelayedRun], new: list[DelayedRun]) -> None:
        gone = {run.ledger_id for run in former}
        await self._ledger.update(
            lambda record: replace(record, delayed_runs=(*(run for run in record.delayed_runs if run.ledger_id not in gone), *new))
        )
        kept = {ledger_id for made in new for ledger_id in made.ledger_ids}
        await self._delete([ledger_id for run in former for ledger_id in run.ledger_ids if ledger_id not in kept])

    def _leave(self, writer: LedgerWriter) -> None:
        """What was not completed. Nobody may know whether the topic's record names it: it is deleted once that is known."""
        self._storage.leave(writer.ledger_id, self._ledger.record.name)

    async def _delete(self, ledger_ids: list[int]) -> None:
        for ledger_id in ledger_ids:
            try:
                await self._storage.delete_ledger(ledger_id)
            except StoreError as error:  # nothing refers to it: the next start collects it
                log.warning("delayed.left", ledger_id=ledger_id, error=str(error))
