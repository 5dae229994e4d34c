"""What the policies of delayed delivery do; see `test_policies.py`."""

from __future__ import annotations

import pytest

from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.broker.runtime.topics.persistent import persistent
from messaging.errors import NotAllowed
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.storage_broker import Sender
from tests.support.clients.consuming import TOPIC
from tests.support.clients.raw_client import RawClient, delayed_frame, send_frame
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld


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


async def test_policy_delayed_delivery_default_ms_delays_what_asks_for_no_time(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, delayed_delivery_default_ms=60_000)
    world.service.sweep_memory()
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.write(send_frame(0, b"default"), delayed_frame(1, b"sooner", clock() + 10_000))
    await client.expect("SEND_RECEIPT")
    await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, "s", permits=10)
    assert await client.quiet() == []
    for after_ms, text in ((11_000, b"sooner"), (50_000, b"default")):
        clock.pass_(after_ms)
        world.service.sweep_memory()
        assert (await client.messages(1))[0].text == text


async def test_policy_delayed_delivery_fixed_ms_is_the_delay_of_every_message(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, delayed_delivery_fixed_ms=60_000, delayed_delivery_max_ms=1_000)
    world.service.sweep_memory()
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.write(send_frame(0, b"a"), delayed_frame(1, b"b", clock() + 600_000))
    await client.expect("SEND_RECEIPT")
    await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, "s", permits=10)
    assert await client.quiet() == []
    clock.pass_(60_000)
    world.service.sweep_memory()
    assert [one.text for one in await client.messages(2)] == [b"a", b"b"]


async def test_policy_max_delayed_messages_per_tenant_refuses_one_more(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, max_delayed_messages_per_tenant=3)
    world.service.sweep_memory()
    client = await world.connected("owner")
    await client.producer(TOPIC, 1)
    await client.producer(f"{TOPIC}2", 2)
    later = clock() + 60_000
    client.write(*(delayed_frame(index, b"x", later) for index in range(2)), send_frame(2, b"now"))
    assert [(await client.next()).name for _ in range(3)] == ["SEND_RECEIPT"] * 3
    client.write(*(delayed_frame(index, b"x", later, producer_id=2) for index in range(3)))
    answers = [await client.next() for _ in range(3)]
    assert [one.name for one in answers] == ["SEND_RECEIPT", "SEND_ERROR", "SEND_ERROR"]
    text = answers[1].body.message
    assert "max_delayed_messages_per_tenant = 3, set on the" in text and "tenant acme has 3 delayed messages" in text
    await world.service.topics.unload(parse_topic(f"{TOPIC}2"))
    sender = await Sender.open(world.service, topic=TOPIC)
    told: list[object] = []
    sender.producer.publish([OutgoingMessage(b"x", deliver_at_ms=later)], lambda *answer: told.append(answer[1]))
    await eventually(lambda: isinstance(told[0], NotAllowed) if told else False)
    clock.pass_(61_000)
    world.service.sweep_memory()
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await eventually(lambda: not persistent(topic).delayed.waiting_entries)
    sender.producer.publish([OutgoingMessage(b"x", deliver_at_ms=clock() + 60_000)], lambda *answer: told.append(answer[1]))
    await eventually(lambda: len(told) == 2)
    assert told[1] is None
