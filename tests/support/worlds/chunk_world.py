"""A subscription of a topic with chunked messages, without a loop."""

from __future__ import annotations

from array import array

from messaging.broker.core.entries import EntryBlock
from messaging.storage.ledger_store import Position
from tests.support.clients.chunking import chunk_frame
from tests.support.worlds.subscription_world import World


class ChunkWorld(World):
    def publish_frames(self, *frames: bytes) -> list[Position]:
        """One block."""
        ledger, first = self.ledger_list.ids[-1], self.ledger_list.lasts[-1] + 1
        ends = array("I")
        for frame in frames:
            ends.append(len(frame) + (ends[-1] if ends else 0))
        self.blocks.append(EntryBlock(ledger, first, b"".join(frames), ends, self.now_ms, len(frames), chunked=True))
        self.ledger_list.confirm(ledger, first + len(frames) - 1)
        self.dispatch()
        return [Position(ledger, first + index) for index in range(len(frames))]


def chunks_of(sequence_id: int, *ids: int, chunks: int = 3, key: str = "") -> list[bytes]:
    return [chunk_frame(sequence_id, b"x", index, chunks, key=key) for index in ids]
