"""The active segment: its position, and the contents of its next checkpoint and its footer."""

from __future__ import annotations

from messaging.storage.local.device.disk import DiskFile
from messaging.storage.local.format import records
from messaging.storage.local.format import summary as summary
from messaging.storage.local.format.extents import EXTENT_WIDTH, Extents
from messaging.storage.local.format.segment import PAGE_BYTES, Segment
from messaging.storage.local.format.summary import Events, SegmentSummary
from messaging.storage.local.ledger_state import LedgerState

FOOTER_BYTES_MIN = 512 + summary.HEAD.size
PADDING_BYTES = 128 << 10
PADDED_COMMIT_BYTES_MAX = 32 << 10  # larger ones gain little, and writing the zeros would take a good part of the disk's time


class ActiveSegment:
    """Owned by whoever has the log's turn, see `log_thread.py` (by recovery before that)."""

    def __init__(self, segment: Segment, file: DiskFile, extent_bytes_max: int) -> None:
        self.segment = segment
        self.file = file
        self.offset = PAGE_BYTES  # offset of the next commit
        self.checkpoint_start = PAGE_BYTES  # offset of the first commit that no checkpoint covers
        self.checkpoint_previous = 0  # offset of the commit with the last checkpoint
        self.touched: list[Extents] = []
        self.events = Events()  # of the whole segment
        self._recent = Events()  # since the last checkpoint
        self._dirty: list[Extents] = []
        self.mark = 0
        self.table = 0
        self._event_bytes = 0
        self.extent_bytes_max = extent_bytes_max
        self._written = PAGE_BYTES  # end of the pages written so far, zeros included

    def padding(self, stop: int, commit_bytes: int) -> int:
        """The number of zeros to write right after a commit of `commit_bytes` that ends at `stop`.

        The first write to an allocated page updates the file system's metadata, and a recycled page that is not in memory must be
        read before part of it is written: either makes a sync of a few KiB take nearly twice as long. So small commits write some
        pages ahead, once for many commits, and large ones fill the rest of their last page."""
        if stop <= self._written:
            return 0
        until = stop + PADDING_BYTES if commit_bytes <= PADDED_COMMIT_BYTES_MAX else stop
        self._written = min(until + -until % PAGE_BYTES, self.segment.size_bytes)
        return self._written - stop

    def block(self, state: LedgerState, first: int, last: int, offset: int, record_bytes: int, data_bytes: int) -> None:
        """Indexes blocks of `state` that hold entries `first` to `last`, and whose records follow each other from `offset` on."""
        extents = state.extents
        if extents is None or extents.dirty_mark != self.mark or extents.segment != self.segment.number:
            extents = self.touch(state)
        self.table += extents.add(last, first, offset, record_bytes, data_bytes, self.extent_bytes_max)
        self.segment.live_bytes += record_bytes

    def touch(self, state: LedgerState) -> Extents:
        """Returns the extents of `state` in this segment, marked for the next checkpoint."""
        number = self.segment.number
        extents = state.extents
        if extents is None or extents.segment != number:
            extents = state.extents_in(number)
            self.touched.append(extents)
        if extents.dirty_mark != self.mark:
            extents.dirty_mark = self.mark
            extents.dirty_from = max(0, len(extents.table) - 2)  # the last extent may still grow
            self._dirty.append(extents)
        return extents

    def created(self, state: LedgerState, size_bytes: int) -> None:
        state.created_segment = self.segment.number
        self.segment.live_events += 1
        self.events.created[state.ledger_id] = state.properties
        self._recent.created[state.ledger_id] = state.properties
        self._event_bytes += size_bytes

    def sealed(self, state: LedgerState, last_entry: int, length_bytes: int) -> None:
        state.sealed_segment = self.segment.number
        self.segment.live_events += 1
        self.events.sealed[state.ledger_id] = self._recent.sealed[state.ledger_id] = (last_entry, length_bytes)
        self._event_bytes += 32

    def deleted(self, ledger_id: int) -> None:
        self.events.deleted.append(ledger_id)
        self._recent.deleted.append(ledger_id)
        self._event_bytes += 10

    def footer_bytes(self) -> int:
        """An upper bound of the footer's size, so that it fits into the allocated file."""
        return FOOTER_BYTES_MIN + records.FIXED_BYTES + 16 * self.table + 56 * len(self.touched) + self._event_bytes

    def checkpoint(self) -> SegmentSummary:
        """The summary of everything since the last checkpoint. Call `checkpointed` afterwards."""
        place = (self.segment.number, self.checkpoint_start, self.offset, self.checkpoint_previous)
        return summary.checkpoint(place, self._dirty, self._recent)

    def checkpointed(self, commit_offset: int) -> None:
        self.checkpoint_start = self.checkpoint_previous = commit_offset
        self._recent = Events()
        self._dirty = []
        self.mark += 1

    def restore(self, checkpoint: SegmentSummary, states: dict[int, LedgerState]) -> None:
        """Applies a checkpoint of this segment, oldest first, instead of reading the commits that it covers."""
        number = self.segment.number
        live_bytes, begin = 0, 0
        all_rows = checkpoint.table
        for ledger_id, row_stop, last_entry, length_bytes, record_bytes in zip(
            checkpoint.ledgers,
            checkpoint.extent_stops,
            checkpoint.last_entries,
            checkpoint.length_bytes,
            checkpoint.record_bytes,
            strict=True,
        ):
            table = all_rows[begin : EXTENT_WIDTH * row_stop]
            begin = EXTENT_WIDTH * row_stop
            state = states.get(ledger_id)
            if state is None:
                continue
            extents = state.extents
            if extents is None or extents.segment != number:
                extents = state.extents_in(number)
                self.touched.append(extents)
                extents.table = table
            else:
                if extents.table[-2] == table[0]:
                    del extents.table[-2:]  # the extent grew since
                    self.table -= 1
                extents.table.extend(table)
            self.table += len(table) // EXTENT_WIDTH
            live_bytes += record_bytes - extents.record_bytes
            extents.record_bytes = record_bytes
            extents.last_entry = state.last_entry = last_entry
            extents.length_bytes = state.length_bytes = length_bytes
        self.segment.live_bytes += live_bytes
        events = checkpoint.events
        self.events.created.update(events.created)
        self.events.sealed.update(events.sealed)
        self.events.deleted.extend(events.deleted)
        self._event_bytes += events.size_bytes()

    def footer(self) -> SegmentSummary:
        place = (self.segment.number, PAGE_BYTES, self.offset, self.checkpoint_previous)
        made = summary.footer(place, self.touched, self.events)
        made.overhead_bytes = self.segment.data_bytes - sum(made.record_bytes)
        return made
