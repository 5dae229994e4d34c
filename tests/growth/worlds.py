"""States with so much in them."""

from __future__ import annotations

from messaging.broker.core.chunks import Chunk
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.delayed.index import MemoryIndex
from messaging.broker.core.delayed.overrides import Overrides
from messaging.broker.core.delayed.topic_delays import DelayPolicy, TopicDelays
from messaging.broker.core.dispatch.chunk_sets import ChunkSets
from messaging.broker.core.dispatch.key_shared_mode import KeySharedSettings
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from tests.support.worlds.subscription_world import Sink, World, received

BLOCK = 500
KEYS = 50
START_MS = 1_700_000_000_000
FEW_POINTS = KeySharedSettings(points=5)  # of each consumer on the ring
STRICT = DelayPolicy(True, 1_000, True)


def holding(size: int, kind: SubscriptionType, *, permits: int | None = None) -> tuple[World, Consumer]:
    """A consumer that holds `size` entries of one ledger, as far as it has permits for them."""
    world = World(unacked_max=1 << 30)
    consumer = world.attach(kind, permits=size if permits is None else permits)
    for _ in range(0, size, BLOCK):
        world.publish_keyed([f"key-{number % KEYS}" for number in range(BLOCK)])
    received(consumer)
    return world, consumer


def rejected_often(size: int, kind: SubscriptionType) -> tuple[World, Consumer]:
    """It rejected all of them twice, and holds them again."""
    world, consumer = holding(size, kind)
    for _ in range(2):
        world.subscription.redeliver(consumer, None)
        world.flow(consumer, size)
        received(consumer)
    return world, consumer


def with_consumers(size: int, kind: SubscriptionType) -> tuple[World, list[Consumer]]:
    world = World(key_shared=FEW_POINTS)
    return world, [world.attach(kind, name=f"c{number}") for number in range(size)]


class DelayedTopic:
    """`size` messages that are due at the same moment; `rescheduled`: each to another one."""

    def __init__(self, size: int, *, rescheduled: bool = False) -> None:
        self.due_ms, self.later_ms = START_MS + 60_000, START_MS + 120_000
        self.delays = TopicDelays(MemoryIndex(), lambda size: True)
        self.delays.published(1, 0, [self.due_ms] * size, START_MS)
        for entry in range(size) if rescheduled else ():
            self.delays.reschedule(Position(1, entry), self.later_ms, self.due_ms)
        while self.delays.index.take_due(START_MS).entries:  # what is near is sorted ahead of time
            pass

    @property
    def overrides(self) -> Overrides:
        assert self.delays.overrides is not None
        return self.delays.overrides

    def advance(self, now_ms: int) -> None:
        self.delays.advance(now_ms, STRICT)


def chunk_sets(size: int) -> tuple[ChunkSets, Consumer]:
    """A consumer has the first of three chunks of so many messages, and then the second ones."""
    consumer = Consumer(1, "c", Sink())
    sets = ChunkSets(lambda ledger_id, entries: None)
    for number in range(2 * size):
        chunk = Chunk(b"%d" % (number % size), number // size, 3)
        sets.sent(consumer, Position(1, number), chunk, 0, counted=True)
    return sets, consumer
