"""What a compaction is not shown: delayed messages that were cancelled, as if nobody had published them. Pure.

It is decided once, when a compaction begins, because both of its passes have to see the same messages.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from pyroaring import BitMap

from messaging.broker.core.compaction.messages import batch_size_of, rewrite
from messaging.broker.core.cursors.ack_sets import AckSets
from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.overrides import Overrides
from messaging.protocol.frames import ProtocolError
from messaging.storage.ledger_store import Block, Position


class Cancelled(NamedTuple):
    """`batches`: the messages that are left of batches of which some were cancelled."""

    entries: EntrySets
    batches: AckSets


def cancelled_now(overrides: Overrides | None) -> Cancelled:
    """Copies."""
    if overrides is None:
        return Cancelled({}, AckSets())
    return Cancelled(entry_sets.copied(overrides.cancelled), overrides.batches.copy())


def concerns(cancelled: Cancelled, block: Block) -> bool:
    """Whether something of `block` is cancelled."""
    entries = cancelled.entries.get(block.ledger_id)
    if entries is not None and entries.range_cardinality(block.first_entry, block.last_entry + 1):
        return True
    return bool(cancelled.batches.entries_in(block.ledger_id, block.first_entry, block.last_entry))


def without_cancelled(block: Block, cancelled: Cancelled, bytes_max: int) -> Block:
    """`block` with holes for what is cancelled. In batches those messages are marked as compacted out; a batch that cannot be
    looked into stays whole. `bytes_max`: of an unpacked batch. Slow where there are batches."""
    gone = cancelled.entries.get(block.ledger_id, BitMap())
    pieces, stops, begin, size = list[bytes](), array("I"), 0, 0
    for entry_id, stop in enumerate(block.end_offsets, block.first_entry):
        if stop > begin and entry_id not in gone:
            frame = bytes(memoryview(block.data)[begin:stop])
            left = cancelled.batches.bits(Position(block.ledger_id, entry_id))
            pieces.append(frame if left is None else _with(frame, left, bytes_max))
            size += len(pieces[-1])
        stops.append(size)
        begin = stop
    return Block(block.ledger_id, block.first_entry, block.header, b"".join(pieces), stops)


def _with(frame: bytes, left: int, bytes_max: int) -> bytes:
    """A batch of which the messages `left` are left, as bits."""
    size = batch_size_of(frame)
    try:
        return rewrite(frame, bytes_max, [bool(left >> index & 1) for index in range(size)]) if size > 0 else frame
    except (ProtocolError, ValueError):
        return frame
