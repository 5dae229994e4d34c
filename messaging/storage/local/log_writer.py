"""The log thread: takes commits one after another, writes each in one piece, makes it durable with one sync.

Everything about the log's end happens here: which segment is written, checkpoints, the index of what was written. An error of a
write or a sync ends the store: after a failed fdatasync the kernel may have dropped the pages, and a later success proves nothing.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from operator import itemgetter

from crc32c import crc32c

from messaging.storage.local import digest, records
from messaging.storage.local.active import ActiveSegment
from messaging.storage.local.commit_queue import Committed, Item
from messaging.storage.local.config import Durability, LocalConfig
from messaging.storage.local.log import Log
from messaging.storage.local.priority import go_back, go_first
from messaging.storage.local.records import (
    BLOCK,
    BODY,
    CHECKPOINT,
    COMMIT_BYTES,
    CRC,
    CREATED,
    DELETED,
    KEEP_TURN,
    SEALED,
    CommitHeader,
)
from messaging.storage.local.segment_files import NoSpace
from messaging.storage.local.state import LedgerState
from messaging.storage.seam import Buffer, DiskFull, StoreError, Unavailable

pack_crc = CRC.pack
stops_bytes = records.stops_bytes

JOINED_PART_BYTES = 4096  # parts that are smaller on average are put together first: handing over each costs more than its copy
SMALL_BYTES = 1024  # of a block: one checksum and one buffer more cost more than its copy

READING_S = 1.0  # for so long after a read there may be more

Job = Callable[[], None]


class LogWriter:
    """`deliver` is called in the thread, once a commit."""

    def __init__(self, log: Log, config: LocalConfig, active: ActiveSegment, deliver: Callable[[Committed], None]) -> None:
        self.failed: StoreError | None = None
        self.syncs = 0
        self.sync_s = 0.0
        self.written_bytes = 0
        self._log = log
        self._config = config
        self._active = active
        self._deliver = deliver
        self._sync = config.durability is Durability.SYNC
        self._synced = (active.segment.number, active.offset)
        self._wanted_first = self._first = False
        self._buried: list[LedgerState] = []  # deleted by the commit being written
        self._jobs: queue.SimpleQueue[list[Item] | Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ledger-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def commit(self, items: list[Item]) -> None:
        self._jobs.put(items)

    def post(self, job: Job) -> None:
        """Runs `job` in the log thread, between commits. It must be short."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Ends the thread after what is queued. Blocks."""
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join()
        self._active.file.close()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if isinstance(job, list):
                self._take_precedence()
                self._deliver(self._commit(job))
            else:
                try:
                    job()
                except Exception as error:
                    self._fail(error)
            del job  # while it waits, the thread holds on to nothing of the last commit

    def _take_precedence(self) -> None:
        """Beside readers of the disk this thread goes first, where it may: see `priority.py`."""
        wanted = time.monotonic() - self._log.read_s < READING_S
        if wanted != self._wanted_first:
            self._wanted_first = wanted
            if wanted:
                self._first = go_first()
            elif self._first:
                go_back()

    def _commit(self, items: list[Item]) -> Committed:
        if self.failed is not None:
            return Committed(items, [], self.failed)
        refused: list[tuple[Item, StoreError]] = []
        try:
            items, refused = self._admit(items)
            if items:
                self._write(items)
        except Exception as error:
            return Committed(items, refused, self._fail(error))
        return Committed(items, refused, None)

    def _fail(self, error: Exception) -> StoreError:
        if self.failed is None:
            self.failed = Unavailable(f"the log in {self._log.directory} failed and takes nothing more until a restart: {error!r}")
            self._log.report("failed", str(self.failed))
        return self.failed

    def _admit(self, items: list[Item]) -> tuple[list[Item], list[tuple[Item, StoreError]]]:
        """Finds room for `items`; refuses what would take the space that is kept for cursors, seals and deletes."""
        need = sum(map(_size_of, items))
        if self._room(need) >= self._config.reserved_bytes or self._log.grow(need):
            if self._fits(need):
                return items, []
        elif any(_ordinary(item) for item in items):
            kept = [item for item in items if not _ordinary(item)]
            reason = f"the disk under {self._log.directory} is full: free some space; appending goes on by itself"
            refused: list[tuple[Item, StoreError]] = [
                (item, DiskFull(reason, item[0].ledger_id)) for item in items if _ordinary(item)
            ]
            return self._admit_reserved(kept, refused)
        return self._admit_reserved(items, [])

    def _admit_reserved(
        self, items: list[Item], refused: list[tuple[Item, StoreError]]
    ) -> tuple[list[Item], list[tuple[Item, StoreError]]]:
        need = sum(map(_size_of, items))
        if not need or self._fits(need):
            return items, refused
        try:
            self._roll(need)
        except NoSpace as error:
            reason = f"the disk under {self._log.directory} is full, the kept space too: {error}"
            return [], refused + [(item, DiskFull(reason, item[0].ledger_id)) for item in items]
        return items, refused

    def _left(self) -> int:
        """Bytes that commits may still take in the active segment."""
        active = self._active
        return active.segment.size_bytes - active.offset - active.footer_bytes()

    def _room(self, need: int) -> int:
        return self._left() + self._log.spare_bytes() - need

    def _fits(self, need: int) -> bool:
        # Twice the footer: a checkpoint in this commit may take as much again.
        return self._left() - self._active.footer_bytes() >= need + COMMIT_BYTES + records.FIXED_BYTES + need // 8

    def _roll(self, need: int) -> None:
        old = self._active
        segment, file = self._log.next_segment(need + need // 4 + (16 << 10))
        old.segment.data_stop = old.offset
        self._active = ActiveSegment(segment, file, self._config.run_bytes_max)
        # `_synced` stays: the first commit of the new segment says how far the old one must be whole.
        self._log.seal_later(old)

    def _write(self, items: list[Item]) -> None:
        active = self._active
        checkpoint = b""
        if active.offset - active.checkpoint_start >= self._config.checkpoint_bytes:
            checkpoint = records.encode(active.segment.seed, CHECKPOINT, -1, -1, b"", digest.encode(active.checkpoint()))
            active.checkpointed(active.offset)
        start = active.offset
        parts, size, count = self._encode(items, start + COMMIT_BYTES + len(checkpoint))
        if not count:
            return  # only waiters
        size += len(checkpoint)
        header = CommitHeader(
            self._log.next_sequence(), self._log.epoch, active.segment.number, start, *self._synced, size, count + bool(checkpoint)
        )
        parts[:0] = [records.encode_commit(active.segment.seed, header), checkpoint]
        size += COMMIT_BYTES
        buffers = [b"".join(parts)] if size < JOINED_PART_BYTES * len(parts) else parts
        active.offset = start + size
        self.written_bytes += size
        if self._sync:
            began = time.perf_counter()
            active.file.write_synced(buffers, start, active.ahead(active.offset, size))
            self.sync_s += time.perf_counter() - began
            self.syncs += 1
            self._synced = (active.segment.number, active.offset)
        else:
            active.file.write(buffers, start)
        if checkpoint:
            self._log.hints.note(active.segment, start)
        if self._buried:
            buried, self._buried = self._buried, []
            for state in buried:
                self._log.bury(state, active.segment.number)
            self._log.reclaim_later()

    def _encode(self, items: list[Item], offset: int) -> tuple[list[Buffer], int, int]:
        """(buffers, bytes, records) of `items`, whose first record will stand at `offset`; indexes them."""
        active = self._active
        seed = active.segment.seed
        begin = offset
        parts: list[Buffer] = []
        count = 0
        append, pack, run_bytes_max = parts.append, BODY.pack, active.run_bytes_max
        # Blocks of one ledger that follow each other are indexed as one.
        following: LedgerState | None = None
        following_from = following_first = following_bytes = following_entries = 0
        for state, _, header, data, stops, first, size in items:
            if state is not following or stops is None or offset + size - following_from > run_bytes_max:
                if following is not None:
                    active.block(
                        following, following_first, following_entries, following_from, offset - following_from, following_bytes
                    )
                    following = None
                if stops is None:
                    record = self._control(state, first, header, seed)
                    if record:
                        parts.append(record)
                        count += 1
                        offset += len(record)
                    continue
                following, following_from, following_first = state, offset, first
                following_bytes = following_entries = 0
            data_bytes = len(data)
            entries = len(stops)
            body = pack(BLOCK, 0, 0, state.ledger_id, first, entries, len(header), data_bytes) + header + stops_bytes(stops)
            if data_bytes <= SMALL_BYTES:
                body += data
                append(pack_crc(crc32c(body, seed)) + body)
            else:
                append(pack_crc(crc32c(data, crc32c(body, seed), KEEP_TURN)) + body)
                append(data)
            following_entries += entries
            following_bytes += data_bytes
            offset += size
            count += 1
        if following is not None:
            active.block(following, following_first, following_entries, following_from, offset - following_from, following_bytes)
        return parts, offset - begin, count

    def _control(self, state: LedgerState, type_: int, header: bytes, seed: int) -> bytes:
        active = self._active
        first = -1
        if type_ == CREATED:
            active.created(state, len(header) + 16)
        elif type_ == SEALED:
            first, length = state.written()
            header = records.LENGTH.pack(length)
            active.sealed(state, first, length)
        elif type_ == DELETED:
            active.deleted(state.ledger_id)
            self._buried.append(state)
        else:
            return b""
        return records.encode(seed, type_, state.ledger_id, first, header)


_size_of = itemgetter(6)


def _ordinary(item: Item) -> bool:
    state, _, _, _, stops, type_, _ = item
    return not state.reserved and (stops is not None or type_ == CREATED)
