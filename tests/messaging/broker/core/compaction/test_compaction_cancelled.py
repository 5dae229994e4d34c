"""What of a block a compaction is shown, where delayed messages were cancelled."""

from __future__ import annotations

from array import array

import pytest
from pyroaring import BitMap

from messaging.broker.core.compaction.cancelled import Cancelled, cancelled_now, concerns, without_cancelled
from messaging.broker.core.compaction.messages import LEFT_OUT, VALUE, look_into
from messaging.broker.core.delayed.overrides import Overrides
from messaging.storage.block_header import BlockHeader
from messaging.storage.ledger_store import Block, Position
from messaging.storage.managed.ledger_list import LedgerList
from messaging.storage.meta_store import CompactedLedger
from tests.support.compacting import batch, keyed

BYTES_MAX = 1 << 20
FRAMES = [keyed("a", b"1"), batch([("a", b"2"), ("b", b"1"), ("c", b"1")]), keyed("b", b"2")]


def block(ledger_id: int = 5, first_entry: int = 10, frames: list[bytes] = FRAMES) -> Block:
    stops = array("I")
    for frame in frames:
        stops.append((stops[-1] if stops else 0) + len(frame))
    return Block(ledger_id, first_entry, BlockHeader(1, len(frames), 0, 0, b"", 0).encode(), b"".join(frames), stops)


def entries_of(shown: Block) -> list[bytes]:
    """A hole is empty."""
    return [bytes(shown.data[first:stop]) for first, stop in zip([0, *shown.end_offsets], shown.end_offsets, strict=False)]


def decided(*entries: int, batches: dict[int, int] | None = None, ledger_id: int = 5) -> Cancelled:
    overrides = Overrides()
    overrides.cancel(ledger_id, BitMap(entries))
    for entry_id, left in (batches or {}).items():
        overrides.batches.put(Position(ledger_id, entry_id), (left,))
    return cancelled_now(overrides)


@pytest.mark.parametrize("entries", [[10], [11], [12], [10, 12], [10, 11, 12]])
def test_cancelled_entries_are_holes(entries: list[int]) -> None:
    cancelled = decided(*entries)
    assert concerns(cancelled, block())
    shown = without_cancelled(block(), cancelled, BYTES_MAX)
    assert (shown.first_entry, shown.last_entry) == (10, 12)
    assert entries_of(shown) == [b"" if 10 + at in entries else frame for at, frame in enumerate(FRAMES)]


def test_cancelled_messages_of_a_batch_are_compacted_out() -> None:
    cancelled = decided(batches={11: 0b101})
    assert concerns(cancelled, block())
    first, rest, last = entries_of(without_cancelled(block(), cancelled, BYTES_MAX))
    assert (first, last) == (FRAMES[0], FRAMES[2])
    assert look_into(rest, BYTES_MAX).kinds == bytes([VALUE, LEFT_OUT, VALUE])


def test_an_encrypted_batch_stays_whole() -> None:
    frames = [batch([("a", b"1"), ("b", b"1")], encrypted=True)]
    assert entries_of(without_cancelled(block(frames=frames), decided(batches={10: 0b1}), BYTES_MAX)) == frames


def test_other_blocks_are_not_concerned() -> None:
    assert not concerns(decided(9, 13, batches={9: 1, 13: 1}), block())
    assert not concerns(decided(10, ledger_id=4), block())
    assert not concerns(cancelled_now(None), block())


def test_the_decisions_are_those_of_the_beginning() -> None:
    overrides = Overrides()
    overrides.cancel(5, BitMap([10]))
    cancelled = cancelled_now(overrides)
    overrides.cancel(5, BitMap([11]))
    assert cancelled.entries == {5: BitMap([10])}


def test_a_decision_is_kept_until_neither_its_ledger_nor_the_compacted_one_has_it() -> None:
    overrides, ledger_list = Overrides(), LedgerList([(5, 20), (6, 20)])
    overrides.cancel(5, BitMap([1, 2]))
    ledger_list.compacted = CompactedLedger(9, Position(5, 20), 3, 1, 1, Position(5, 2), -1, 0)
    before = cancelled_now(overrides)
    overrides.cancel(5, BitMap([3]))  # while the compaction ran
    overrides.compacted_without(before.entries, ledger_list)
    assert overrides.cancelled_count == 3  # the ledger has them still
    ledger_list.drop_first()
    overrides.forget(ledger_list, 0, {})
    assert overrides.cancelled_count == 3
    overrides.compacted_without(before.entries, ledger_list)
    assert (overrides.cancelled, overrides.cancelled_count) == ({5: BitMap([3])}, 1)
    ledger_list.compacted = None
    overrides.forget(ledger_list, 0, {})
    assert not overrides
