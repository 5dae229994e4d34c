"""Opens a log: reads the snapshot of its index, then the footers of sealed segments that the snapshot does not cover, then replays
the segments that are not sealed.
"""

from __future__ import annotations

import errno
import gc
from pathlib import Path

from messaging.storage.ledger_store import Unavailable
from messaging.storage.local.format.directory import REPAIR, UnknownFormat
from messaging.storage.local.format.manifest import START
from messaging.storage.local.format.segment import (
    PAGE_BYTES,
    BadSegment,
    DamagedHeaderPage,
    LogPosition,
    Segment,
    UnknownSegmentFormat,
    parse_name,
    read_segment,
)
from messaging.storage.local.format.summary import SegmentSummary
from messaging.storage.local.ledger_state import LedgerState
from messaging.storage.local.log import Log
from messaging.storage.local.read.commit_scan import Damage
from messaging.storage.local.read.footers import BadFooter, Footer, whole_footer
from messaging.storage.local.recover.header_page import restore_header_page
from messaging.storage.local.recover.replay import Replay, synced_by
from messaging.storage.local.snapshot import snapshot
from messaging.storage.local.snapshot.catalog import Catalog
from messaging.storage.local.snapshot.snapshot import BadSnapshot, Content
from messaging.storage.local.write.active import ActiveSegment
from messaging.storage.local.write.seal import write_footer
from messaging.storage.local.write.segment_files import PREALLOCATED_PREFIX, PreallocatedSegment


