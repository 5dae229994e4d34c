"""Replays a segment commit by commit: one that is not sealed, or whose footer is damaged.

Replayed data is synced before it is served: a tail may have been readable from the page cache without being durable.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from messaging.storage.local.device.bad_pages import read_around
from messaging.storage.local.device.disk import Disk, DiskFile, replace_file
from messaging.storage.local.format import records
from messaging.storage.local.format import summary as summary
from messaging.storage.local.format.manifest import START, MissingPart
from messaging.storage.local.format.records import BLOCK, CHECKPOINT, CREATED, DELETED, SEALED
from messaging.storage.local.format.segment import PAGE_BYTES, LogPosition, Segment
from messaging.storage.local.format.summary import BadSummary, Events, SegmentSummary
from messaging.storage.local.ledger_state import LedgerState, Phase
from messaging.storage.local.log import Log
from messaging.storage.local.read.commit_scan import CommitRecord, Damage, Scan
from messaging.storage.local.write.active import ActiveSegment
from messaging.storage.local.write.segment_files import NO_SPACE

SET_ASIDE = "set-aside"
_properties = msgspec.msgpack.Decoder(dict[str, str])


class Replay:
    """`states` are the ledgers after all earlier segments, `lost` the segments that are partly unreadable; `mark_deleted` is called
    for each deleted ledger with the segment of its DELETED record. `refuse_older`: a segment that ends before a place that was
    synced is not replayed."""

    def __init__(
        self,
        log: Log,
        states: dict[int, LedgerState],
        lost: set[int],
        damage: list[Damage],
        mark_deleted: Callable[[LedgerState, int], None] = lambda state, segment: None,
        *,
        refuse_older: bool = False,
    ) -> None:
        self._refuse_older = refuse_older
        self.commits = 0
        self.epoch = 0  # the newest that a commit has
        self.end = START  # up to where commits were found, or damage where there had been some
        self._log = log
        self._environment = log.environment
        self._states = states
        self._lost = lost
        self._damage = damage
        self._mark_deleted = mark_deleted

    def run(self, segment: Segment, synced_until: int) -> ActiveSegment:
        """Returns the segment with its file open and synced. `synced_until`: how far it was synced according to a later segment or
        the manifest. Raises `MissingPart` and `OSError`."""
        file = self._environment.disk.open(segment.path)
        active = ActiveSegment(segment, file, self._environment.config.extent_bytes_max)
        try:
            limit = segment.data_stop if segment.sealed else 0
            scan = Scan(file, segment, self._from_checkpoint(active), limit, synced_until)
            for commit in scan.commits():
                if scan.damage:
                    self._lost.add(segment.number)
                self._apply(commit, active)
                self.commits += 1
            self.epoch = max(self.epoch, scan.epoch)
            if self._refuse_older and not scan.damage and scan.stop < synced_until:
                ended = f"segment {segment.number} ends at byte {scan.stop}, but had come to byte {synced_until}"
                raise MissingPart.of([f"{ended}: it is older than the rest"])
            active.offset = segment.data_stop = max(scan.stop, synced_until)
            self.end = LogPosition(segment.number, active.offset if scan.damage else scan.stop)
            self._judge(scan, active)
            file.sync()
        except BaseException:
            file.close()
            raise
        return active

    def _from_checkpoint(self, active: ActiveSegment) -> int:
        """Applies the checkpoints that the pointer leads to. Returns the offset to replay from."""
        segment = active.segment
        older_checkpoints: list[SegmentSummary] = []
        offset = first = 0 if segment.sealed else self._log.checkpoint_pointer.find(segment)
        while offset:
            checkpoint = _checkpoint_at(active.file, segment, offset)
            if checkpoint is None or checkpoint.stop != offset:
                return PAGE_BYTES  # a stale pointer
            older_checkpoints.append(checkpoint)
            offset = checkpoint.previous
        for checkpoint in reversed(older_checkpoints):
            self._begin(checkpoint.events, active)
            for ledger_id in checkpoint.ledgers:
                if ledger_id not in self._states:
                    self._found_again(ledger_id, active)
            active.restore(checkpoint, self._states)
            self._end(checkpoint.events, active)
        return first or PAGE_BYTES

    def _begin(self, events: Events, active: ActiveSegment) -> None:
        active.segment.live_events += len(events.created)
        for ledger_id, properties in events.created.items():
            self._create(ledger_id, properties, active)

    def _create(self, ledger_id: int, properties: dict[str, str], active: ActiveSegment) -> LedgerState:
        state = LedgerState(ledger_id, self._log.ledgers.intern(properties), active.segment.number)
        self._states[ledger_id] = state
        return state

    def _found_again(self, ledger_id: int, active: ActiveSegment) -> LedgerState | None:
        """The ledger's beginning is lost. From now on it begins here."""
        if not self._lost or ledger_id in self._log.ledgers.tombstones:
            return None
        state = self._create(ledger_id, {}, active)
        active.created(state, 16)
        return state

    def _end(self, events: Events, active: ActiveSegment) -> None:
        for ledger_id, (last_entry, length_bytes) in events.sealed.items():
            state = self._states.get(ledger_id)
            if state is not None:
                active.segment.live_events += 1
                state.sealed_segment = active.segment.number
                _seal(state, last_entry, length_bytes)
        for ledger_id in events.deleted:
            self._delete(ledger_id, active)

    def _delete(self, ledger_id: int, active: ActiveSegment) -> None:
        state = self._states.pop(ledger_id, None)
        if state is not None:
            state.phase = Phase.DELETED
            self._mark_deleted(state, active.segment.number)

    def _apply(self, commit: CommitRecord, active: ActiveSegment) -> None:
        view = commit.view
        for record in commit.records:
            if record.type == BLOCK:
                state = self._states.get(record.ledger_id) or self._found_again(record.ledger_id, active)
                if state is None:
                    continue  # deleted
                offset = commit.offset + record.start
                last, data_bytes = record.first_entry + record.entries - 1, record.stop - record.data_start
                active.block(state, record.first_entry, last, offset, record.stop - record.start, data_bytes)
                state.last_entry, state.length_bytes = state.written()
            elif record.type == CREATED:
                properties = _properties.decode(view[record.header_start : record.end_offsets_start])
                active.created(self._create(record.ledger_id, properties, active), 16 + record.stop - record.start)
            elif record.type == SEALED:
                (length,) = records.LENGTH.unpack_from(view, record.header_start)
                state = self._states.get(record.ledger_id) or self._found_again(record.ledger_id, active)
                if state is not None:
                    active.sealed(state, record.first_entry, length)
                    _seal(state, record.first_entry, length)
            elif record.type == DELETED:
                active.deleted(record.ledger_id)
                self._delete(record.ledger_id, active)
            elif record.type == CHECKPOINT:
                active.checkpointed(commit.offset)

    def _judge(self, scan: Scan, active: ActiveSegment) -> None:
        """Reports damage. Sets aside a torn tail, so that new commits written over it can never be confused with it."""
        for damage in scan.damage:
            self._damage.append(damage)
            if damage.synced:
                self._environment.report("corrupt", f"{damage}; the entries in it cannot be read, the rest of the log is served")
                continue
            torn = read_around(active.file, damage.stop - damage.start, damage.start)
            self._environment.report(
                "torn", f"{damage}; never confirmed, or rotten since: {self._set_aside(damage, torn)}, the log ends before it"
            )
            active.file.write([bytes(len(torn))], damage.start)

    def _set_aside(self, damage: Damage, torn: bytes) -> str:
        """Returns what became of the bytes. A full disk does not keep the log from opening."""
        segment = self._log.segments.by_number[damage.segment]
        place = self._environment.directory / SET_ASIDE / f"{segment.path.stem}-{damage.start}.bin"
        try:
            self._environment.disk.make_directory(place.parent)
            replace_file(self._environment.disk, place, torn)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            return "not kept, for want of space"
        return f"kept in {place}"


def synced_by(disk: Disk, following: Segment) -> LogPosition:
    """Up to where the log was synced, according to the first commit of `following`."""
    file = disk.open(following.path)
    try:
        for commit in Scan(file, following).commits():
            return LogPosition(commit.header.synced_segment, commit.header.synced_offset)
        return START
    finally:
        file.close()


def _seal(state: LedgerState, last_entry: int, length_bytes: int) -> None:
    state.phase = Phase.SEALED
    state.last_entry, state.length_bytes = last_entry, length_bytes


def _checkpoint_at(file: DiskFile, segment: Segment, offset: int) -> SegmentSummary | None:
    for commit in Scan(file, segment, offset).commits():
        for record in commit.records:
            if commit.offset == offset and record.type == CHECKPOINT:
                try:
                    return summary.decode(commit.view[record.data_start : record.stop])
                except BadSummary:
                    return None
        return None
    return None
