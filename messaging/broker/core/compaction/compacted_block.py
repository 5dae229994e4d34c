"""Blocks of a compacted ledger, under the ids of the original entries. Pure."""

from __future__ import annotations

from typing import ClassVar

from pyroaring import BitMap

from messaging.broker.core.entries import EntryBlock, from_log
from messaging.storage.ledger_store import Block
from messaging.storage.managed.compacted_ids import original_position


class CompactedBlock(EntryBlock):
    """`present` has the ids of the entries that were kept; the others have no bytes and count no messages."""

    __slots__ = ("present",)
    compacted: ClassVar[bool] = True
    present: BitMap


def compacted_block(block: Block, base_ledger_id: int) -> CompactedBlock:
    """From the compacted ledger with this base. Raises `ValueError` if it is none of our blocks."""
    ledger_id, first_entry = original_position(block.first_entry, base_ledger_id)
    return block_with_holes(Block(ledger_id, first_entry, block.header, block.data, block.end_offsets))


def block_with_holes(block: Block) -> CompactedBlock:
    """A block of which some entries may be missing. Raises `ValueError` if it is none of our blocks."""
    plain = from_log(block)
    begin, kept = 0, []
    for index, stop in enumerate(plain.end_offsets):
        if stop > begin:
            kept.append(index)
        begin = stop
    counts = None
    if len(kept) < block.count:
        each_one = plain.message_count == len(kept)
        plain.uniform = False
        counts = [0] * block.count
        for index in kept:
            counts[index] = 1 if each_one else plain.messages_of(plain.first_entry + index)
    compacted = CompactedBlock(
        plain.ledger_id,
        plain.first_entry,
        plain.data,
        plain.end_offsets,
        plain.broker_time_ms,
        plain.message_count,
        plain.marker,
        counts=counts,
        chunked=plain.chunked,
    )
    compacted.uniform = counts is None and compacted.uniform
    compacted.present = BitMap([plain.first_entry + index for index in kept])
    return compacted
