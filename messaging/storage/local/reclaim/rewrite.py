"""Rewrites a segment without its dead records.

The copy keeps the segment's number and gets the next generation. It holds the live blocks, ordered by ledger, and the ledger
records that must be kept: CREATED and SEALED of living ledgers; DELETED as long as a CREATED record of that ledger exists in some
segment. It is written under a temporary name, synced and renamed; only then is the older generation removed. Indexes stay valid,
because they refer to segments by number and take offsets from the footer.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from messaging.storage.local.background import BackgroundThreads
from messaging.storage.local.device.disk import DiskFile
from messaging.storage.local.environment import LogEnvironment
from messaging.storage.local.format import records, summary
from messaging.storage.local.format.extents import EXTENT_WIDTH, Extents
from messaging.storage.local.format.records import CREATED, DELETED, SEALED, CommitHeader, seed_of
from messaging.storage.local.format.segment import PAGE_BYTES, SEAL_OFFSET, Segment, header_page, name_of, seal_bytes
from messaging.storage.local.format.summary import Events, SegmentSummary
from messaging.storage.local.ledgers import LedgerTable
from messaging.storage.local.read.gathered_blocks import GAP_BYTES_MAX
from messaging.storage.local.read.ledger_scan import own_records
from messaging.storage.local.reclaim.rate_limiter import RateLimiter
from messaging.storage.local.write.allocator import SegmentAllocator
from messaging.storage.local.write.seal import with_footer

COMMIT_BYTES_MAX = 256 << 10
READ_BYTES_MAX = 256 << 10  # bytes per read, as for readers: commits wait for the same disk
SYNC_BYTES = 4 << 20  # bytes per sync: commits wait for the same disk


class Interrupted(Exception):
    """The log is being stopped: the copy is abandoned."""


class Damaged(Exception):
    """A live record does not match its checksum: the segment is kept unchanged."""


class SegmentRewrite:
    """Copies the live records of `segment` to its next generation."""

    def __init__(
        self,
        environment: LogEnvironment,
        ledgers: LedgerTable,
        background: BackgroundThreads,
        allocator: SegmentAllocator,
        segment: Segment,
        footer: SegmentSummary,
        file: DiskFile,
    ) -> None:
        self._environment = environment
        self._ledgers = ledgers
        self._background = background
        self._old = segment
        self._footer = footer
        self._file = file
        generation = segment.generation + 1
        path = segment.path.with_name(name_of(segment.number, generation))
        seed = seed_of(environment.store_id, segment.number, generation)
        self._new = Segment(segment.number, generation, path, seed, 0)
        self._parts: list[bytes] = []
        self._bytes = 0
        self._offset = PAGE_BYTES
        self._sequence = environment.epoch << 40
        self._unsynced = 0
        self._rate_limiter = RateLimiter(
            environment.config.rewrite_bytes_per_s, lambda: background.stopping or allocator.short_of_space()
        )
        self._extents: list[Extents] = []
        self.created: Container[int] = ()  # ledgers whose CREATED record was copied

    def run(self) -> Segment:
        """Returns the new segment, durable under its final name. Everything copied counts as live; deletes since then are counted
        later.

        Blocks for long. Raises `Interrupted`, `Damaged` and `OSError`."""
        new = self._new
        temporary = new.path.with_name(new.path.name + ".rewrite")
        self._out = self._environment.disk.open(temporary, create=True, truncate=True)
        try:
            self._out.write([header_page(self._environment.store_id, new.number, new.generation, recycled=False)], 0)
            events = self._events()
            self.created = events.created.keys()
            for at, ledger_id in enumerate(self._footer.ledgers):
                if self._ledgers.alive(ledger_id) and self._footer.extents_at(at):
                    self._ledger(at, ledger_id)
            self._commit()
            self._finish(events)
        except BaseException:
            self._environment.disk.remove(temporary)
            raise
        finally:
            self._out.close()
        self._environment.disk.rename(temporary, new.path)
        self._environment.disk.sync_directory(self._environment.directory)
        return new

    def _events(self) -> Events:
        old = self._footer.events
        # A ledger created and deleted in this segment leaves neither record; one created elsewhere keeps its DELETED record.
        created_in = {ledger_id: created for ledger_id, (created, _) in dict(self._ledgers.tombstones).items()}
        here = self._old.number
        kept = Events(
            {ledger_id: properties for ledger_id, properties in old.created.items() if self._ledgers.alive(ledger_id)},
            {ledger_id: end for ledger_id, end in old.sealed.items() if self._ledgers.alive(ledger_id)},
            [ledger_id for ledger_id in old.deleted if created_in.get(ledger_id, here) != here],
        )
        seed = self._new.seed
        for ledger_id, properties in kept.created.items():
            self._add(records.encode(seed, CREATED, ledger_id, -1, msgspec.msgpack.encode(properties)))
        for ledger_id, (last_entry, length) in kept.sealed.items():
            self._add(records.encode(seed, SEALED, ledger_id, last_entry, records.LENGTH.pack(length)))
        for ledger_id in kept.deleted:
            self._add(records.encode(seed, DELETED, ledger_id, -1, b""))
        self._commit()
        return kept

    def _ledger(self, at: int, ledger_id: int) -> None:
        extents = Extents(ledger_id, self._new.number, -1, 0, self._footer.previous_segments[at])
        table = self._footer.extents_at(at)
        index = 0
        while index < len(table):
            begin = table[index + 1] >> 32
            stop = begin
            first = index
            while index < len(table) and (table[index + 1] >> 32) - stop <= GAP_BYTES_MAX and stop - begin < READ_BYTES_MAX:
                stop = (table[index + 1] >> 32) + (table[index + 1] & 0xFFFFFFFF)
                index += EXTENT_WIDTH
            view = memoryview(self._file.read(stop - begin, begin))
            for row in range(first, index, EXTENT_WIDTH):
                start = (table[row + 1] >> 32) - begin
                self._run(view, start, start + (table[row + 1] & 0xFFFFFFFF), extents)
        if extents.record_bytes != self._footer.record_bytes[at]:
            raise Damaged(f"ledger {ledger_id} is damaged in {self._old.path}: the segment is kept as it is")
        extents.last_entry, extents.length_bytes = self._footer.last_entries[at], self._footer.length_bytes[at]
        self._extents.append(extents)

    def _run(self, view: memoryview, start: int, end: int, extents: Extents) -> None:
        for record in own_records(view, start, end, extents.ledger_id, self._old.seed):
            body = bytes(view[record.start + records.CRC.size : record.stop])
            copy = records.CRC.pack(records.checksum(body, self._new.seed)) + body
            if self._bytes + len(copy) > COMMIT_BYTES_MAX:
                self._commit()
            offset = self._offset + records.COMMIT_BYTES + self._bytes
            last = record.first_entry + record.entries - 1
            size = record.stop - record.data_start
            extents.add(last, record.first_entry, offset, len(copy), size, self._environment.config.extent_bytes_max)
            self._add(copy)

    def _add(self, record: bytes) -> None:
        self._parts.append(record)
        self._bytes += len(record)

    def _commit(self) -> None:
        if not self._parts:
            return
        self._sequence += 1
        new = self._new
        header = CommitHeader(
            self._sequence,
            self._environment.epoch,
            new.number,
            self._offset,
            new.number,
            self._offset,
            self._bytes,
            len(self._parts),
        )
        self._out.write([b"".join([records.encode_commit(new.seed, header), *self._parts])], self._offset)
        size = records.COMMIT_BYTES + self._bytes
        self._offset += size
        self._parts, self._bytes = [], 0
        self._unsynced += size
        if self._unsynced >= SYNC_BYTES:
            self._out.sync()
            self._unsynced = 0
        self._rate_limiter.pause(size)
        if self._background.stopping:
            raise Interrupted

    def _finish(self, events: Events) -> None:
        new = self._new
        new.data_stop = new.footer_offset = self._offset
        content = summary.footer((new.number, PAGE_BYTES, self._offset, 0), self._extents, events)
        new.live_bytes = sum(content.record_bytes)
        new.overhead_bytes = content.overhead_bytes = new.data_bytes - new.live_bytes
        new.events = events.count
        footer = records.encode(new.seed, records.FOOTER, -1, -1, b"", summary.encode(content))
        self._out.write([footer], self._offset)
        self._out.write([seal_bytes(with_footer(new, len(footer)))], SEAL_OFFSET)
        self._out.sync()  # the contents must be durable before the rename
        new.footer_bytes = len(footer)
        new.size_bytes = self._offset + len(footer)
