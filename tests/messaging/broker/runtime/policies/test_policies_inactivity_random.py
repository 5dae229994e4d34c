"""Clients that come and go, restarts, crashes and maintenance in any order, beside a model of since when nothing was used."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from messaging.errors import NotReady
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import EARLIEST
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.unused_topic import NAME, TOPIC, upkeep
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC_MS, SUBSCRIPTION_MS = 300_000, 600_000
POLICIES: dict[str, Any] = {"inactive_topic_delete": True, "inactive_topic_after_s": 300, "subscription_expiration_min": 10}
STEPS = 120
PRODUCER = 1
CONSUMERS = {"a": 11, "b": 12}


class Model:
    """Of one topic. Times are those from which on nothing was used; what is in use has none."""

    def __init__(self, world: BrokerWorld, clock: Clock, random: Random, caught_up: bool) -> None:
        self.world, self.clock, self.random, self.caught_up = world, clock, random, caught_up
        self.exists = False
        self.producing = False
        self.consuming: set[str] = set()
        self.subscriptions: dict[str, int] = {}  # since when each was not used
        self.backlog: set[str] = set()  # subscriptions that have one: nobody acknowledges anything
        self.unused_ms = 0
        self.client: RawClient | None = None
        self.sent = 0

    async def connect(self) -> None:
        self.client = await self.world.connected("owner")
        mode = "delete_when_subscriptions_caught_up" if self.caught_up else "delete_when_no_subscriptions"
        await set_policies(self.world, **POLICIES, inactive_topic_mode=mode)

    @property
    def held(self) -> RawClient:
        assert self.client is not None
        return self.client

    def _used(self) -> None:
        self.unused_ms = self.clock.now_ms

    async def produce(self) -> None:
        if self.producing:
            self.held.write(send_frame(self.sent, b"x"))
            await self.held.expect("SEND_RECEIPT")
            self.sent += 1
            self.backlog |= self.subscriptions.keys()
        else:
            await self.held.producer(TOPIC, PRODUCER)
            self.exists = self.producing = True

    async def stop_producing(self) -> None:
        if self.producing:
            self.held.say(pb.Command.CLOSE_PRODUCER, producer_id=PRODUCER)
            await self.held.expect("SUCCESS")
            self.producing = False
            self._used()

    async def consume(self) -> None:
        name = self.random.choice(sorted(CONSUMERS))
        if name in self.consuming:
            self.held.say(pb.Command.CLOSE_CONSUMER, consumer_id=CONSUMERS[name])
            await self.held.expect("SUCCESS")
            self.consuming.discard(name)
            self.subscriptions[name] = self.clock.now_ms
            self._used()
        else:
            await self.held.subscribe(TOPIC, name, CONSUMERS[name], sub_type=pb.Subscribe.Exclusive)
            self.exists = True
            self.consuming.add(name)
            if name not in self.subscriptions:
                self._created(name)

    async def subscribe(self) -> None:
        if self.exists and "c" not in self.subscriptions:
            topic = await self.world.service.topics.get(NAME, create=False)
            await topic.subscriptions.create("c", EARLIEST)
            self._created("c")
            self._used()

    def _created(self, name: str) -> None:
        """It begins with what is stored."""
        if self.world.service.topics.loaded[TOPIC].ledger_list.entries:
            self.backlog.add(name)
        self.subscriptions[name] = self.clock.now_ms

    async def pass_time(self) -> None:
        self.clock.pass_(self.random.choice((1, 1_000, 60_000, 299_999, 300_000, 600_000)))

    async def unload(self) -> None:
        """Clients would come back; these do not."""
        await self.world.service.topics.unload(NAME)
        await self._sent_away()

    async def _sent_away(self) -> None:
        left = [f"{kind}:{number}" for kind, number in self._open()]
        for _ in left:
            assert (await self.held.next()).name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER")
        if left:
            self._used()
        for name in self.consuming:
            self.subscriptions[name] = self.clock.now_ms
        self.producing, self.consuming = False, set()

    def _open(self) -> list[tuple[str, int]]:
        return [("producer", PRODUCER)] * self.producing + [("consumer", CONSUMERS[name]) for name in self.consuming]

    async def restart(self, make_world: MakeWorld) -> None:
        """After a crash, whatever was loaded counts as used until then: by clients or not."""
        crashed = self.random.random() < 0.5
        loaded = TOPIC in self.world.service.topics.loaded
        if not crashed:
            await self.world.service.topics.close_all(NotReady("the broker stops"))
        self.world = await make_world(after=self.world)
        give(self.world.service, self.clock)
        if (crashed and loaded) or self._open():
            self._used()
            for name in self.subscriptions if crashed else self.consuming:
                self.subscriptions[name] = self.clock.now_ms
        self.producing, self.consuming = False, set()
        await self.connect()

    async def maintain(self) -> None:
        await upkeep(self.world)
        now_ms = self.clock.now_ms
        expired = [
            name for name, at_ms in self.subscriptions.items() if name not in self.consuming and now_ms - at_ms >= SUBSCRIPTION_MS
        ]
        for name in expired:
            del self.subscriptions[name]
            self.backlog.discard(name)
            self._used()
        kept = bool(self.backlog if self.caught_up else self.subscriptions)
        if kept or self._open():
            self._used()
        elif self.exists and now_ms - self.unused_ms >= TOPIC_MS:
            self.exists, self.subscriptions = False, {}

    async def check(self) -> None:
        record = await self.world.meta.get_topic(TOPIC)
        assert (record is not None) == self.exists
        assert {one.name for one in await self.world.meta.subscriptions(TOPIC)} == set(self.subscriptions)


@pytest.mark.parametrize("seed", range(12))
async def test_nothing_is_deleted_early_in_use_or_late(make_world: MakeWorld, seed: int) -> None:
    random, clock = Random(seed), Clock()
    world = await make_world(idle_topic_unload_s=random.choice((0, 60)))
    give(world.service, clock)
    model = Model(world, clock, random, caught_up=bool(seed % 2))
    await model.connect()
    for _ in range(STEPS):
        step = random.choice(
            (model.produce, model.stop_producing, model.consume, model.subscribe, model.pass_time, model.pass_time, model.unload)
        )
        await step()
        if random.random() < 0.05:
            await model.restart(make_world)
        await model.maintain()
        await model.check()
