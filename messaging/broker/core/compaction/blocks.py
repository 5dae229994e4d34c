"""Puts the entries that a compaction keeps into blocks again. Pure."""

from __future__ import annotations

from array import array

from messaging.broker.core.compaction.messages import messages_in
from messaging.storage.block_header import CHUNKS, BlockHeader
from messaging.storage.ledger_store import Block, Position
from messaging.storage.managed.compacted_ids import HOLES_MAX

BLOCK_BYTES = 64 << 10  # a block that is larger takes no further entry
BLOCK_IDS_MAX = 8_000  # of one block, holes included


class BlockBuilder:
    """Entries of one ledger that lie close together share a block."""

    def __init__(self) -> None:
        self._ledger_id = -1
        self._first_entry = 0
        self._pieces: list[bytes] = []
        self._end_offsets = array("I")
        self._messages = 0
        self._broker_time_ms = 0
        self._chunked = False
        self._full: list[Block] = []
        self.full_bytes = 0  # of the entries in complete blocks

    def add(self, position: Position, frame: bytes, broker_time_ms: int, *, chunked: bool) -> None:
        """The next entry: a whole SEND frame."""
        size = self._end_offsets[-1] if self._end_offsets else 0
        gap = position.entry_id - self._first_entry - len(self._end_offsets)
        if (
            not size
            or position.ledger_id != self._ledger_id
            or gap > HOLES_MAX
            or size >= BLOCK_BYTES
            or len(self._end_offsets) + gap >= BLOCK_IDS_MAX
        ):
            self._end_block()
            self._ledger_id, self._first_entry = position
            self._broker_time_ms = broker_time_ms
            size = gap = 0
        self._end_offsets.extend([size] * gap)
        self._end_offsets.append(size + len(frame))
        self._pieces.append(frame)
        self._messages += messages_in(frame)
        self._chunked |= chunked

    def _end_block(self) -> None:
        if not self._pieces:
            return
        flags = CHUNKS if self._chunked else 0
        header = BlockHeader(self._broker_time_ms, self._messages, 0, 0, b"", flags).encode()
        data = b"".join(self._pieces)
        self._full.append(Block(self._ledger_id, self._first_entry, header, data, self._end_offsets))
        self.full_bytes += len(data)
        self._pieces, self._end_offsets, self._messages, self._chunked = [], array("I"), 0, False

    def take(self, *, all_of_them: bool = False) -> list[Block]:
        """The blocks that are complete; in the end all of them."""
        if all_of_them:
            self._end_block()
        full, self._full, self.full_bytes = self._full, [], 0
        return full
