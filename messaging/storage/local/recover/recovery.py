"""Opening a log: the snapshot of its index, footers of sealed segments that it does not cover, then those that are not sealed."""

from __future__ import annotations

import errno
import gc
from pathlib import Path

from messaging.storage.local.format import snapshot
from messaging.storage.local.format.segment import PAGE_BYTES, BadSegment, DamagedHeaderPage, Segment, parse_name, read_segment
from messaging.storage.local.format.snapshot import BadSnapshot, Content
from messaging.storage.local.format.summary import SegmentSummary
from messaging.storage.local.ledger_state import LedgerState
from messaging.storage.local.log import Log
from messaging.storage.local.read.footers import BadFooter, Footer, whole_footer
from messaging.storage.local.recover.catalog import Catalog
from messaging.storage.local.recover.commit_scan import Damage
from messaging.storage.local.recover.header_page import restore_header_page
from messaging.storage.local.recover.replay import Replay, synced_by
from messaging.storage.local.segment_files import PREALLOCATED_PREFIX, PreallocatedSegment
from messaging.storage.local.write.active import ActiveSegment
from messaging.storage.local.write.seal import write_footer


class Recovery:
    """One opening of `log`, whose directory is locked. `run` blocks; raises `OSError` and `NoSpace`.

    `unsealed` are segments that get no more commits and have no footer yet: it is for the caller to have them sealed.
    `rewritten` are those that were rewritten since the snapshot."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.damage: list[Damage] = []
        self.unsealed: list[ActiveSegment] = []
        self.rewritten: list[int] = []
        self.commits_replayed = 0

    def run(self) -> ActiveSegment:
        # Objects by the hundred thousand, none in a cycle: looking for garbage among them takes half as long as making them.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._run()
        finally:
            if collecting:
                gc.enable()

    def _run(self) -> ActiveSegment:
        log = self.log
        segments = self._open_segments()
        sealed = max((at + 1 for at, segment in enumerate(segments) if segment.sealed), default=0)
        catalog = Catalog(log.states, log.intern, lost=log.lost)
        covered = self._restore(catalog, segments[:sealed])
        for at, segment in enumerate(segments[:sealed]):
            if segment.number > covered:
                self._apply(catalog, segment, segments[at + 1 : at + 2])
        log.tombstones, log.deletions_pending = catalog.tombstones, catalog.deletions_pending
        catalog.count_events(log.segments)
        newest = self._replay(segments[sealed:])
        for number in {created for created, _ in log.tombstones.values()}.difference(log.segments):
            log.drop_tombstones(number)  # removed since the snapshot
        return newest

    # Files

    def _open_segments(self) -> list[Segment]:
        """Sorted. Removes what is no part of the log."""
        log = self.log
        newest: dict[int, int] = {}
        for name in log.disk.names(log.directory):
            path = log.directory / name
            place = parse_name(name)
            if place is not None:
                newest[place[0]] = max(place[1], newest.get(place[0], 0))
                log.last_number = max(log.last_number, place[0])
            elif name.startswith(PREALLOCATED_PREFIX):
                self._adopt(path)
            elif name.endswith((".new", ".rewrite")):
                log.disk.remove(path)
        for name in log.disk.names(log.directory):
            place = parse_name(name)
            if place is None:
                continue
            if newest[place[0]] != place[1]:
                log.disk.remove(log.directory / name)  # rewritten
                continue
            self._open_segment(log.directory / name)
        # An older generation must not come back once records that speak of it are gone.
        log.disk.sync_directory(log.directory)
        return [segment for _, segment in sorted(log.segments.items())]

    def _open_segment(self, path: Path) -> None:
        log = self.log
        file = log.disk.open(path)
        try:
            segment = read_segment(file, path, log.store_id)
        except BadSegment as error:
            number = (parse_name(path.name) or (0, 0))[0]
            self.damage.append(Damage(number, 0, PAGE_BYTES, True))
            restored = restore_header_page(file, path, log.store_id) if isinstance(error, DamagedHeaderPage) else None
            if restored is None:
                log.report("corrupt", f"{error}; its entries cannot be read, the rest of the log is served")
                log.snapshots.trusted = False  # none may be made without it
                log.lost.add(number)
                return
            log.report("corrupt", f"{error}; it is written again, and the segment read in whole")
            segment = restored
        finally:
            file.close()
        log.segments[segment.number] = segment

    def _adopt(self, path: Path) -> None:
        file = self.log.disk.open(path)
        size, written, head = file.size(), file.next_data(0), file.read(PAGE_BYTES, 0)
        file.close()
        # One with a head was a segment, or is one under its new name too, where a rename was cut in two by a power loss.
        if size == self.log.config.segment_bytes and not any(head):
            self.log.add_preallocated(PreallocatedSegment(path, size, recycled=written is not None))
        else:
            self.log.disk.remove(path)

    # The snapshot

    def _restore(self, catalog: Catalog, sealed: list[Segment]) -> int:
        """The newest segment whose footer need not be read; 0 where no snapshot can be used. One that cannot be is removed: it must
        not be believed later, when records that it needs are gone."""
        log = self.log
        try:
            content = snapshot.read(log.disk, log.directory, log.store_id)
            if content is None:
                return 0
            counts = self._counts(content, sealed)
        except BadSnapshot as error:
            log.report("corrupt", f"{error}; footers are read instead, which takes longer")
            log.snapshots.remove()
            return 0
        snapshot.restore(content, catalog, log.segments)
        for segment in sealed:
            if segment.number <= content.covered:
                self._take_counts(segment, counts.get(segment.number))
        log.disk.sync_directory(log.directory)
        log.snapshots.covered = content.covered
        return content.covered

    def _counts(self, content: Content, sealed: list[Segment]) -> dict[int, snapshot.SegmentCounts]:
        """By segment. Raises `BadSnapshot` if the segments are not those that `content` speaks of."""
        log = self.log
        counts = {count.number: count for count in content.segments}
        present = {segment.number for segment in sealed if segment.sealed}
        for number, segment in log.segments.items():
            if number <= content.covered:
                if number not in present:
                    raise BadSnapshot(f"the snapshot of the index does not fit: {segment.path} is not sealed")
                if number in counts and segment.generation < counts[number].generation:
                    raise BadSnapshot(f"the snapshot of the index does not fit: it knows a newer generation of {segment.path}")
        if not log.snapshots.trusted:
            raise BadSnapshot("the snapshot of the index is not used: a segment cannot be read")
        return counts

    def _take_counts(self, segment: Segment, counts: snapshot.SegmentCounts | None) -> None:
        log = self.log
        if counts is None:  # nothing in it was alive, and its file was to go
            log.disk.remove(segment.path)
            del log.segments[segment.number]
            return
        segment.live_bytes, segment.overhead_bytes = counts.live_bytes, counts.overhead_bytes
        segment.events = counts.events
        if segment.generation != counts.generation:
            # What it holds was alive when it was copied, so when the snapshot was made: what died since is yet to be settled.
            self.rewritten.append(segment.number)
            try:
                with log.files.use(segment.path) as file:
                    segment.overhead_bytes = Footer(file, segment).overhead_bytes
                segment.live_bytes = segment.data_bytes - segment.overhead_bytes
            except BadFooter as error:
                log.snapshots.distrust(error)

    # Sealed segments

    def _apply(self, catalog: Catalog, segment: Segment, following: list[Segment]) -> None:
        log = self.log
        footer = self._footer(segment) or self._mend(catalog, segment, following)
        segment.live_bytes = catalog.apply(segment.number, footer)
        segment.overhead_bytes = footer.overhead_bytes
        segment.events = footer.events.count
        log.snapshots.listed(segment.number, len(footer.ledgers))

    def _footer(self, segment: Segment) -> SegmentSummary | None:
        if not segment.sealed:
            return None
        try:
            return whole_footer(self.log.files, segment)
        except (BadFooter, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EIO:
                raise
            self.log.report("corrupt", f"{error}; the segment is read instead")
            stop = segment.footer_offset + segment.footer_bytes
            self.damage.append(Damage(segment.number, segment.footer_offset, stop, True))
            return None

    def _mend(self, catalog: Catalog, segment: Segment, following: list[Segment]) -> SegmentSummary:
        """Writes the footer of `segment` again, from its commits."""
        states = {key: _copy(state) for key, state in catalog.states.items()}
        synced = synced_by(self.log, following[0]) if following else (0, 0)
        replay = Replay(self.log, states, self.damage)
        active = replay.run(segment, synced[1] if synced[0] == segment.number else 0)
        self.commits_replayed += replay.commits
        footer = active.footer()
        write_footer(active)
        return footer

    # Segments that are not sealed

    def _replay(self, segments: list[Segment]) -> ActiveSegment:
        """The segment to go on with."""
        log = self.log
        synced = dict(synced_by(log, segment) for segment in segments[1:])
        replay = Replay(log, log.states, self.damage, log.mark_deleted)
        self.unsealed = [replay.run(segment, synced.get(segment.number, 0)) for segment in segments]
        self.commits_replayed += replay.commits
        if self.unsealed and self.unsealed[-1].segment.number == log.last_number:
            return self.unsealed.pop()
        return ActiveSegment(*log.next_segment(log.config.segment_bytes - 2 * PAGE_BYTES), log.config.extent_bytes_max)


def _copy(state: LedgerState) -> LedgerState:
    """As a segment's reading changes it; what it is compared with stays."""
    copy = LedgerState(state.ledger_id, state.properties, state.created_segment, state.last_entry, state.length_bytes)
    copy.last_segment = state.last_segment
    return copy
