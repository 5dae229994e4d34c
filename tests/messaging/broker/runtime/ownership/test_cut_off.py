"""When a broker lets its clients go that cannot renew its session."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import pytest

from messaging.adminrpc.brokers import BrokerSeen, BrokersSeen
from messaging.broker.runtime.ownership.cut_off import CutOff
from messaging.broker.runtime.ownership.instance import machine
from messaging.broker.runtime.ownership.other_brokers import OtherBrokers
from messaging.broker.runtime.ownership.shared_member import EndsSessions, SharedMember
from messaging.broker.runtime.topics.registry import Topics
from messaging.broker.runtime.topics.services import OWN_TENANT
from messaging.errors import NotReady
from messaging.protocol.bundles import equal_bundles
from messaging.protocol.names import parse_topic
from messaging.storage.ownership import LEASE_MS, MACHINE, SERVES, BrokerSession, OwnershipChanges, OwnershipStore
from tests.support.clock import Clock

TOPIC = parse_topic("persistent://acme/orders/t")


class Subscription:
    def __init__(self) -> None:
        self.consumers = ["consumer"]


class UsedTopic:
    """With a producer and a consumer."""

    def __init__(self, text: str) -> None:
        self.name, self.used = parse_topic(text), True
        self.closed: list[str] = []
        self.producers = self.subscriptions = self
        self.table = {"s": Subscription()}
        self.consumers = self

    def close_all(self) -> None:
        self.closed.append("producers")

    def disconnect(self, subscription: object, consumer: str) -> None:
        self.closed.append(consumer)


class World:
    """A broker whose store does not answer. `said`: what the other one says of it; None: that cannot say anything."""

    def __init__(self) -> None:
        self.clock, self.said = Clock(1_000_000), cast(bool | None, None)
        self.member = SharedMember(
            cast(OwnershipStore, self),
            "b1",
            lambda _: equal_bundles(1),
            cast(EndsSessions, None),
            now_s=lambda: self.clock.now_ms / 1000,
        )
        self.topics = [UsedTopic(str(TOPIC)), UsedTopic(f"persistent://{OWN_TENANT}/health/t")]
        self.cut_off = CutOff(
            self.member, cast(OtherBrokers, self), cast(Topics, self.topics), now_s=lambda: self.clock.now_ms / 1000
        )

    def others(self, *ports: int) -> None:
        sessions = [
            BrokerSession(
                f"b{number}", 1, {SERVES: f"pulsar://b{number}", "rpc_url": f"http://127.0.0.1:{port}", MACHINE: machine()}, True
            )
            for number, port in enumerate((1, *ports), 1)
        ]
        self.member.owners.apply(OwnershipChanges([], sessions, 0, more=False))

    async def renew_session(self, *_: object) -> None:
        """It answers after all."""

    async def perform(self, rpc_url: str, *_: object) -> BrokersSeen:
        if self.said is None:
            raise NotReady("this broker cannot renew its session in the metadata")
        return BrokersSeen(brokers=[BrokerSeen(broker_id="b1", live=self.said, broker_url="")])


@pytest.fixture
def world() -> World:
    return World()


async def _let_go(world: World) -> bool:
    for topic in world.topics:
        topic.closed.clear()
    await world.cut_off.look()
    clients, own = world.topics
    assert not own.closed, "health checks stay"
    return clients.closed == ["producers", "consumer"]


async def test_clients_go_once_another_broker_says_that_the_session_is_over(world: World) -> None:
    world.others(1)
    world.said = False
    assert not await _let_go(world), "it renews"
    world.clock.now_ms += LEASE_MS
    world.said = True
    assert not await _let_go(world), "clients would be sent back"
    with pytest.raises(NotReady):
        await world.member.where(TOPIC)
    world.said = False
    assert await _let_go(world) and await _let_go(world), "also those that came back"
    elsewhere = await world.member.where(TOPIC)
    assert elsewhere is not None and (elsewhere.addresses[SERVES], elsewhere.owner) == ("pulsar://b2", False)
    with pytest.raises(NotReady, match="pulsar://b2"):
        await world.member.require(TOPIC)


async def test_clients_stay_while_the_metadata_answer_nobody(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        world.others(listener.getsockname()[1])
        world.clock.now_ms += LEASE_MS
        assert not await _let_go(world)


def _change(world: World, broker_id: str, **changed: Any) -> None:
    sessions = [each._replace(**changed) if each.broker_id == broker_id else each for each in world.member.owners.sessions.values()]
    world.member.owners.apply(OwnershipChanges([], sessions, 0, more=False))


@pytest.mark.parametrize("changed", [{"live": False}, {"addresses": {MACHINE: "m"}}], ids=["late", "not ready"])
async def test_clients_go_where_the_other_broker_was_not_there_when_the_metadata_last_answered(
    world: World, changed: dict[str, Any]
) -> None:
    world.others(1)
    _change(world, "b2", **changed)
    world.clock.now_ms += LEASE_MS
    assert await _let_go(world)


async def test_clients_stay_where_the_other_brokers_ended_before(world: World) -> None:
    """A fleet that was made smaller: that they are silent says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        world.others(1, listener.getsockname()[1])
        for other in ("b2", "b3"):
            _change(world, other, live=False, closed=True)
        world.clock.now_ms += LEASE_MS
        for _ in range(60):
            assert not await _let_go(world)
            world.clock.now_ms += 1000


async def test_clients_go_to_one_that_ended_before_and_is_back(world: World) -> None:
    world.others(1)
    _change(world, "b2", live=False, closed=True)
    world.clock.now_ms += LEASE_MS
    world.said = False
    assert await _let_go(world) and await _let_go(world)
    elsewhere = await world.member.where(TOPIC)
    assert elsewhere is not None and elsewhere.addresses[SERVES] == "pulsar://b2"


async def test_clients_stay_where_there_is_no_other_broker(world: World) -> None:
    world.others()
    world.clock.now_ms += LEASE_MS
    assert not await _let_go(world)


async def test_clients_of_a_broker_that_reaches_nobody_look_for_others(world: World) -> None:
    world.others(1)
    world.clock.now_ms += LEASE_MS
    assert await _let_go(world)
    with pytest.raises(NotReady, match="cannot renew"):
        await asyncio.wait_for(world.member.where(TOPIC), 5)


async def test_clients_that_come_back_to_a_broker_that_reaches_nobody_stay_for_longer_each_time(world: World) -> None:
    world.others(1, 2)
    _change(world, "b3", live=False, closed=True)

    async def until_renewed_s(seconds: int) -> list[int]:
        """In which seconds clients were let go."""
        world.clock.now_ms += LEASE_MS
        gone = []
        for second in range(seconds):
            if await _let_go(world):
                gone.append(second)
            world.clock.now_ms += 1000
        await world.member.renew()
        assert not await _let_go(world)
        return gone

    assert await until_renewed_s(250) == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert await until_renewed_s(4) == [0, 1, 3], "as at first"
