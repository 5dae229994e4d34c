"""What the event loop calls, beside how much there may be: each row makes a state with so many entries, consumers or messages and
returns the call that is measured, and says how the steps of the call may grow with it."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from pyroaring import BitMap

from messaging.broker.core.chunks import Chunk
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.cursor_memory import CursorMemory
from messaging.broker.core.delayed.overrides import Overrides
from messaging.broker.core.diagnosis.explain import DeliveryState, explain
from messaging.broker.core.diagnosis.trace import trace_in
from messaging.broker.core.dispatch.key_shared_mode import KeySharedMode
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.http.websocket.message_queue import MessageQueue
from messaging.broker.runtime.local.messages import DeliveredMessage, MessagePosition
from messaging.broker.runtime.local.shared_permits import SharedPermits
from messaging.fairness.queue import FairQueue
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.managed.ledger_list import LedgerList
from tests.growth.worlds import BLOCK, DelayedTopic, chunk_sets, holding, rejected_often, with_consumers
from tests.support.worlds.subscription_world import Sink, World

Act = Callable[[], object]
EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = (
    SubscriptionType.EXCLUSIVE,
    SubscriptionType.SHARED,
    SubscriptionType.FAILOVER,
    SubscriptionType.KEY_SHARED,
)
PARTS_MAX = 50_000  # batches of which a part is acknowledged: a subscription takes no more of them


class Growth(IntEnum):
    """How many times as many steps for ten times as much, as a power of ten."""

    CONSTANT = 0
    LINEAR = 1


class EntryPoint(NamedTuple):
    name: str
    growth: Growth
    made: Callable[[int], Act]


ENTRY_POINTS: list[EntryPoint] = []


def entry_point(name: str, growth: Growth = Growth.CONSTANT) -> Callable[[Callable[[int], Act]], Callable[[int], Act]]:
    def add(made: Callable[[int], Act]) -> Callable[[int], Act]:
        ENTRY_POINTS.append(EntryPoint(name, growth, made))
        return made

    return add


def of_types(name: str, growth: Growth, *kinds: SubscriptionType) -> Callable[[Callable[[int, SubscriptionType], Act]], None]:
    def add(made: Callable[[int, SubscriptionType], Act]) -> None:
        for kind in kinds:
            ENTRY_POINTS.append(EntryPoint(f"{name}, {kind.name}", growth, lambda size, kind=kind: made(size, kind)))  # type: ignore[misc]

    return add


# --- permits and sending


@entry_point("asking for a message of so many partitions that have some")
def _asking(size: int) -> Act:
    turns: list[Callable[[], None]] = []
    asked_for = SharedPermits(turns.append)
    partitions = [_Partition() for _ in range(size)]
    for partition in partitions:
        asked_for.add(partition)

    def ask() -> None:
        asked_for.ask(1)
        turns.pop(0)()

    return ask


@entry_point("one partition is closed beside queued messages of many others")
def _withdrawing(size: int) -> Act:
    queue = MessageQueue()
    queue.extend(DeliveredMessage(MessagePosition(1, number, -1, number), b"", 0) for number in range(size))
    return lambda: queue.take_out(size // 2)


class _Partition:
    def serve(self, permits: int) -> None: ...


@of_types("flow beside entries that are held", Growth.CONSTANT, *SubscriptionType)
def _flow(size: int, kind: SubscriptionType) -> Act:
    world, consumer = holding(size, kind)
    return lambda: world.flow(consumer, 1)


@of_types("sending all that is stored", Growth.LINEAR, *SubscriptionType)
def _sending(size: int, kind: SubscriptionType) -> Act:
    world, consumer = holding(size, kind, permits=0)
    consumer.permits = size
    return lambda: world.flow(consumer, 1)


@of_types("flow of one of many consumers", Growth.CONSTANT, SHARED, FAILOVER, KEY_SHARED)
def _flow_among(size: int, kind: SubscriptionType) -> Act:
    world, consumers = with_consumers(size, kind)
    world.subscription.can_dispatch()
    return lambda: (consumers[-1].flow(1, 0), world.subscription.can_dispatch())


# --- acknowledging


@of_types("acknowledging one of many", Growth.CONSTANT, *SubscriptionType)
def _acknowledge(size: int, kind: SubscriptionType) -> Act:
    world, consumer = holding(size, kind)
    return lambda: world.ack(consumer, Position(1, size // 2))


@of_types("acknowledging one of many that were rejected", Growth.CONSTANT, SHARED, KEY_SHARED)
def _acknowledge_rejected(size: int, kind: SubscriptionType) -> Act:
    world, consumer = rejected_often(size, kind)
    return lambda: world.subscription.acknowledge(consumer, 1, [size // 2], 0)


@of_types("acknowledging one beside every other", Growth.CONSTANT, SHARED, KEY_SHARED)
def _acknowledge_scattered(size: int, kind: SubscriptionType) -> Act:
    world, consumer = holding(size, kind)
    world.subscription.acknowledge(consumer, 1, range(1, size, 2), 0)
    return lambda: world.ack(consumer, Position(1, size // 4 * 2))


@of_types("acknowledging all up to the last", Growth.CONSTANT, EXCLUSIVE, FAILOVER)
def _acknowledge_up_to(size: int, kind: SubscriptionType) -> Act:
    world, _ = holding(size, kind)
    return lambda: world.subscription.acknowledge_up_to(Position(1, size - 1), 0)


@entry_point("acknowledging a part of a batch beside parts of many")
def _part(size: int) -> Act:
    world = World(unacked_max=1 << 30)
    consumer = world.attach(SHARED, permits=2 * size)
    for _ in range(0, size, BLOCK):
        world.publish([2] * BLOCK)
    for entry in range(1, min(size - 1, PARTS_MAX)):
        world.subscription.acknowledge_batch(consumer, Position(1, entry), [2], 0)
    return lambda: world.subscription.acknowledge_batch(consumer, Position(1, size - 1), [2], 0)


@entry_point("passing over expired entries, half acknowledged, half rejected", Growth.LINEAR)
def _expired(size: int) -> Act:
    world, consumer = rejected_often(size, SHARED)
    world.subscription.redeliver(consumer, None)
    world.subscription.acknowledge(consumer, 1, range(0, size, 2), 0)
    world.expired_before_ms = world.now_ms + 1
    return lambda: world.flow(consumer, 1)


@of_types("expiry from outside, of what was rejected", Growth.CONSTANT, SHARED, KEY_SHARED)
def _expired_outside(size: int, kind: SubscriptionType) -> Act:
    world, _ = rejected_often(size, kind)
    return lambda: world.subscription.acknowledge_up_to(Position(1, size - 1), 0)


# --- giving back


@of_types("rejecting one of many that were rejected before", Growth.CONSTANT, SHARED)
def _reject_one(size: int, kind: SubscriptionType) -> Act:
    world, consumer = rejected_often(size, kind)
    return lambda: world.subscription.redeliver(consumer, [Position(1, size // 2)])


@of_types("rejecting all", Growth.CONSTANT, SHARED, KEY_SHARED)
def _reject_all(size: int, kind: SubscriptionType) -> Act:
    world, consumer = rejected_often(size, kind)
    return lambda: world.subscription.redeliver(consumer, None)


@entry_point("each turn of giving what was rejected to the owners of its keys", Growth.LINEAR)
def _settle(size: int) -> Act:
    world, consumer = rejected_often(size, KEY_SHARED)
    world.subscription.redeliver(consumer, None)
    return world.subscription.can_dispatch


@entry_point("rejecting all, each by its id", Growth.LINEAR)
def _reject_each(size: int) -> Act:
    world, consumer = rejected_often(size, SHARED)
    positions = [Position(1, entry) for entry in range(size)]
    return lambda: world.subscription.redeliver(consumer, positions)


@of_types("closing a consumer that holds much", Growth.CONSTANT, *SubscriptionType)
def _close_holding(size: int, kind: SubscriptionType) -> Act:
    world, consumer = rejected_often(size, kind)
    world.attach(kind, name="other") if kind is not EXCLUSIVE else None
    return lambda: world.subscription.detach(consumer)


@of_types("seeking", Growth.CONSTANT, *SubscriptionType)
def _seek(size: int, kind: SubscriptionType) -> Act:
    world, _ = rejected_often(size, kind)
    return lambda: world.subscription.reset(SeekTarget(EARLIEST))


@entry_point("a dead-letter policy that begins, beside what was rejected")
def _policy_begins(size: int) -> Act:
    world, consumer = rejected_often(size, SHARED)
    world.subscription.redeliver(consumer, None)
    redeliveries = world.subscription.state.redeliveries
    return lambda: (redeliveries.limit_counts(1), redeliveries.limit_counts(None))


# --- consumers that come and leave


@of_types("one more consumer among many", Growth.CONSTANT, SHARED, FAILOVER)
def _join(size: int, kind: SubscriptionType) -> Act:
    world, _ = with_consumers(size, kind)
    return lambda: world.attach(kind, name="newcomer")


@of_types("one consumer less among many", Growth.CONSTANT, SHARED, FAILOVER, KEY_SHARED)
def _leave(size: int, kind: SubscriptionType) -> Act:
    world, consumers = with_consumers(size, kind)
    return lambda: world.subscription.detach(consumers[size // 2])


@of_types("all consumers leave", Growth.LINEAR, SHARED, FAILOVER, KEY_SHARED)
def _all_leave(size: int, kind: SubscriptionType) -> Act:
    world, consumers = with_consumers(size, kind)
    return lambda: [world.subscription.detach(consumer) for consumer in consumers]


@entry_point("a consumer with many sticky ranges comes and leaves", Growth.LINEAR)
def _sticky(size: int) -> Act:
    world = World()
    mode = KeySharedMode(sticky=True, ranges=((0, 0),))
    world.attach(KEY_SHARED, key_shared=mode)
    wide = mode._replace(ranges=tuple((2 * number, 2 * number) for number in range(1, min(size, 30_000))))

    def act() -> None:
        other = world.attach(KEY_SHARED, key_shared=wide)
        world.subscription.can_dispatch()
        world.subscription.detach(other)
        world.subscription.can_dispatch()

    return act


@entry_point("a consumer joins where another holds much, Key_Shared", Growth.LINEAR)
def _join_key_shared(size: int) -> Act:
    world, _ = rejected_often(size, KEY_SHARED)

    def act() -> None:
        world.attach(KEY_SHARED, name="other")
        world.subscription.can_dispatch()

    return act


@of_types("another acknowledges what one of many holds", Growth.LINEAR, SHARED, KEY_SHARED)
def _acknowledged_by_another(size: int, kind: SubscriptionType) -> Act:
    world, consumers = with_consumers(size, kind)
    world.publish_keyed(["key"])
    world.flow(consumers[0], 1)
    return lambda: world.ack(consumers[-1], Position(1, 0))


# --- delayed messages


@entry_point("messages that are due at one moment", Growth.LINEAR)
def _due(size: int) -> Act:
    topic = DelayedTopic(size)
    return lambda: topic.advance(topic.due_ms)


@entry_point("messages that were rescheduled to one moment, all turns", Growth.LINEAR)
def _rescheduled_due(size: int) -> Act:
    topic = DelayedTopic(size, rescheduled=True)

    def act() -> None:
        while topic.delays.index.pending:
            topic.advance(topic.later_ms)

    return act


@entry_point("messages that were rescheduled to later are due by their former time", Growth.LINEAR)
def _taken_back(size: int) -> Act:
    topic = DelayedTopic(size, rescheduled=True)
    return lambda: topic.advance(topic.due_ms)


@entry_point("rescheduling one beside many, and what is forgotten when it is stored")
def _reschedule_one(size: int) -> Act:
    topic = DelayedTopic(size, rescheduled=True)
    overrides, pending = topic.overrides, topic.delays.index.pending

    def act() -> None:
        topic.delays.reschedule(Position(1, size // 2), topic.later_ms + 1, topic.due_ms)
        overrides.forget(LedgerList([(1, size)]), topic.due_ms - 1, pending)

    return act


@entry_point("cancelling one beside many that were rescheduled")
def _cancel_one(size: int) -> Act:
    topic = DelayedTopic(size, rescheduled=True)
    return lambda: topic.delays.cancel(1, BitMap([size // 2]))


@entry_point("cancelling all that were rescheduled", Growth.LINEAR)
def _cancel_all(size: int) -> Act:
    topic = DelayedTopic(size, rescheduled=True)
    return lambda: topic.delays.cancel(1, BitMap(range(size)))


@entry_point("what was decided of many is stored", Growth.LINEAR)
def _decided(size: int) -> Act:
    overrides = DelayedTopic(size, rescheduled=True).overrides
    return lambda: Overrides.decode(overrides.copy().encode())


# --- chunks


@entry_point("a chunk is sent beside those of many messages")
def _chunk(size: int) -> Act:
    sets, consumer = chunk_sets(size)
    return lambda: sets.sent(consumer, Position(1, 2 * size), Chunk(b"one more", 0, 2), 0, counted=True)


@entry_point("a message of chunks is acknowledged beside many")
def _chunk_acknowledged(size: int) -> Act:
    sets, consumer = chunk_sets(size)
    return lambda: sets.acknowledged(consumer, 1, [size // 2])


@entry_point("an acknowledgement of all up to the first of many parts of messages")
def _chunks_up_to(size: int) -> Act:
    sets, _ = chunk_sets(size)
    sets.acknowledged_up_to(Position(1, size - 1))
    return lambda: sets.acknowledged_up_to(Position(1, size))


@entry_point("a consumer leaves that has no part of many messages")
def _chunks_of_others(size: int) -> Act:
    sets, _ = chunk_sets(size)
    other = Consumer(9, "other", Sink())
    return lambda: sets.left(other)


@entry_point("a consumer leaves with parts of many messages", Growth.LINEAR)
def _chunks_leave(size: int) -> Act:
    sets, consumer = chunk_sets(size)
    return lambda: sets.left(consumer)


@entry_point("messages are looked for that nobody completes", Growth.LINEAR)
def _unfinished(size: int) -> Act:
    sets, _ = chunk_sets(size)
    return lambda: sets.unfinished(1, EARLIEST)


# --- asking, and what all share


@of_types("why nothing is sent", Growth.CONSTANT, *SubscriptionType)
def _explain(size: int, kind: SubscriptionType) -> Act:
    world, _ = rejected_often(size, kind)
    return lambda: explain(world.subscription, DeliveryState())


@of_types("where one message is", Growth.CONSTANT, *SubscriptionType)
def _trace(size: int, kind: SubscriptionType) -> Act:
    world, _ = rejected_often(size, kind)
    return lambda: trace_in(world.subscription, Position(1, size // 2), [])


@entry_point("measuring the memory of a subscription with much in it")
def _measure(size: int) -> Act:
    world, consumer = rejected_often(size, SHARED)
    world.subscription.redeliver(consumer, None)
    memory = CursorMemory(MemoryLimiter(1 << 30).cursors)
    memory.changed("mob", world.subscription)
    return memory.measure


@entry_point("a turn among many tenants that wait")
def _fair(size: int) -> Act:
    queue: FairQueue[int] = FairQueue()
    for number in range(size):
        queue.push(f"tenant-{number}", number)
    return lambda: (queue.push("tenant-0", -1), queue.pop())
