"""Rewriting a segment without what is dead in it.

The copy keeps the number and gets the next generation: the live blocks, ordered by ledger, and the records about ledgers that must
not be forgotten (CREATED and SEALED of living ones; DELETED while a CREATED record of that ledger is left somewhere). It is written
under another name, synced, renamed; only then does the older generation go. Indexes stay right, since they name segments by number
and positions come from the footer.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from messaging.storage.local import digest, records
from messaging.storage.local.digest import Digest, Events
from messaging.storage.local.disk import DiskFile
from messaging.storage.local.intact import own_records
from messaging.storage.local.log import Log
from messaging.storage.local.pace import Pace
from messaging.storage.local.reader import GAP_BYTES_MAX
from messaging.storage.local.records import CREATED, DELETED, SEALED, CommitHeader, seed_of
from messaging.storage.local.sealing import with_footer
from messaging.storage.local.segment import PAGE_BYTES, SEAL_OFFSET, Segment, head_page, name_of, seal_bytes
from messaging.storage.local.state import ROW, Runs

COMMIT_BYTES_MAX = 256 << 10
READ_BYTES_MAX = 256 << 10  # as for readers: commits wait for the same disk
SYNC_BYTES = 4 << 20  # made durable at once: commits wait for the same disk


class Interrupted(Exception):
    """The log is being stopped: the copy is given up."""


class Damaged(Exception):
    """A live record does not match its checksum: its segment is kept as it is."""


class Rewrite:
    """Copies what lives in `segment` to its next generation."""

    def __init__(self, log: Log, segment: Segment, table: Digest, file: DiskFile) -> None:
        self._log = log
        self._old = segment
        self._table = table
        self._file = file
        generation = segment.generation + 1
        path = segment.path.with_name(name_of(segment.number, generation))
        seed = seed_of(log.store_id, segment.number, generation)
        self._new = Segment(segment.number, generation, path, seed, 0)
        self._parts: list[bytes] = []
        self._bytes = 0
        self._offset = PAGE_BYTES
        self._sequence = log.epoch << 40
        self._unsynced = 0
        self._pace = Pace(log.config.rewrite_bytes_per_s, lambda: log.stopping or log.short_of_space())
        self._runs: list[Runs] = []
        self.created: Container[int] = ()  # ledgers whose CREATED record was copied

    def run(self) -> Segment:
        """The new segment, durable under its name. All that was copied counts as living: what was deleted since will be settled.

        Blocks, long. Raises `Interrupted`, `Damaged` and `OSError`."""
        log, new = self._log, self._new
        temporary = new.path.with_name(new.path.name + ".rewrite")
        self._out = log.disk.open(temporary, create=True, truncate=True)
        try:
            self._out.write([head_page(log.store_id, new.number, new.generation, recycled=False)], 0)
            events = self._events()
            self.created = events.created.keys()
            for at, ledger_id in enumerate(self._table.ledgers):
                if log.alive(ledger_id) and self._table.rows_at(at):
                    self._ledger(at, ledger_id)
            self._commit()
            self._finish(events)
        except BaseException:
            log.disk.remove(temporary)
            raise
        finally:
            self._out.close()
        log.disk.rename(temporary, new.path)
        log.disk.sync_directory(log.directory)
        return new

    def _events(self) -> Events:
        log, old = self._log, self._table.events
        # A ledger created and deleted here leaves neither record; one created elsewhere keeps its DELETED.
        graves = dict(log.graves)
        kept = Events(
            {ledger_id: properties for ledger_id, properties in old.created.items() if log.alive(ledger_id)},
            {ledger_id: end for ledger_id, end in old.sealed.items() if log.alive(ledger_id)},
            [ledger_id for ledger_id in old.deleted if graves.get(ledger_id, (self._old.number,))[0] != self._old.number],
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
        runs = Runs(ledger_id, self._new.number, -1, 0, self._table.links[at])
        rows = self._table.rows_at(at)
        index = 0
        while index < len(rows):
            begin = rows[index + 1] >> 32
            stop = begin
            first = index
            while index < len(rows) and (rows[index + 1] >> 32) - stop <= GAP_BYTES_MAX and stop - begin < READ_BYTES_MAX:
                stop = (rows[index + 1] >> 32) + (rows[index + 1] & 0xFFFFFFFF)
                index += ROW
            view = memoryview(self._file.read(stop - begin, begin))
            for row in range(first, index, ROW):
                start = (rows[row + 1] >> 32) - begin
                self._run(view, start, start + (rows[row + 1] & 0xFFFFFFFF), runs)
        if runs.record_bytes != self._table.record_bytes[at]:
            raise Damaged(f"ledger {ledger_id} is damaged in {self._old.path}: the segment is kept as it is")
        runs.last_entry, runs.length_bytes = self._table.last_entries[at], self._table.length_bytes[at]
        self._runs.append(runs)

    def _run(self, view: memoryview, start: int, end: int, runs: Runs) -> None:
        for record in own_records(view, start, end, runs.ledger_id, self._old.seed):
            body = bytes(view[record.start + records.CRC.size : record.stop])
            copy = records.CRC.pack(records.checksum(body, self._new.seed)) + body
            if self._bytes + len(copy) > COMMIT_BYTES_MAX:
                self._commit()
            offset = self._offset + records.COMMIT_BYTES + self._bytes
            last = record.first_entry + record.entries - 1
            size = record.stop - record.data_start
            runs.add(last, record.first_entry, offset, len(copy), size, self._log.config.run_bytes_max)
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
            self._sequence, self._log.epoch, new.number, self._offset, new.number, self._offset, self._bytes, len(self._parts)
        )
        self._out.write([b"".join([records.encode_commit(new.seed, header), *self._parts])], self._offset)
        size = records.COMMIT_BYTES + self._bytes
        self._offset += size
        self._parts, self._bytes = [], 0
        self._unsynced += size
        if self._unsynced >= SYNC_BYTES:
            self._out.sync()
            self._unsynced = 0
        self._pace.pause(size)
        if self._log.stopping:
            raise Interrupted

    def _finish(self, events: Events) -> None:
        new = self._new
        new.data_stop = new.footer_offset = self._offset
        content = digest.footer((new.number, PAGE_BYTES, self._offset, 0), self._runs, events)
        new.live_bytes = sum(content.record_bytes)
        new.overhead_bytes = content.overhead_bytes = new.data_bytes - new.live_bytes
        new.events = events.count
        footer = records.encode(new.seed, records.FOOTER, -1, -1, b"", digest.encode(content))
        self._out.write([footer], self._offset)
        self._out.write([seal_bytes(with_footer(new, len(footer)))], SEAL_OFFSET)
        self._out.sync()  # all of it stands before the file gets its name
        new.footer_bytes = len(footer)
        new.size_bytes = self._offset + len(footer)
