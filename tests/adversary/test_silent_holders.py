"""A peer that is gone without a word, its connection half-open, kept producer names and Exclusive subscriptions for 90 s."""

from __future__ import annotations

import pytest

from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import RawClient
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC = "persistent://acme/orders/t"


class Frozen(RawClient):
    """From `freeze` on it reads what comes and says nothing, as a host that lost its network: it answers no PING."""

    frozen = False
    pings = 0

    def answer_ping(self) -> None:
        self.pings += 1
        if not self.frozen:
            super().answer_ping()


async def holder(world: BrokerWorld) -> Frozen:
    client = await Frozen.open(world.port)
    assert isinstance(client, Frozen)
    world.clients.append(client)
    await client.connect(world.token("owner"))
    return client


async def test_a_producer_name_is_free_once_its_holder_gave_no_sign_of_life(make_world: MakeWorld) -> None:
    world = await make_world(liveness_ms=50)
    gone, rival = await holder(world), await world.connected("owner")
    await gone.producer(TOPIC, producer_name="p")
    gone.frozen = True
    assert (await rival.producer(TOPIC, producer_name="p")).producer_name == "p"
    assert gone.pings == 1 and await gone.gone() == []
    assert world.service.peers.refused["no sign of life"] == 1


async def test_an_exclusive_subscription_is_free_once_its_holder_gave_no_sign_of_life(make_world: MakeWorld) -> None:
    world = await make_world(liveness_ms=50)
    gone, rival = await holder(world), await world.connected("owner")
    await gone.subscribe(TOPIC, sub_type=pb.Subscribe.Exclusive)
    gone.frozen = True
    await rival.subscribe(TOPIC, sub_type=pb.Subscribe.Exclusive)
    assert len(world.service.topics.loaded[TOPIC].subscriptions.table["s"].consumers) == 1


async def test_a_failover_place_passes_on_and_the_standby_did_not_wait(make_world: MakeWorld) -> None:
    world = await make_world(liveness_ms=50)
    gone, rival = await holder(world), await world.connected("owner")
    await gone.subscribe(TOPIC, sub_type=pb.Subscribe.Failover, consumer_name="b")
    gone.frozen = True
    await rival.subscribe(TOPIC, sub_type=pb.Subscribe.Failover, consumer_name="a")
    assert not (await rival.expect("ACTIVE_CONSUMER_CHANGE")).is_active
    assert (await rival.expect("ACTIVE_CONSUMER_CHANGE")).is_active


@pytest.mark.parametrize("what", ["producer", "consumer"])
async def test_a_holder_that_answers_keeps_its_place(make_world: MakeWorld, what: str) -> None:
    world = await make_world(liveness_ms=5_000)
    alive, rival = await holder(world), await world.connected("owner")
    for client in (alive, rival):
        if what == "producer":
            client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=1, producer_name="p")
        else:
            client.say(pb.Command.SUBSCRIBE, topic=TOPIC, subscription="s", consumer_id=1, sub_type=pb.Subscribe.Exclusive)
        answer = await client.next()
    assert answer.name == "ERROR"
    assert answer.body.error == (pb.ProducerBusy if what == "producer" else pb.ConsumerBusy)
    assert alive.pings == 1 and await alive.quiet() in ([], ["PRODUCER_SUCCESS"])


async def test_many_rivals_are_one_question(make_world: MakeWorld) -> None:
    world = await make_world(liveness_ms=200)
    gone = await holder(world)
    await gone.producer(TOPIC, producer_name="p")
    gone.frozen = True
    rivals = [await world.connected("owner") for _ in range(5)]
    for rival in rivals:
        rival.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=1, producer_name="p")
    answers = [(await rival.next()).name for rival in rivals]
    assert answers.count("PRODUCER_SUCCESS") == 1, "and the others are told that it is busy"
    assert gone.pings == 1
