"""Producers that give every message a key of its own: what Key_Shared remembers of them stays small, and is charged."""

from __future__ import annotations

from array import array

import pytest
from pyroaring import BitMap

from messaging.broker.core.cursors.cursor_memory import CursorMemory
from messaging.broker.core.dispatch.known_hashes import BLOCK_BYTES, HASH_BYTES, PRUNE_AT, SPARSE, KnownHashes
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.core.subscription_type import SubscriptionType
from tests.support.worlds.subscription_world import World, received

ONE_ALONE = BLOCK_BYTES + HASH_BYTES * SPARSE  # the most that the hash of one entry takes


@pytest.mark.parametrize(("keys", "block"), [(100_000, 1), (1_000_000, 100), (1_000_000, 5_000)])
@pytest.mark.parametrize("unacked", [0, 1_000])
def test_a_million_keys_take_as_much_memory_as_those_that_are_in_use(keys: int, block: int, unacked: int) -> None:
    known, most, pruned = KnownHashes(), 0, 0
    size = block * HASH_BYTES + BLOCK_BYTES
    needed = BitMap(range(0, keys, keys // unacked)) if unacked else BitMap()  # a consumer never acknowledges these
    for first in range(0, keys, block):
        known.keep(1, first, array("I", range(first, first + block)))
        most = max(most, known.memory_bytes)
        if known.to_be_pruned:
            pruned += 1
            known.prune({1: needed & BitMap(range(first + block))})
    assert most <= max(PRUNE_AT, 2 * unacked * ONE_ALONE) + size
    assert pruned <= keys // block * size // (PRUNE_AT // 2), "and it is not looked through for every message"
    assert [key for key, _ in known.of(1, needed)] == list(needed)


@pytest.mark.parametrize("block", [1, 50])
def test_a_flood_of_keys_through_a_subscription(block: int) -> None:
    world = World()
    consumers = [world.attach(SubscriptionType.KEY_SHARED, 1_000_000) for _ in range(3)]
    limiter = MemoryLimiter(64 << 20)
    memory = CursorMemory(limiter.cursors)
    strategy, charged = world.subscription.strategy, []
    ring_bytes = strategy.memory_bytes
    for number in range(3_000):
        world.publish_keyed([f"key-{number}-{index}" for index in range(block)])
        for consumer in consumers:
            world.ack(consumer, *received(consumer))
        world.blocks.clear()
        memory.changed("acme", world.subscription)
        memory.measure()
        charged.append(limiter.cursors.used_bytes)
        assert charged[-1] >= strategy.memory_bytes
    assert world.subscription.backlog_entries == 0
    assert max(charged) > PRUNE_AT // 2, "what is remembered is charged"
    assert max(charged) <= PRUNE_AT + ring_bytes + 10_000
    for consumer in consumers:
        world.detach(consumer)
    memory.changed("acme", world.subscription)
    memory.measure()
    assert strategy.memory_bytes == 0 and limiter.cursors.used_bytes < 1_000
