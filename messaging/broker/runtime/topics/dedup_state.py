"""Keeping what deduplication knows of a topic: a snapshot in MetaStore, and what follows it in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from messaging.broker.core.dedup import Deduplication
from messaging.broker.core.entries import scanned
from messaging.storage.block_header import decode
from messaging.storage.seam import Position

if TYPE_CHECKING:
    from messaging.broker.runtime.topics.topic import Topic

SNAPSHOT_ENTRIES = 10_000  # so many entries are replayed at the most when a topic is loaded
REPLAY_BYTES = 4 << 20
UNUSED_MS_MAX = 6 * 3_600_000  # a name that sent nothing for so long is forgotten (Pulsar: 360 minutes)


def _key(topic: Topic) -> str:
    return f"dedup:{topic.text}"


async def begin(topic: Topic) -> None:
    """Turns deduplication on: from the snapshot and the log after it, or from here where there is none."""
    stored = await topic.services.storage.meta.get_value(_key(topic))
    dedup = Deduplication.restore(stored)
    if stored:
        await _replay(topic, dedup)
    topic.inlet.dedup = dedup
    if not stored:
        await save(topic)


async def _replay(topic: Topic, dedup: Deduplication) -> None:
    position = topic.chain.settle(topic.chain.next_after(dedup.snapshot_position))
    while topic.chain.holds(position):
        blocks = await topic.ledger.read(position, entries_max=SNAPSHOT_ENTRIES, bytes_max=REPLAY_BYTES)
        for block in blocks:
            header = decode(block.header)
            first = Position(block.ledger_id, block.first_entry)
            dedup.replay(header.producer, scanned(block), first, header.broker_time_ms)
        if not blocks:
            break
        position = topic.chain.next_after(Position(position.ledger_id, blocks[-1].last_entry))


async def save(topic: Topic) -> None:
    """Stores the state as of the last confirmed entry; retention may then trim up to there."""
    dedup = topic.inlet.dedup
    if dedup is None:
        return
    dedup.entries_since_snapshot = 0
    dedup.forget_unused(topic.services.storage.old_ms() - UNUSED_MS_MAX)
    position = topic.chain.last
    await topic.services.storage.meta.put_value(_key(topic), dedup.snapshot(position))
    dedup.snapshot_position = position


async def end(topic: Topic) -> None:
    """Turns deduplication off and forgets what was known."""
    topic.inlet.dedup = None
    await topic.services.storage.meta.put_value(_key(topic), b"")
