"""Whose name is taken, who takes it over."""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.publishing import TOPIC, producing, receipts
from tests.support.clients.raw_client import send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command


async def test_a_name_that_is_taken(world: BrokerWorld) -> None:
    first, second = await producing(world, producer_name="p"), await world.connected("owner")
    second.say(C.PRODUCER, topic=TOPIC, producer_id=1, producer_name="p")
    assert (await second.expect("ERROR")).error == pb.ProducerBusy
    await first.close()
    await eventually(lambda: not len(world.service.topics.loaded[TOPIC].producers))
    assert (await second.producer(TOPIC, producer_name="p")).producer_name == "p"


async def test_names_given_by_the_broker_are_unique(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    names = [(await client.producer(TOPIC, index)).producer_name for index in range(5)]
    assert len(set(names)) == 5
    assert all(name.startswith("standalone-") for name in names)


async def test_asking_twice_gives_the_same_answer(world: BrokerWorld) -> None:
    client = await producing(world)
    again = await client.producer(TOPIC)
    assert again.producer_name == (await client.producer(TOPIC)).producer_name
    assert len(world.service.topics.loaded[TOPIC].producers) == 1


async def test_a_successor_of_a_higher_epoch_takes_over(world: BrokerWorld) -> None:
    client = await producing(world, producer_name="p", epoch=1)
    await client.producer(TOPIC, producer_name="p", epoch=2)
    client.write(send_frame(0, b"x"))
    assert await receipts(client, 1) == [(1, 0)]
    assert len(world.service.topics.loaded[TOPIC].producers) == 1
