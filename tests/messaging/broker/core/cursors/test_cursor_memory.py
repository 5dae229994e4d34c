"""What is remembered of chunks is charged at once, and forgotten where there is no memory."""

from __future__ import annotations

from messaging.broker.core.cursors.cursor_memory import CursorMemory
from messaging.broker.core.dispatch.chunk_sets import CHUNK_BYTES, CHUNKS_MIN
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.core.subscription_type import SubscriptionType
from tests.support.worlds.chunk_world import ChunkWorld, chunks_of

BUDGET_BYTES = 16 * 200 * CHUNK_BYTES  # the account of cursors has room for 200 chunks, and one tenant for 100


class Tenant:
    """Its subscriptions, each with a consumer that was sent first chunks only."""

    def __init__(self) -> None:
        self.account = MemoryLimiter(BUDGET_BYTES).cursors
        self.memory = CursorMemory(self.account)

    def receives(self, world: ChunkWorld, first: int, count: int) -> None:
        for uuid in range(first, first + count):
            world.publish_frames(*chunks_of(uuid, 0))
            self.memory.chunks_sent("acme", world.subscription)

    def subscription(self) -> ChunkWorld:
        world = ChunkWorld()
        world.attach(SubscriptionType.SHARED, permits=100_000)
        return world


def remembered(world: ChunkWorld) -> int:
    chunks = world.subscription.state.chunks
    return 0 if chunks is None else chunks.memory_bytes // CHUNK_BYTES


def test_a_tenant_s_chunks_take_no_more_than_its_share_however_many_subscriptions_it_has() -> None:
    tenant = Tenant()
    worlds = [tenant.subscription() for _ in range(20)]
    for world in worlds:
        tenant.receives(world, 1, 150)
    assert remembered(worlds[0]) == 100
    assert all(remembered(world) == CHUNKS_MIN for world in worlds[2:]), "each can still be sent a whole message"
    assert tenant.account.used_bytes == CHUNK_BYTES * sum(map(remembered, worlds))
    assert tenant.account.used_bytes <= CHUNK_BYTES * (101 + CHUNKS_MIN * 19)


def test_the_oldest_are_forgotten_and_what_waited_of_them_is_sent() -> None:
    tenant = Tenant()
    world = tenant.subscription()
    tenant.receives(world, 1, 101)
    chunks = world.subscription.state.chunks
    assert chunks is not None and remembered(world) == 100
    tenant.memory.changed("acme", world.subscription)
    tenant.memory.measure()
    assert tenant.account.used_bytes >= 100 * CHUNK_BYTES
    tenant.memory.release("acme", world.subscription)
    assert tenant.account.used_bytes == 0


def test_memory_of_acknowledged_entries_is_given_back() -> None:
    tenant = Tenant()
    world = tenant.subscription()
    sent = world.publish_frames(*chunks_of(1, 0, 1, 2))
    tenant.memory.chunks_sent("acme", world.subscription)
    assert tenant.account.used_bytes == 3 * CHUNK_BYTES
    (consumer,) = world.subscription.consumers
    world.ack(consumer, sent[0])
    assert remembered(world) == 0, "all of a message are acknowledged together"
    tenant.receives(world, 2, 1)
    assert tenant.account.used_bytes == CHUNK_BYTES
