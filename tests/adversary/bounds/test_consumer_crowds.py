"""One subscription with a crowd of consumers: what one of them does costs the loop no more than it would among a few."""

from __future__ import annotations

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch import shared
from messaging.broker.core.dispatch.round_robin import RoundRobin
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime.wire.connection import Connection
from messaging.broker.runtime.wire.sinks import MessageSender
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld
from tests.support.worlds.subscription_world import World

TOPIC = "persistent://acme/orders/t"
CROWD = 300


async def crowd(world: BrokerWorld, kind: int) -> RawClient:
    client = await world.connected("owner")
    for number in range(CROWD):
        client.say(
            pb.Command.SUBSCRIBE,
            topic=TOPIC,
            subscription="s",
            consumer_id=number,
            sub_type=kind,
            consumer_name=f"c{number:04}",
            initial_position=pb.Subscribe.Earliest,
        )
    succeeded = 0
    while succeeded < CROWD:
        succeeded += (await client.next()).name == "SUCCESS"
    await client.quiet()
    return client


def counted(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[object]:
    """One element for each call from here on."""
    calls: list[object] = []
    real = getattr(owner, name)

    def call(self: object, *args: object) -> object:
        calls.append(self)
        return real(self, *args)

    monkeypatch.setattr(owner, name, call)
    return calls


async def test_failover_consumers_that_leave_together_are_not_handed_the_topic_one_by_one(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3,000 of them on one connection that ended stopped the loop for 13.8 s: each was made active, told so with all others, and
    handed the backlog, on a socket that was gone."""
    client = await crowd(world, pb.Subscribe.Failover)
    publisher = await world.connected("owner")
    await publisher.producer(TOPIC)
    publisher.write(b"".join(send_frame(number, b"x") for number in range(100)))
    await publisher.quiet()
    for number in range(1, CROWD):
        client.say(pb.Command.FLOW, consumer_id=number, message_permits=1000)
    await client.quiet()
    told = counted(monkeypatch, MessageSender, "active_changed")
    handed = counted(monkeypatch, MessageSender, "deliver")
    await client.close()
    await eventually(lambda: len(world.service.peers.connections) == 1)
    await publisher.quiet()
    assert len(told) <= CROWD, "each is told once at most that it is active now"
    assert handed == []


async def test_a_newcomer_that_becomes_active_is_news_for_two(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await crowd(world, pb.Subscribe.Failover)
    told = counted(monkeypatch, MessageSender, "active_changed")
    other = await world.connected("owner")
    other.say(pb.Command.SUBSCRIBE, topic=TOPIC, subscription="s", consumer_id=1, sub_type=pb.Subscribe.Failover, priority_level=-1)
    assert [(await other.next()).name for _ in range(2)] == ["SUCCESS", "ACTIVE_CONSUMER_CHANGE"]
    assert len(told) == 2


async def test_acknowledging_what_nobody_holds_asks_the_crowd_once(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """72 KB of acknowledgements by 3,000 consumers in turn stopped the loop for 1.5 s: each of them asked each of the others."""
    publisher = await world.connected("owner")
    await publisher.producer(TOPIC)
    publisher.write(b"".join(send_frame(number, b"x") for number in range(CROWD)))
    receipt = next(answer for answer in [await publisher.next() for _ in range(CROWD)]).body.message_id
    client = await crowd(world, pb.Subscribe.Shared)
    (connection,) = [
        connection
        for connection in world.service.peers.connections
        if isinstance(connection, Connection) and len(connection.endpoints.consumers) == CROWD
    ]
    asked = counted(monkeypatch, Consumer, "release")
    acks = [
        frames.command(
            pb.Command.ACK,
            ack=pb.Ack(
                consumer_id=number,
                ack_type=pb.Ack.Individual,
                message_id=[pb.MessageId(ledger_id=receipt.ledger_id, entry_id=number)],
            ),
        )
        for number in range(0, CROWD, 2)
    ]
    connection.data_received(b"".join(acks))
    assert await client.quiet() == []
    assert len(asked) <= CROWD, "its sender for each, and the crowd only for a ledger of which it holds something"


async def test_a_delivery_looks_only_at_who_may_take_it(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handing 5,000 entries with gaps between them to one consumer beside 2,999 without permits stopped the loop for 1.6 s."""
    publisher = await world.connected("owner")
    await publisher.producer(TOPIC)
    client = await crowd(world, pb.Subscribe.Shared)
    looked = counted(monkeypatch, shared, "ready")
    client.say(pb.Command.FLOW, consumer_id=CROWD - 1, message_permits=1000)
    publisher.write(b"".join(send_frame(number, b"x") for number in range(1000)))
    for _ in range(1000):
        await client.expect("MESSAGE")
    await publisher.quiet()
    turns = 1000 // 20
    assert len(looked) <= CROWD + 4 * turns + 400, "each once, then only the one; the rest is for blocks and turns of the loop"


def test_messages_that_others_acknowledged_leave_their_consumers() -> None:
    world = World()
    consumers = [world.attach(SubscriptionType.SHARED, permits=10) for _ in range(40)]
    entries = world.publish([1] * 400)
    assert all(consumer.unacked_messages == 10 for consumer in consumers)
    world.ack(consumers[0], *entries)
    world.subscription.can_dispatch()
    assert [consumer.unacked_messages for consumer in consumers] == [0] * 40
    world.detach(consumers[1])
    assert world.subscription.next_due() is None, "nothing of it is sent again"


def test_the_rotation_is_fair_and_goes_by_priority() -> None:
    rotation = RoundRobin()
    first, second, later = (
        Consumer(number, "", World().attach(SubscriptionType.SHARED).sink, priority=number // 2) for number in range(3)
    )
    for consumer in (later, first, second):
        rotation.add(consumer)
    able = {first, second, later}
    assert [rotation.take(able.__contains__) for _ in range(4)] == [first, second, first, second]
    able -= {first, second}
    assert [rotation.take(able.__contains__) for _ in range(2)] == [later, later]
    able.add(second)
    rotation.add(second)
    assert rotation.take(able.__contains__) is second
    rotation.discard(second)
    rotation.discard(later)
    assert rotation.take(able.__contains__) is None
