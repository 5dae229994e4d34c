"""The layout of a commit in the log: its header, a checkpoint if due, and a record for each item. Indexes the items too."""

from __future__ import annotations

from typing import NamedTuple

from crc32c import crc32c

from messaging.storage.ledger_store import Buffer
from messaging.storage.local.format import records
from messaging.storage.local.format import summary as summary
from messaging.storage.local.format.records import (
    BLOCK,
    BODY,
    CHECKPOINT,
    COMMIT_BYTES,
    CRC,
    CREATED,
    DELETED,
    KEEP_TURN,
    SEALED,
    CommitHeader,
)
from messaging.storage.local.format.segment import LogPosition
from messaging.storage.local.ledger_state import LedgerState
from messaging.storage.local.write.active import ActiveSegment
from messaging.storage.local.write.queue import Item, only_waits

pack_crc = CRC.pack
end_offsets_bytes = records.end_offsets_bytes

JOINED_PART_BYTES = 4096  # buffers smaller than this on average are joined first: passing each one costs more than copying it
SMALL_BYTES = 1024  # bytes of a block: below this, a separate checksum and buffer cost more than a copy


class Commit(NamedTuple):
    """A commit to be written: `buffers` in order, from `start` to `stop` in the active segment, then `padding_bytes` zeros."""

    buffers: list[Buffer]
    start: int
    stop: int
    padding_bytes: int
    checkpoint: bool  # it contains a checkpoint
    deleted: list[LedgerState]  # ledgers that it deletes


class CommitLayout:
    """Owns the sequence numbers of commits. They begin at `epoch << 40`, so older bytes never continue newer ones."""

    def __init__(self, epoch: int, checkpoint_bytes: int) -> None:
        self._epoch = epoch
        self._sequence = epoch << 40
        self._checkpoint_bytes = checkpoint_bytes

    def checkpoint_due(self, active: ActiveSegment) -> bool:
        return active.offset - active.checkpoint_start >= self._checkpoint_bytes

    def lay_out(self, active: ActiveSegment, items: list[Item], synced: LogPosition) -> Commit | None:
        """Lays out the next commit of `active` and advances it; None if there is nothing to write. `synced`: up to
        where the log is durable. The items must fit."""
        if all(map(only_waits, items)):
            return None  # only items that wait, with nothing to write
        segment = active.segment
        checkpoint = b""
        if self.checkpoint_due(active):
            checkpoint = records.encode(segment.seed, CHECKPOINT, -1, -1, b"", summary.encode(active.checkpoint()))
            active.checkpointed(active.offset)
        start = active.offset
        deleted: list[LedgerState] = []
        parts, size, count = _encode(active, items, start + COMMIT_BYTES + len(checkpoint), deleted)
        size += len(checkpoint)
        self._sequence += 1
        header = CommitHeader(self._sequence, self._epoch, segment.number, start, *synced, size, count + bool(checkpoint))
        parts[:0] = [records.encode_commit(segment.seed, header), checkpoint]
        size += COMMIT_BYTES
        buffers: list[Buffer] = [b"".join(parts)] if size < JOINED_PART_BYTES * len(parts) else parts
        active.offset = start + size
        return Commit(buffers, start, start + size, active.padding(start + size, size), bool(checkpoint), deleted)


def _encode(active: ActiveSegment, items: list[Item], offset: int, deleted: list[LedgerState]) -> tuple[list[Buffer], int, int]:
    """Returns (buffers, bytes, records) for `items`, whose first record will be at `offset`, and indexes them."""
    seed = active.segment.seed
    begin = offset
    parts: list[Buffer] = []
    count = 0
    append, pack, extent_bytes_max = parts.append, BODY.pack, active.extent_bytes_max
    # Consecutive blocks of one ledger are indexed as one.
    following: LedgerState | None = None
    following_from = following_first = following_last = following_bytes = 0
    for state, _, header, data, end_offsets, first, size in items:
        if state is not following or end_offsets is None or offset + size - following_from > extent_bytes_max:
            if following is not None:
                active.block(following, following_first, following_last, following_from, offset - following_from, following_bytes)
                following = None
            if end_offsets is None:
                record = _control(active, state, first, header, deleted)
                if record:
                    parts.append(record)
                    count += 1
                    offset += len(record)
                continue
            following, following_from, following_first = state, offset, first
            following_bytes = 0
        data_bytes = len(data)
        entries = len(end_offsets)
        body = pack(BLOCK, state.block_flags, 0, state.ledger_id, first, entries, len(header), data_bytes)
        body += header + end_offsets_bytes(end_offsets)
        if data_bytes <= SMALL_BYTES:
            body += data
            append(pack_crc(crc32c(body, seed)) + body)
        else:
            append(pack_crc(crc32c(data, crc32c(body, seed), KEEP_TURN)) + body)
            append(data)
        following_last = first + entries - 1
        following_bytes += data_bytes
        offset += size
        count += 1
    if following is not None:
        active.block(following, following_first, following_last, following_from, offset - following_from, following_bytes)
    return parts, offset - begin, count


def _control(active: ActiveSegment, state: LedgerState, type_: int, header: bytes, deleted: list[LedgerState]) -> bytes:
    first = -1
    if type_ == CREATED:
        active.created(state, len(header) + 16)
    elif type_ == SEALED:
        first, length = state.written()
        header = records.LENGTH.pack(length)
        active.sealed(state, first, length)
    elif type_ == DELETED:
        active.deleted(state.ledger_id)
        deleted.append(state)
    else:
        return b""
    return records.encode(active.segment.seed, type_, state.ledger_id, first, header)
