"""Opening a log: footers of sealed segments, then what follows the last checkpoint of those that are not.

Nothing recovered is served before it was synced again: a tail may have been readable from the page cache and never durable.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from crc32c import crc32c

from messaging.storage.local import digest, records
from messaging.storage.local.active import ActiveSegment
from messaging.storage.local.digest import Events, Table
from messaging.storage.local.disk import DiskFile, replace_file
from messaging.storage.local.footers import BadFooter, read_footer
from messaging.storage.local.log import HINT, HINT_NAME, Log, write_footer
from messaging.storage.local.records import BLOCK, CHECKPOINT, CREATED, DELETED, SEALED
from messaging.storage.local.scan import Commit, Damage, Scan
from messaging.storage.local.segment import PAGE_BYTES, BadSegment, Segment, parse_name, read_segment
from messaging.storage.local.segment_files import SPARE_PREFIX, Spare
from messaging.storage.local.state import ROW, LedgerState

SET_ASIDE = "set-aside"
_properties = msgspec.msgpack.Decoder(dict[str, str])


class Recovery:
    """One opening of `log`, whose directory is locked. `run` blocks; raises `OSError` and `NoSpace`."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.damage: list[Damage] = []
        self.commits_replayed = 0

    def run(self) -> ActiveSegment:
        log = self.log
        unsealed: list[tuple[Segment, DiskFile]] = []
        for segment, file in self._open_segments():
            if unsealed or not self._apply_footer(segment, file):
                unsealed.append((segment, file))
            else:
                file.close()
        replayed = self._replay(unsealed)
        for active in replayed:
            active.file.sync()
        newest = replayed.pop() if replayed and replayed[-1].segment.number == log.last_number else None
        if newest is None or newest.segment.sealed:
            replayed += [newest] if newest else []
            newest = ActiveSegment(*log.next_segment(log.config.segment_bytes - 2 * PAGE_BYTES), log.config.run_bytes_max)
        for active in replayed:
            write_footer(active)
            for runs in active.touched:
                state = log.states.get(runs.ledger_id)
                if state is not None:
                    state.settle(runs)
        return newest

    # Files

    def _open_segments(self) -> list[tuple[Segment, DiskFile]]:
        log = self.log
        newest: dict[int, int] = {}
        for name in log.disk.names(log.directory):
            path = log.directory / name
            place = parse_name(name)
            if place is not None:
                newest[place[0]] = max(place[1], newest.get(place[0], 0))
                log.last_number = max(log.last_number, place[0])
            elif name.startswith(SPARE_PREFIX):
                self._adopt(path)
            elif name.endswith((".new", ".rewrite")):
                log.disk.remove(path)
        opened: list[tuple[Segment, DiskFile]] = []
        for name in log.disk.names(log.directory):
            place = parse_name(name)
            if place is None:
                continue
            if newest[place[0]] != place[1]:
                log.disk.remove(log.directory / name)  # rewritten
                continue
            self._open_segment(log.directory / name, opened)
        # An older generation must not come back once records that speak of it are gone.
        log.disk.sync_directory(log.directory)
        return sorted(opened, key=lambda pair: pair[0].number)

    def _open_segment(self, path: Path, opened: list[tuple[Segment, DiskFile]]) -> None:
        log = self.log
        file = log.disk.open(path)
        try:
            segment = read_segment(file, path, log.store_id)
        except BadSegment as error:
            file.close()
            log.report("corrupt", f"{error}; its entries cannot be read, the rest of the log is served")
            number = (parse_name(path.name) or (0, 0))[0]
            self.damage.append(Damage(number, 0, PAGE_BYTES, True))
            return
        except BaseException:
            file.close()
            raise
        log.segments[segment.number] = segment
        opened.append((segment, file))

    def _adopt(self, path: Path) -> None:
        file = self.log.disk.open(path)
        size, written, head = file.size(), file.next_data(0), file.read(PAGE_BYTES, 0)
        file.close()
        # One with a head was a segment, or is one under its new name too, where a rename was cut in two by a power loss.
        if size == self.log.config.segment_bytes and not any(head):
            self.log.adopt_spare(Spare(path, size, recycled=written is not None))
        else:
            self.log.disk.remove(path)

    # Sealed segments

    def _apply_footer(self, segment: Segment, file: DiskFile) -> bool:
        if not segment.sealed:
            return False
        try:
            table = read_footer(file, segment)
        except BadFooter as error:
            self.log.report("corrupt", f"{error}; the segment is read instead")
            stop = segment.footer_offset + segment.footer_bytes
            self.damage.append(Damage(segment.number, segment.footer_offset, stop, True))
            return False
        self._created(table.digest.events, segment)
        states, row, live_bytes = self.log.states, 0, 0
        for at, ledger_id in enumerate(table.ledgers):
            state = states.get(ledger_id)
            if state is not None and row < table.row_stops[at]:
                state.add_part(table.rows[ROW * row], segment.number, table.record_bytes[at])
                live_bytes += table.record_bytes[at]
                state.last_entry = table.last_entries[at]
                state.length_bytes = table.length_bytes[at]
            row = table.row_stops[at]
        segment.live_bytes += live_bytes
        self._ended(table.digest.events, segment)
        segment.overhead_bytes = table.digest.overhead_bytes
        return True

    def _created(self, events: Events, segment: Segment) -> None:
        segment.live_events += len(events.created)
        for ledger_id, properties in events.created.items():
            self._create(ledger_id, properties, segment)

    def _create(self, ledger_id: int, properties: dict[str, str], segment: Segment) -> LedgerState:
        state = LedgerState(ledger_id, self.log.intern(properties))
        state.durable = True
        state.created_segment = segment.number
        self.log.states[ledger_id] = state
        return state

    def _ended(self, events: Events, segment: Segment) -> None:
        for ledger_id, (last_entry, length_bytes) in events.sealed.items():
            state = self.log.states.get(ledger_id)
            if state is not None:
                segment.live_events += 1
                state.sealed_segment = segment.number
                self._seal(state, last_entry, length_bytes)
        for ledger_id in events.deleted:
            self._delete(ledger_id, segment)

    def _seal(self, state: LedgerState, last_entry: int, length_bytes: int) -> None:
        state.sealed = True
        state.last_entry, state.length_bytes = last_entry, length_bytes

    def _delete(self, ledger_id: int, segment: Segment) -> None:
        state = self.log.states.pop(ledger_id, None)
        if state is not None:
            state.deleted = True
            self.log.bury(state, segment.number)

    # Segments that are not sealed

    def _replay(self, unsealed: list[tuple[Segment, DiskFile]]) -> list[ActiveSegment]:
        synced = _synced_by_later(unsealed)
        replayed = []
        for index, (segment, file) in enumerate(unsealed):
            active = ActiveSegment(segment, file, self.log.config.run_bytes_max)
            limit = segment.data_stop if segment.sealed else 0
            scan = Scan(file, segment, self._from_checkpoint(active), limit, synced.get(segment.number, 0))
            for commit in scan.commits():
                self._apply(commit, active)
                self.commits_replayed += 1
            active.offset = segment.data_stop = max(scan.stop, synced.get(segment.number, 0))
            self._judge(scan, active, last=index == len(unsealed) - 1)
            replayed.append(active)
        return replayed

    def _from_checkpoint(self, active: ActiveSegment) -> int:
        """Applies the checkpoints that the hint leads to; returns the offset to replay from."""
        log, segment = self.log, active.segment
        if segment.sealed or HINT_NAME not in log.disk.names(log.directory):
            return PAGE_BYTES
        chain: list[Table] = []
        offset = self._hinted(segment)
        first = offset
        while offset:
            table = _checkpoint_at(active.file, segment, offset)
            if table is None or table.digest.stop != offset:
                return PAGE_BYTES  # a hint that leads nowhere
            chain.append(table)
            offset = table.digest.previous
        for table in reversed(chain):
            self._created(table.digest.events, segment)
            active.restore(table, log.states)
            self._ended(table.digest.events, segment)
        return first or PAGE_BYTES

    def _hinted(self, segment: Segment) -> int:
        log = self.log
        file = log.disk.open(log.directory / HINT_NAME)
        try:
            data = file.read(HINT.size + records.CRC.size, 0)
        finally:
            file.close()
        if len(data) < HINT.size + records.CRC.size:
            return 0
        number, generation, offset = HINT.unpack_from(data)
        (crc,) = records.CRC.unpack_from(data, HINT.size)
        if (number, generation) != (segment.number, segment.generation) or crc != crc32c(data[: HINT.size], segment.seed):
            return 0
        return int(offset)

    def _apply(self, commit: Commit, active: ActiveSegment) -> None:
        log = self.log
        view = commit.view
        for record in commit.records:
            if record.type == BLOCK:
                state = log.states.get(record.ledger_id)
                if state is None:
                    continue  # deleted, or its beginning is lost
                offset = commit.offset + record.start
                data_bytes = record.stop - record.data_start
                active.block(state, record.first_entry, record.entries, offset, record.stop - record.start, data_bytes)
                state.last_entry, state.length_bytes = state.written()
            elif record.type == CREATED:
                properties = _properties.decode(view[record.header_start : record.stops_start])
                active.created(self._create(record.ledger_id, properties, active.segment), 16 + record.stop - record.start)
            elif record.type == SEALED:
                (length,) = records.LENGTH.unpack_from(view, record.header_start)
                state = log.states.get(record.ledger_id)
                if state is not None:
                    active.sealed(state, record.first_entry, length)
                    self._seal(state, record.first_entry, length)
            elif record.type == DELETED:
                active.deleted(record.ledger_id)
                self._delete(record.ledger_id, active.segment)
            elif record.type == CHECKPOINT:
                active.checkpointed(commit.offset)

    def _judge(self, scan: Scan, active: ActiveSegment, *, last: bool) -> None:
        """Reports damage; sets aside a torn tail so that what is written over it is never confused with it."""
        log, segment = self.log, active.segment
        for damage in scan.damage:
            self.damage.append(damage)
            if damage.synced:
                log.report("corrupt", f"{damage}; the entries in it cannot be read, the rest of the log is served")
                continue
            torn = active.file.read(damage.stop - damage.start, damage.start)
            place = log.directory / SET_ASIDE / f"{segment.path.stem}-{damage.start}.bin"
            log.disk.make_directory(place.parent)
            replace_file(log.disk, place, torn)
            log.report("torn", f"{damage}; never confirmed, or rotten since: kept in {place}, the log ends before it")
            active.file.write([bytes(len(torn))], damage.start)


def _synced_by_later(unsealed: list[tuple[Segment, DiskFile]]) -> dict[int, int]:
    """How far each segment was synced, as the first commit of a later one says."""
    found: dict[int, int] = {}
    for segment, file in unsealed[1:]:
        for commit in Scan(file, segment).commits():
            number, offset = commit.header.synced_segment, commit.header.synced_offset
            found[number] = max(offset, found.get(number, 0))
            break
    return found


def _checkpoint_at(file: DiskFile, segment: Segment, offset: int) -> Table | None:
    for commit in Scan(file, segment, offset).commits():
        for record in commit.records:
            if commit.offset == offset and record.type == CHECKPOINT:
                try:
                    return Table(digest.decode(commit.view[record.data_start : record.stop]))
                except msgspec.DecodeError:
                    return None
        return None
    return None