class Recovery:
    """Opens `log` once; its directory must be locked. `run` blocks and raises `StoreError`, `OSError` and `NoSpace`; `MissingPart`
    if something is missing, unless `gives_up`.

    `unsealed` are segments that get no more commits but have no footer yet: the caller must have them sealed. `rewritten` are
    segments rewritten since the snapshot."""

    def __init__(self, log: Log, *, gives_up: bool = False) -> None:
        self._log = log
        self._gives_up = gives_up
        self._environment = log.environment
        self._segments = log.segments
        self._ledgers = log.ledgers
        self._lost: set[int] = set()  # partly unreadable segments: ledgers created there are recreated where their blocks continue
        self.damage: list[Damage] = []
        self.unsealed: list[ActiveSegment] = []
        self.rewritten: list[int] = []
        self.commits_replayed = 0
        self.end = START  # where the log ends

    def run(self) -> ActiveSegment:
        # Creates hundreds of thousands of objects, none in a cycle: garbage collection would add half as much time again.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._run()
        finally:
            if collecting:
                gc.enable()

    def _run(self) -> ActiveSegment:
        segments = self._open_segments()
        self._log.manifest.load(self.segments)
        sealed = max((at + 1 for at, segment in enumerate(segments) if segment.sealed), default=0)
        catalog = Catalog(self._ledgers.states, self._ledgers.intern, lost=self._lost)
        covered = self._restore(catalog, segments[:sealed])
        for at, segment in enumerate(segments[:sealed]):
            if segment.number > covered:
                self._apply(catalog, segment, segments[at + 1 : at + 2])
        self._ledgers.tombstones, self._ledgers.deletions_pending = catalog.tombstones, catalog.deletions_pending
        catalog.count_events(self._segments.by_number)
        if sealed:
            self.end = LogPosition(segments[sealed - 1].number, segments[sealed - 1].data_stop)
        newest = self._replay(segments[sealed:])
        for number in {created for created, _ in self._ledgers.tombstones.values()}.difference(self._segments.by_number):
            self._ledgers.drop_tombstones(number)  # removed since the snapshot
        return newest

    @property
    def segments(self) -> set[int]:
        """The numbers of all segments that exist, whether they can be read or not."""
        return self._segments.by_number.keys() | self._lost

    # Files

    def _open_segments(self) -> list[Segment]:
        """Sorted by number. Removes files that are not part of the log."""
        newest: dict[int, int] = {}
        for name in self._environment.disk.names(self._environment.directory):
            path = self._environment.directory / name
            parsed = parse_name(name)
            if parsed is not None:
                number, generation = parsed
                newest[number] = max(generation, newest.get(number, 0))
                self._segments.newest_number = max(self._segments.newest_number, number)
            elif name.startswith(PREALLOCATED_PREFIX):
                self._take_preallocated(path)
            elif name.endswith((".new", ".rewrite")):
                self._environment.disk.remove(path)
        for name in self._environment.disk.names(self._environment.directory):
            parsed = parse_name(name)
            if parsed is None:
                continue
            if newest[parsed.number] != parsed.generation:
                self._environment.disk.remove(self._environment.directory / name)  # rewritten
                continue
            self._open_segment(self._environment.directory / name)
        # An older generation must not come back once the records that cover it are gone.
        self._environment.disk.sync_directory(self._environment.directory)
        return [segment for _, segment in sorted(self._segments.by_number.items())]

    def _open_segment(self, path: Path) -> None:
        file = self._environment.disk.open(path)
        try:
            segment = read_segment(file, path, self._environment.store_id)
        except UnknownSegmentFormat as error:
            raise UnknownFormat(str(error)) from error
        except BadSegment as error:
            parsed = parse_name(path.name)
            assert parsed is not None
            number = parsed.number
            self.damage.append(Damage(number, 0, PAGE_BYTES, True))
            restored = restore_header_page(file, path, self._environment.store_id) if isinstance(error, DamagedHeaderPage) else None
            if restored is None:
                self._environment.report("corrupt", f"{error}; its entries cannot be read, the rest of the log is served")
                self._log.snapshots.trusted = False  # without it, no segment may be created
                self._lost.add(number)
                return
            self._environment.report("corrupt", f"{error}; it is written again, and the segment read in whole")
            segment = restored
        finally:
            file.close()
        self._segments.by_number[segment.number] = segment

    def _take_preallocated(self, path: Path) -> None:
        file = self._environment.disk.open(path)
        size, written, head = file.size(), file.next_data(0), file.read(PAGE_BYTES, 0)
        file.close()
        # A file with a valid header was a segment, or still is under its new name if a power loss interrupted a rename.
        if size == self._environment.config.segment_bytes and not any(head):
            self._log.allocator.add(PreallocatedSegment(path, size, recycled=written is not None))
        else:
            self._environment.disk.remove(path)

    # The snapshot

    def _restore(self, catalog: Catalog, sealed: list[Segment]) -> int:
        """Returns the newest segment whose footer need not be read; 0 if no snapshot is usable. An unusable one is removed: it must
        not be trusted later, when records that it depends on are gone."""
        try:
            content = snapshot.read(self._environment.disk, self._environment.directory, self._environment.store_id)
            if content is None:
                return 0
            counts = self._counts(content, sealed)
        except BadSnapshot as error:
            self._environment.report("corrupt", f"{error}; footers are read instead, which takes longer")
            self._log.snapshots.remove()
            return 0
        catalog.restore(content, self._segments.by_number)
        for segment in sealed:
            if segment.number <= content.covered:
                self._take_counts(segment, counts.get(segment.number))
        self._environment.disk.sync_directory(self._environment.directory)
        self._log.snapshots.covered = content.covered
        return content.covered

    def _counts(self, content: Content, sealed: list[Segment]) -> dict[int, snapshot.SegmentCounts]:
        """By segment. Raises `BadSnapshot` if the segments do not match `content`."""
        counts = {count.number: count for count in content.segments}
        present = {segment.number for segment in sealed if segment.sealed}
        for number, segment in self._segments.by_number.items():
            if number <= content.covered:
                if number not in present:
                    raise BadSnapshot(f"the snapshot of the index does not fit: {segment.path} is not sealed")
                if number in counts and segment.generation < counts[number].generation:
                    raise BadSnapshot(f"the snapshot of the index does not fit: it knows a newer generation of {segment.path}")
        if not self._log.snapshots.trusted:
            raise BadSnapshot("the snapshot of the index is not used: a segment cannot be read")
        return counts

    def _take_counts(self, segment: Segment, counts: snapshot.SegmentCounts | None) -> None:
        if counts is None:  # nothing in it was live, and its file was about to be removed
            self._log.manifest.forget_segment(segment.number)
            self._environment.disk.remove(segment.path)
            del self._segments.by_number[segment.number]
            return
        segment.live_bytes, segment.overhead_bytes = counts.live_bytes, counts.overhead_bytes
        segment.events = counts.events
        if segment.generation != counts.generation:
            # Its contents were live when it was copied, hence also at the snapshot; what was deleted since is counted later.
            self.rewritten.append(segment.number)
            try:
                with self._segments.files.use(segment.path) as file:
                    segment.overhead_bytes = Footer(file, segment).overhead_bytes
                segment.live_bytes = segment.data_bytes - segment.overhead_bytes
            except BadFooter as error:
                self._log.snapshots.distrust(error)

    # Sealed segments

    def _apply(self, catalog: Catalog, segment: Segment, following: list[Segment]) -> None:
        footer = self._footer(segment) or self._repair_footer(catalog, segment, following)
        segment.live_bytes = catalog.apply(segment.number, footer)
        segment.overhead_bytes = footer.overhead_bytes
        segment.events = footer.events.count
        self._log.snapshots.listed(segment.number, len(footer.ledgers))

    def _footer(self, segment: Segment) -> SegmentSummary | None:
        if not segment.sealed:
            return None
        try:
            return whole_footer(self._segments.files, segment)
        except (BadFooter, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EIO:
                raise
            self._environment.report("corrupt", f"{error}; the segment is read instead")
            stop = segment.footer_offset + segment.footer_bytes
            self.damage.append(Damage(segment.number, segment.footer_offset, stop, True))
            return None

    def _repair_footer(self, catalog: Catalog, segment: Segment, following: list[Segment]) -> SegmentSummary:
        """Rewrites the footer of `segment` from its commits."""
        states = {key: _copy(state) for key, state in catalog.states.items()}
        synced = synced_by(self._environment.disk, following[0]) if following else START
        replay = Replay(self._log, states, self._lost, self.damage, refuse_older=not (self._gives_up or segment.sealed))
        active = replay.run(segment, synced.offset if synced.segment == segment.number else 0)
        self.commits_replayed += replay.commits
        footer = active.footer()
        write_footer(active)
        return footer

    # Segments that are not sealed

    def _replay(self, segments: list[Segment]) -> ActiveSegment:
        """Returns the segment to continue writing."""
        synced = dict(synced_by(self._environment.disk, segment) for segment in segments[1:])
        synced.setdefault(*self._log.manifest.end)
        tables = (self._log, self._ledgers.states, self._lost, self.damage, self._ledgers.mark_deleted)
        replay = Replay(*tables, refuse_older=not self._gives_up)
        self.unsealed = [replay.run(segment, synced.get(segment.number, 0)) for segment in segments]
        self.commits_replayed += replay.commits
        if replay.epoch >= self._environment.epoch:
            raise Unavailable(
                f"{self._environment.directory / 'epoch'} is older than the log, which has commits of epoch {replay.epoch}: "
                f"epoch {self._environment.epoch} would begin again; {REPAIR}"
            )
        self.end = max(self.end, replay.end)
        self._log.manifest.check_end(self.segments, self.end)
        if self.unsealed and self.unsealed[-1].segment.number == self._segments.newest_number:
            return self.unsealed.pop()
        config = self._environment.config
        return ActiveSegment(*self._log.allocator.next_segment(config.segment_bytes - 2 * PAGE_BYTES), config.extent_bytes_max)


def _copy(state: LedgerState) -> LedgerState:
    """A copy for reading the segment to modify; the original is kept for comparison."""
    copy = LedgerState(state.ledger_id, state.properties, state.created_segment, state.last_entry, state.length_bytes)
    copy.last_segment = state.last_segment
    return copy
