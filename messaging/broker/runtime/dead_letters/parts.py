"""Reads the entries of a move of dead letters, and appends its parts to the target, one block each."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from messaging.broker.core.dead_letters.dead_entries import DeadEntry, DeadLetterPolicy, Origin, frames_of, producer_name
from messaging.broker.core.dead_letters.moves import SEARCHED_MAX, FoundEntry, Move, MoveEntries, Part
from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.dead_letters.targets import MoveTarget
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.errors import NotReady, StorageFailed
from messaging.fairness.in_thread import in_thread
from messaging.protocol.batch import UNPACKED_TIMES_MAX
from messaging.storage.ledger_store import Position

log = structlog.get_logger("broker.dead_letters")


async def select(topic: PersistentTopic, subscription: Subscription) -> list[FoundEntry]:
    """What the next move takes, in the order in which it is appended. Raises `StorageFailed`."""
    chosen = MoveEntries()
    for position in subscription.state.redeliveries.first_dead(SEARCHED_MAX):
        if chosen.full:
            break
        block = await topic.entries.block_at(position)
        if block is None:
            raise StorageFailed(f"entry {position.ledger_id}:{position.entry_id} of {topic.text} does not exist any more")
        index, messages = position.entry_id - block.first_entry, block.messages_of(position.entry_id)
        size = block.bytes_in(index, index + 1) * (1 if messages == 1 else UNPACKED_TIMES_MAX)
        chosen.offer(FoundEntry(position, size, messages, block.chunk_at(index) if block.chunked else None))
    return chosen.ordered()


class DeadLetterParts:
    """`memory`: what is unpacked at a time is charged to the tenant of the source."""

    def __init__(self, memory: MemoryAccount, now_ms: Callable[[], int], unpacked_bytes_max: int) -> None:
        self._memory = memory
        self._now_ms = now_ms
        self._unpacked_bytes_max = unpacked_bytes_max

    async def append(
        self,
        topic: PersistentTopic,
        subscription: Subscription,
        policy: DeadLetterPolicy,
        target: MoveTarget,
        part: Part,
        wanted: list[tuple[Position, int]],
        *,
        still: Callable[[list[DeadEntry]], bool],
    ) -> int | None:
        """`wanted`: the entries of the part and how often each was asked for. Appends nothing and returns None unless they are
        `still` to be moved; else returns how many messages it appended, when they are durable. Raises a `MagnetarError`."""
        entries, size = await self._load(topic, subscription, wanted)
        tenant = topic.name.tenant
        if not self._memory.allows(tenant, size):
            raise NotReady(f"there is not enough memory to move {size} bytes of dead letters")
        self._memory.take(tenant, size)
        try:
            origin = Origin(topic.text, subscription.name, topic.name.partition)
            name, now_ms = producer_name(policy.policy_id), self._now_ms()
            made = await in_thread(
                lambda: list(frames_of(origin, entries, name, part, now_ms, self._unpacked_bytes_max))  # decompression
            )
            if not still(entries):
                return None
            if made:
                await target.append([frame for frame, _ in made], policy.policy_id, part.sequence_id)
        finally:
            self._memory.give(tenant, size)
        return sum(count for _, count in made)

    async def _load(
        self, topic: PersistentTopic, subscription: Subscription, wanted: list[tuple[Position, int]]
    ) -> tuple[list[DeadEntry], int]:
        """The entries, and how many bytes to make room for."""
        loaded, size = [], 0
        for position, redeliveries in wanted:
            block = await topic.entries.block_at(position)
            if block is None:  # it was acknowledged in the meantime, and retention took it
                log.warning(
                    "dead_letters.entry_is_gone", topic=topic.text, ledger_id=position.ledger_id, entry_id=position.entry_id
                )
                continue
            stored, messages = block.payload(position.entry_id), block.messages_of(position.entry_id)
            size += len(stored) * (1 if messages == 1 else UNPACKED_TIMES_MAX)
            loaded.append(DeadEntry(position, stored, subscription.cursor.batches.bits(position), redeliveries, messages))
        return loaded, size


def wanted_of(move: Move, part: int, subscription: Subscription) -> list[tuple[Position, int]]:
    if move.parts:
        return move.entries_of(part)
    counts = subscription.state.redeliveries.counts
    return [(Position(*entry), counts.of(Position(*entry))) for entry in move.entries]
