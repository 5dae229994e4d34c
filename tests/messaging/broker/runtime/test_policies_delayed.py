"""What the policies of delayed delivery do; see `test_policies.py`."""

from __future__ import annotations

import pytest

from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import NotAllowed
from messaging.protocol import pulsar_pb2 as pb
from tests.support.broker_world import BrokerWorld
from tests.support.clock import Clock, give
from tests.support.consuming import TOPIC
from tests.support.policies import set_policies
from tests.support.raw_client import RawClient, delayed_frame
from tests.support.storage_broker import Sender
from tests.support.waiting import eventually


@pytest.fixture
def clock(world: BrokerWorld) -> Clock:
    clock = Clock()
    give(world.service, clock)
    return clock


async def delayed(world: BrokerWorld, after_ms: int, clock: Clock) -> RawClient:
    """A consumer of a message that is to be delivered later."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.write(delayed_frame(0, b"late", clock() + after_ms))
    await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, "s", permits=10)
    return client


async def test_policy_delayed_delivery_decides_whether_messages_wait(world: BrokerWorld, clock: Clock) -> None:
    client = await delayed(world, 60_000, clock)
    assert await client.quiet() == []
    await set_policies(world, delayed_delivery=False)
    assert (await client.messages(1))[0].text == b"late"


async def test_policy_delayed_delivery_tick_ms_is_how_much_before_its_time_a_message_may_come(
    world: BrokerWorld, clock: Clock
) -> None:
    client = await delayed(world, 60_000, clock)
    assert await client.quiet() == []
    await set_policies(world, delayed_delivery_tick_ms=120_000)
    assert (await client.messages(1))[0].text == b"late"


async def test_policy_delayed_delivery_max_ms_refuses_a_longer_delay(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, delayed_delivery_max_ms=10_000)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    times = (10_000, 10_001, 0, 500)
    client.write(*(delayed_frame(index, b"x", clock() + after_ms) for index, after_ms in enumerate(times)))
    answers = [await client.next() for _ in times]
    assert [one.name for one in answers] == ["SEND_RECEIPT", "SEND_ERROR", "SEND_RECEIPT", "SEND_RECEIPT"]
    assert answers[1].body.error == pb.NotAllowedError and "delayed_delivery_max_ms" in answers[1].body.message
    sender = await Sender.open(world.service, topic=TOPIC)
    told: list[object] = []
    sender.producer.publish([OutgoingMessage(b"x", deliver_at_ms=clock() + 10_001)], lambda *answer: told.append(answer[1]))
    await eventually(lambda: isinstance(told[0], NotAllowed) if told else False)
