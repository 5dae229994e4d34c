"""The read position of a consumer that reads the compacted topic: up to the compaction horizon entries come from the compacted
ledger, from there on from the ledgers of the topic. Pure.

Positions are those of the original entries, also where those are gone. Only `next_position` names the place in the compacted
ledger, which is where the entry is found; the dispatcher hands the block that it found to `enter`.

What a compaction did not keep counts as acknowledged once a durable subscription reads past it: nobody is ever sent it, so that
nothing else would acknowledge it.
"""

from __future__ import annotations

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ranges_of
from messaging.broker.core.compaction.compacted_block import CompactedBlock
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.dispatch.sources import ReadPosition
from messaging.storage.ledger_store import Position
from messaging.storage.managed.compacted_ids import compacted_id, original_position
from messaging.storage.managed.ledger_list import LedgerList


class CompactedReading(ReadPosition):
    __slots__ = ("_sent",)

    def __init__(self, cursor: Cursor, ledger_list: LedgerList) -> None:
        super().__init__(cursor, ledger_list)
        self._sent: BitMap | None = None  # the entries to send of the block of the compacted ledger that was entered
        self.rewind()

    def next_position(self) -> Position | None:
        compacted = self._ledger_list.compacted
        if compacted is not None and self.position <= compacted.last:
            return Position(compacted.ledger_id, compacted_id(self.position, compacted.base_ledger_id))
        self._sent = None
        if compacted is not None and self.position <= compacted.horizon:
            self.position = self._ledger_list.next_after(compacted.horizon)
        return super().next_position()

    def enter(self, block: CompactedBlock, cancelled: BitMap | None, *, durable: bool) -> tuple[Position, list[bytes]]:
        """`block` is where `next_position` pointed to, or the first behind it. Returns its first entry to send, and for a durable
        subscription the deltas of what is passed over on the way and in the block. `cancelled`: entries of its ledger that are
        passed over too; their cursors know them while the ledger exists."""
        self._sent = block.present if cancelled is None else block.present - cancelled
        former, ledger_id = self.position, block.ledger_id
        first = max(former.entry_id, block.first_entry) if former.ledger_id == ledger_id else block.first_entry
        self.position = at = Position(ledger_id, block.present.next_set_bit(first))
        if not durable:
            return at, []
        deltas = self._pass_over(former, at)
        missing = BitMap(range(at.entry_id, block.last_entry + 1)) - block.present
        if missing:
            deltas.append(self._cursor.acknowledge(ledger_id, list(missing), self._ledger_list))
        compacted = self._ledger_list.compacted
        if compacted is not None and Position(ledger_id, block.last_entry) >= compacted.last:
            deltas += self._pass_over_end()
        return at, [delta for delta in deltas if delta]

    def pass_over_end(self) -> list[bytes]:
        """The deltas of what is passed over if nothing is left to read in the compacted ledger."""
        compacted = self._ledger_list.compacted
        if compacted is None or self.position <= compacted.last:
            return []
        return [delta for delta in self._pass_over_end() if delta]

    def _pass_over_end(self) -> list[bytes]:
        compacted = self._ledger_list.compacted
        assert compacted is not None
        ledger_id, entry_id = max(self.position, Position(compacted.last.ledger_id, compacted.last.entry_id + 1))
        return self._pass_over(Position(ledger_id, entry_id), Position(compacted.horizon.ledger_id, compacted.horizon.entry_id + 1))

    def _pass_over(self, first: Position, stop: Position) -> list[bytes]:
        """Acknowledges the entries from `first` to before `stop` that still exist."""
        ledger_list, cursor = self._ledger_list, self._cursor
        between = ledger_list.ranges(Position(first.ledger_id, first.entry_id - 1), Position(stop.ledger_id, stop.entry_id - 1))
        return [cursor.acknowledge_range(*entry_range, ledger_list) for entry_range in between]

    def unacked_ranges(self, ledger_id: int, first: int, last: int) -> list[tuple[int, int]]:
        unacked = super().unacked_ranges(ledger_id, first, last)
        sent = self._sent
        if sent is None:
            return unacked
        return [unacked_range for begin, end in unacked for unacked_range in ranges_of(sent & BitMap(range(begin, end + 1)))]

    def advance(self, ledger_id: int, first: int, stop: int) -> None:
        self._move_to(Position(ledger_id, stop - 1))

    def rewind(self) -> None:
        self._move_to(self._cursor.mark_delete)

    def skip_past(self, mark: Position) -> None:
        if mark >= self.position:
            self._move_to(mark)

    def _move_to(self, last: Position) -> None:
        """Everything up to `last` was sent, or need not be. Up to the horizon the position may be of a ledger that is gone."""
        if last < self._ledger_list.horizon:
            self.position = Position(last.ledger_id, last.entry_id + 1)
        else:
            self.position = self._ledger_list.next_after(last)

    def skip_lost(self, ledger_id: int, stop: int) -> bool:
        compacted = self._ledger_list.compacted
        if compacted is None or compacted.ledger_id != ledger_id:
            return False
        self.position = max(self.position, original_position(stop, compacted.base_ledger_id))
        return True
