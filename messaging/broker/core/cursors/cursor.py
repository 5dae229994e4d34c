"""What a subscription has acknowledged: a mark-delete position and, beyond it, one bitmap per ledger and ack sets of batches.

Everything at or before `mark_delete` is acknowledged. Beyond it `individual_acks` has the entries acknowledged out of order, in
compressed bitmaps, so that a million of them cost about as much as one bitmap; `batches` has entries of which only some messages
are acknowledged. Pure: each change returns the delta that makes the same change on another copy, which the cursor log stores.

Snapshot:  version u8 = 1 | mark-delete i64 i64 | bitmaps u32: (ledger i64, length u32, roaring)
           | ack sets u32: (i64 i64, words u16, u64*)
Delta:     see `cursor_deltas.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from pyroaring import BitMap

from messaging.ack_ranges import AckRange
from messaging.broker.core.bitmaps import ENTRY_IDS, bitmap_bytes, bitmap_of, ranges_of, run_length
from messaging.broker.core.cursors import cursor_deltas as cursor_deltas
from messaging.broker.core.cursors.ack_sets import AckSets, bits_of
from messaging.broker.core.cursors.cursor_deltas import POSITION, Delta
from messaging.limits.sizes import ACK_SET_WORDS_MAX
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.managed.ledger_list import LedgerList

VERSION = 1
_HEAD = struct.Struct(">Bqq")
_COUNT = struct.Struct(">I")
_BITMAP = struct.Struct(">qI")
_WORDS = struct.Struct(">H")


class Cursor:
    """Every method that changes it decides and packs first: either it raises and has changed nothing, or it returns the delta that
    makes the same change on a copy. Positions are checked against the ledger list: one without an entry acknowledges nothing."""

    __slots__ = ("batches", "individual_ack_count", "individual_acks", "mark_delete")

    def __init__(self, mark_delete: Position = EARLIEST) -> None:
        self.mark_delete = mark_delete
        self.individual_acks: dict[int, BitMap] = {}
        self.individual_ack_count = 0  # of all bits in `individual_acks`
        self.batches = AckSets()

    # --- asking

    def acknowledged(self, position: Position) -> bool:
        if position <= self.mark_delete:
            return True
        bitmap = self.individual_acks.get(position.ledger_id)
        return bitmap is not None and 0 <= position.entry_id < 1 << 32 and position.entry_id in bitmap

    def unacked_ranges(self, ledger_id: int, first: int, last: int) -> list[tuple[int, int]]:
        """The unacknowledged ranges (first, last) within entries `first`..`last` of a ledger."""
        if self.mark_delete.ledger_id == ledger_id:
            first = max(first, self.mark_delete.entry_id + 1)
        elif self.mark_delete.ledger_id > ledger_id:
            return []
        if first > last:
            return []
        bitmap = self.individual_acks.get(ledger_id)
        if bitmap is None or not bitmap.range_cardinality(first, last + 1):
            return [(first, last)]
        missing = BitMap(range(first, last + 1)) - bitmap
        return list(ranges_of(missing))

    def unacked_count(self, ledger_id: int, first: int, last: int) -> int:
        """How many entries `unacked_ranges` has, without making a list of them: counted at the speed of bitmaps."""
        if self.mark_delete.ledger_id == ledger_id:
            first = max(first, self.mark_delete.entry_id + 1)
        elif self.mark_delete.ledger_id > ledger_id:
            return 0
        if first > last:
            return 0
        bitmap = self.individual_acks.get(ledger_id)
        return last - first + 1 - (0 if bitmap is None else bitmap.range_cardinality(first, last + 1))

    def individual_ranges(self) -> Iterator[AckRange]:
        """What is acknowledged behind `mark_delete` in whole entries, in order, found as it is asked for."""
        for ledger_id in sorted(self.individual_acks):
            for first, last in ranges_of(self.individual_acks[ledger_id]):
                yield AckRange(ledger_id, first, last)

    def acknowledged_outside(
        self, after: Position, last: Position, ledger_list: LedgerList
    ) -> tuple[Position, list[AckRange], list[tuple[Position, tuple[int, ...]]]]:
        """What is acknowledged but for the entries behind `after` up to `last`: a mark-delete, whole entries behind that, and parts
        of batches."""
        ranges = [AckRange(*each) for each in ledger_list.ranges(last, self.mark_delete)]
        for each in self.individual_ranges():
            first, stop = Position(each.ledger_id, each.first), Position(each.ledger_id, each.last)
            if stop <= after or first > last:
                ranges.append(each)
                continue
            if first <= after:
                ranges.append(AckRange(each.ledger_id, each.first, after.entry_id))
            if stop > last:
                ranges.append(AckRange(each.ledger_id, last.entry_id + 1, each.last))
        batches = [(at, tuple(words)) for at, words in self.batches.items() if not after < at <= last]
        return min(self.mark_delete, after), ranges, batches

    def backlog_entries(self, ledger_list: LedgerList) -> int:
        """Entries that exist and are not fully acknowledged."""
        return ledger_list.entries - ledger_list.count_up_to(self.mark_delete) - self.individual_ack_count

    def backlog_up_to(self, last: Position, ledger_list: LedgerList) -> int:
        """Of those entries, the ones up to `last`."""
        acknowledged = sum(
            bitmap.range_cardinality(0, last.entry_id + 1 if ledger_id == last.ledger_id else 1 << 32)
            for ledger_id, bitmap in self.individual_acks.items()
            if ledger_id <= last.ledger_id
        )
        return max(0, ledger_list.count_up_to(last) - ledger_list.count_up_to(self.mark_delete) - acknowledged)

    @property
    def memory_bytes(self) -> int:
        """About how much memory the acknowledgements beyond `mark_delete` take."""
        return sum(map(bitmap_bytes, self.individual_acks.values())) + self.batches.memory_bytes

    # --- acknowledging; each returns the delta to store, or b"" if nothing changed

    def acknowledge(self, ledger_id: int, entries: Sequence[int], ledger_list: LedgerList) -> bytes:
        """Whole entries of one ledger, in any order. Ids that were never confirmed are ignored, as in Pulsar."""
        return self.acknowledge_all(ledger_id, bitmap_of(entries), ledger_list)

    def acknowledge_all(self, ledger_id: int, entries: BitMap, ledger_list: LedgerList) -> bytes:
        """The same of a bitmap, which stays the caller's."""
        limit = ledger_list.last_of(ledger_id)
        mark = self.mark_delete
        floor = mark.entry_id if mark.ledger_id == ledger_id else -1 if mark.ledger_id < ledger_id else limit
        if not entries:
            return b""
        first, last = entries.min(), entries.max()
        if first <= floor or last > limit:
            entries = entries.copy()
            entries.remove_range(0, floor + 1)
            entries.remove_range(limit + 1, ENTRY_IDS)
            if not entries:
                return b""
            first, last = entries.min(), entries.max()
        delta = cursor_deltas.of_entries(ledger_id, entries)
        bitmap = self.individual_acks.get(ledger_id)
        if bitmap is None:
            if mark.ledger_id == ledger_id and first == floor + 1 and last - first + 1 == len(entries):
                self._advance(Position(ledger_id, last), ledger_list)
                return delta
            bitmap = self.individual_acks[ledger_id] = BitMap()
        before = len(bitmap)
        bitmap |= entries
        added = len(bitmap) - before
        if not added:
            return b""
        self.individual_ack_count += added
        if self.batches:
            self.batches.drop(ledger_id, entries)
        self._advance(mark, ledger_list)
        return delta

    def acknowledge_range(self, ledger_id: int, first: int, last: int, ledger_list: LedgerList) -> bytes:
        """Entries `first` to `last` of one ledger, as far as they exist. Costs the same for one and for a million."""
        mark = self.mark_delete
        if mark.ledger_id > ledger_id:
            return b""
        first = max(first, 0, mark.entry_id + 1 if mark.ledger_id == ledger_id else 0)
        last = min(last, ledger_list.last_of(ledger_id))
        if first > last:
            return b""
        delta = cursor_deltas.of_range(ledger_id, first, last)
        bitmap = self.individual_acks.get(ledger_id)
        if bitmap is None:
            if mark.ledger_id == ledger_id and first == mark.entry_id + 1:
                self._advance(Position(ledger_id, last), ledger_list)
                return delta
            bitmap = self.individual_acks[ledger_id] = BitMap()
        added = last + 1 - first - bitmap.range_cardinality(first, last + 1)
        if not added:
            return b""
        bitmap.add_range(first, last + 1)
        self.individual_ack_count += added
        self.batches.drop_range(ledger_id, first, last)
        self._advance(mark, ledger_list)
        return delta

    def acknowledge_up_to(self, position: Position, ledger_list: LedgerList) -> bytes:
        """Everything up to and including the entry at `position` (cumulative, expiry, skipping); where its ledger is
        gone, everything before that ledger."""
        if not ledger_list.holds(position):
            if not ledger_list.dropped(position.ledger_id):
                return b""
            position = ledger_list.mark_at(position)
        if position <= self.mark_delete:
            return b""
        delta = cursor_deltas.of_position(Delta.UP_TO, position)
        self._advance(position, ledger_list)
        return delta

    def acknowledge_batch(self, position: Position, ack_set: Sequence[int], ledger_list: LedgerList) -> tuple[bytes, bool]:
        """Some messages of one entry: bits still set in `ack_set` stay open. Returns (delta, the whole entry is done)."""
        if self.acknowledged(position):
            return b"", True
        if not ledger_list.holds(position) or len(ack_set) > ACK_SET_WORDS_MAX:
            return b"", False
        left = bits_of(ack_set)
        open_bits = self.batches.bits(position)
        if open_bits is not None:
            left &= open_bits
        if not left:
            return self.acknowledge(position.ledger_id, (position.entry_id,), ledger_list), True
        if left == open_bits:
            return b"", False
        words = self.batches.words_with(position, left, len(ack_set))
        delta = cursor_deltas.of_batch(position, words)
        self.batches.put(position, words)
        return delta, False

    def reset(self, mark_delete: Position, ledger_list: LedgerList) -> bytes:
        """Seek: everything after the last entry at or before `mark_delete` is unacknowledged again."""
        mark_delete = ledger_list.mark_at(mark_delete)
        delta = cursor_deltas.of_position(Delta.RESET, mark_delete)
        self.mark_delete = mark_delete
        self.individual_acks.clear()
        self.individual_ack_count = 0
        self.batches.clear()
        return delta

    def _advance(self, mark: Position, ledger_list: LedgerList) -> None:
        """Moves mark-delete to `mark` and on over all acknowledged entries that follow, also into the next ledgers, and forgets
        what is now before it. The cost depends on what it moves over, not on what there is."""
        former, self.mark_delete = self.mark_delete, mark
        ledger_id, entry_id = mark
        if ledger_id < 0 and ledger_list.first_id >= 0:
            ledger_id, entry_id = ledger_list.first_id, -1
        while True:
            bitmap = self.individual_acks.get(ledger_id)
            if bitmap is not None:
                entry_id += run_length(bitmap, entry_id + 1)
                if (ledger_id, entry_id) > former:
                    self._forget(ledger_id, bitmap, entry_id + 1)
            if entry_id >= 0 and (ledger_id, entry_id) > self.mark_delete:
                self.mark_delete = Position(ledger_id, entry_id)
            if entry_id < ledger_list.last_of(ledger_id) or not ledger_list.ends(ledger_id):
                break
            following = ledger_list.next_after(Position(ledger_id, entry_id))
            if following.ledger_id == ledger_id or following.ledger_id not in self.individual_acks:
                break
            ledger_id, entry_id = following.ledger_id, -1
        if former.ledger_id != self.mark_delete.ledger_id:
            self._forget_ledgers_before(self.mark_delete.ledger_id)
        if self.batches:
            self.batches.drop_up_to(self.mark_delete, former.ledger_id)

    def _forget(self, ledger_id: int, bitmap: BitMap, stop: int) -> None:
        """Forgets bits below `stop`: mark-delete has passed them."""
        self.individual_ack_count -= bitmap.range_cardinality(0, stop)
        bitmap.remove_range(0, stop)
        if not bitmap:
            del self.individual_acks[ledger_id]

    def _forget_ledgers_before(self, ledger_id: int) -> None:
        for gone in [earlier for earlier in self.individual_acks if earlier < ledger_id]:
            self.individual_ack_count -= len(self.individual_acks.pop(gone))

    # --- storing

    def snapshot(self) -> bytes:
        parts = [_HEAD.pack(VERSION, *self.mark_delete), _COUNT.pack(len(self.individual_acks))]
        for ledger_id, bitmap in self.individual_acks.items():
            bitmap.run_optimize()
            data = bitmap.serialize()
            parts += (_BITMAP.pack(ledger_id, len(data)), data)
        parts.append(_COUNT.pack(len(self.batches)))
        for position, words in self.batches.items():
            parts.append(POSITION.pack(*position) + struct.pack(f">H{len(words)}Q", len(words), *words))
        return b"".join(parts)

    @classmethod
    def restore(cls, mark_delete: Position, state: bytes) -> Cursor:
        """From a snapshot; from `mark_delete` alone if there never was one. Raises `ValueError` for bytes that are no snapshot."""
        cursor = cls(mark_delete)
        if state:
            try:
                cursor._restore(state)
            except struct.error as error:
                raise ValueError(f"a cursor snapshot of {len(state)} bytes is cut short: {error}") from None
        return cursor

    def _restore(self, state: bytes) -> None:
        version, ledger_id, entry_id = _HEAD.unpack_from(state)
        if version != VERSION:
            raise ValueError(f"cursor snapshot version {version} is unknown; this release reads version {VERSION}")
        self.mark_delete = Position(ledger_id, entry_id)
        at = _HEAD.size
        (count,) = _COUNT.unpack_from(state, at)
        at += _COUNT.size
        for _ in range(count):
            ledger_id, length = _BITMAP.unpack_from(state, at)
            at += _BITMAP.size
            if at + length > len(state):
                raise ValueError(f"a cursor snapshot of {len(state)} bytes is cut short within a bitmap")
            bitmap = self.individual_acks[ledger_id] = BitMap.deserialize(state[at : at + length])
            self.individual_ack_count += len(bitmap)
            at += length
        (count,) = _COUNT.unpack_from(state, at)
        at += _COUNT.size
        for _ in range(count):
            position = Position(*POSITION.unpack_from(state, at))
            at += POSITION.size
            (words,) = _WORDS.unpack_from(state, at)
            at += _WORDS.size
            self.batches.put(position, struct.unpack_from(f">{words}Q", state, at))
            at += 8 * words

    def apply(self, delta: bytes, ledger_list: LedgerList) -> None:
        """Applies a stored delta. Applying one twice changes nothing, so that a replay may begin early. Raises `ValueError` for
        bytes that are none, and has changed nothing then.

        Damage may have removed entries since: an acknowledgement up to one of those counts up to the last that still exists."""
        try:
            kind, body = delta[0], delta[1:]
            if kind == Delta.ENTRIES:
                self.acknowledge(*cursor_deltas.entries_of(body), ledger_list)
            elif kind == Delta.RANGE:
                ledger_id, first, last = cursor_deltas.RANGE.unpack(body)
                self.acknowledge_range(ledger_id, first, last, ledger_list)
            elif kind == Delta.UP_TO:
                self.acknowledge_up_to(ledger_list.mark_at(Position(*POSITION.unpack(body))), ledger_list)
            elif kind == Delta.BATCH:
                self.acknowledge_batch(*cursor_deltas.batch_of(body), ledger_list)
            elif kind == Delta.RESET:
                self.reset(Position(*POSITION.unpack(body)), ledger_list)
            else:
                raise ValueError(f"cursor delta kind {kind} is not known")
        except (struct.error, IndexError) as error:
            raise ValueError(f"a cursor delta of {len(delta)} bytes is cut short, or too long: {error}") from None
        self._forget_ledgers_before(ledger_list.first_id)  # retention dropped them: everything there was acknowledged
        self.batches.drop_ledgers_before(ledger_list.first_id)
