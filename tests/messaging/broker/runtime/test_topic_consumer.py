"""The consumer of a whole topic, over consumers of its partitions that a test opens and closes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from messaging.background import BackgroundLoops
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.core.turns.turn_budget import SLICE_COST, TURN_COST
from messaging.broker.runtime.detach import DETACHED_AT_ONCE, detach_all
from messaging.broker.runtime.local.consumer import LocalConsumer
from messaging.broker.runtime.local.messages import ConsumerListener, InitialPosition, MessagePosition
from messaging.broker.runtime.local.shared_permits import SharedPermits
from messaging.broker.runtime.local.topic_consumer import TopicConsumer
from messaging.broker.runtime.topics.partitions.partitions import Partitions
from messaging.broker.runtime.turn_loop import TurnLoop, Worker
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.errors import NotReady
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.ledger_store import Position
from tests.support.waiting import eventually

TOPIC = parse_topic("persistent://public/default/orders")
SLICES_A_TURN = TURN_COST // SLICE_COST


class Part:
    """The consumer of one partition, as far as the whole needs one."""

    continues = False  # where it was, in one that takes its place

    def __init__(self, sink: ConsumerListener) -> None:
        self.sink = sink
        self.open = True
        self.left = False

    def serve(self, permits: int) -> None: ...

    def leave(self) -> None:
        self.left = True

    def close(self) -> None:
        self.open = False

    class subscription:
        durable = True


class Client:
    def __init__(self) -> None:
        self.ends = 0

    def deliver(self, messages: object) -> None: ...

    def closed(self, error: object) -> None: ...

    def end_of_topic(self) -> None:
        self.ends += 1

    def withdraw(self, partition: int, topic: str = "") -> int:
        return 0

    def topic_added(self) -> None: ...


class World:
    """`count` partitions; `opened` is called with each consumer that was opened, in the turn of its opening."""

    def __init__(self, count: int, opened: Callable[[World, int, Part], None]) -> None:
        self.count = count
        self.parts: dict[int, list[Part]] = {}
        self.client = Client()
        self._opened = opened
        self._tell: list[Callable[[int], None]] = []
        turns = TurnLoop[Worker](lambda worker: worker.work())
        self.memory = MemoryLimiter(1 << 30).sessions
        self.consumer = TopicConsumer(
            TOPIC,
            self.client,
            self._open,
            "earliest",
            None,
            partitions=cast(Partitions, self),
            memory=self.memory,
            slices=TurnSlices(turns, "public"),
            detach=partial(detach_all, turns, "public"),
            background=BackgroundLoops(),
        )

    def follow(self, topic: TopicName, grown: Callable[[int], None]) -> None:
        self._tell.append(grown)

    def unfollow(self, topic: TopicName, grown: Callable[[int], None]) -> None: ...

    def grow(self, count: int) -> None:
        self.count = count
        for tell in self._tell:
            tell(count)

    async def _open(
        self,
        topic: TopicName,
        initial: InitialPosition,
        start: MessagePosition | None,
        sink: ConsumerListener,
        *,
        shared: SharedPermits,
        wanted: dict[Position, int],
    ) -> LocalConsumer:
        part = Part(sink)
        self.parts.setdefault(topic.partition, []).append(part)
        asyncio.get_running_loop().call_soon(self._opened, self, topic.partition, part)
        return cast(LocalConsumer, part)

    async def open(self) -> None:
        async def partitions() -> int:
            return self.count

        await asyncio.wait_for(self.consumer.open(partitions), 5)

    def open_parts(self) -> list[int]:
        return sorted(partition for partition, parts in self.parts.items() if [part.open for part in parts].count(True) == 1)


async def test_partitions_that_close_while_others_are_opened_are_opened_again() -> None:
    """Whoever opens the others waits for turns of the loop, and so does who opens these again."""

    def opened(world: World, partition: int, part: Part) -> None:
        if len(world.parts[partition]) == 1 and partition < 16:
            part.close()
            part.sink.closed(NotReady("unloaded"))

    world = World(100, opened)
    await world.open()
    await eventually(lambda: world.open_parts() == list(range(100)))


async def test_a_consumer_of_very_many_partitions_leaves_in_slices() -> None:
    """None of them is sent anything from then on, and others have turns of the loop in between."""
    world = World(5 * DETACHED_AT_ONCE, lambda *_: None)
    await world.open()
    world.consumer.close()
    left = len(world.open_parts())
    assert left == 4 * DETACHED_AT_ONCE
    assert all(part.left for parts in world.parts.values() for part in parts)
    while left:
        await asyncio.sleep(0)
        assert left - len(world.open_parts()) <= DETACHED_AT_ONCE * SLICES_A_TURN
        left = len(world.open_parts())
    await eventually(lambda: not world.memory.used_bytes)


async def test_the_end_of_a_topic_is_told_once_all_its_partitions_have_ended() -> None:
    world = World(3, lambda *_: None)
    await world.open()
    for partition in (0, 1, 1, 0):
        world.parts[partition][0].sink.end_of_topic()
    assert not world.client.ends
    world.parts[2][0].sink.end_of_topic()
    assert world.client.ends == 1


async def test_partitions_that_are_added_while_others_are_opened_are_opened() -> None:
    def opened(world: World, partition: int, part: Part) -> None:
        if partition == 5:
            world.grow(60)

    world = World(40, opened)
    await world.open()
    await eventually(lambda: world.open_parts() == list(range(60)))


@pytest.mark.parametrize("partitions", [0, 40])
async def test_the_end_that_comes_while_partitions_are_opened_is_told_once(partitions: int) -> None:
    def opened(world: World, partition: int, part: Part) -> None:
        part.sink.end_of_topic()

    world = World(partitions, opened)
    await world.open()
    await eventually(lambda: world.client.ends == 1)
