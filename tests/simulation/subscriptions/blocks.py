"""What producers send, as blocks of entries."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from messaging.broker.core.entries import EntryBlock
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import Position


class Draft(NamedTuple):
    """An entry that is to be published. `chunk`: number of the message, which of its chunks, and of how many."""

    producer: str
    key: str
    size: int = 1
    due_ms: int = 0
    chunk: tuple[int, int, int] | None = None


def block_of(drafts: Sequence[Draft], first: Position, now_ms: int) -> EntryBlock:
    pieces = [_frame(draft.key, draft.size) if draft.chunk is None else _chunk_frame(draft.key, *draft.chunk) for draft in drafts]
    times = [draft.due_ms for draft in drafts]
    sizes = [draft.size for draft in drafts]
    return EntryBlock(
        first.ledger_id,
        first.entry_id,
        b"".join(pieces),
        array("I", accumulate(map(len, pieces))),
        now_ms,
        sum(sizes),
        counts=sizes,
        deliver_at_ms=times if any(times) else None,
        chunked=any(draft.chunk for draft in drafts),
    )


@cache
def _frame(key: str, size: int) -> bytes:
    metadata = pb.Metadata(producer_name="p", sequence_id=1, publish_time=1, partition_key=key)
    if size > 1:
        metadata.num_messages_in_batch = size
    return frames.build_send(1, 1, metadata, b"x", size)


def _chunk_frame(key: str, message: int, chunk: int, chunks: int) -> bytes:
    metadata = pb.Metadata(
        producer_name="p",
        sequence_id=1,
        publish_time=1,
        partition_key=key,
        uuid=f"m{message}",
        chunk_id=chunk,
        num_chunks_from_msg=chunks,
        total_chunk_msg_size=chunks,
    )
    return frames.build_send(1, 1, metadata, b"x", is_chunk=True)
