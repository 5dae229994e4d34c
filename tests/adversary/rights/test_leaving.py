"""A connection with very much open leaves in slices, and what of it is still attached is in nobody's way."""

from __future__ import annotations

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.detach import DETACHED_AT_ONCE, DetachWorker
from messaging.broker.runtime.topics.subscriptions.consumers import TopicConsumers
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.consuming import TOPIC, filled
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
COUNT = 5 * DETACHED_AT_ONCE


async def test_thousands_that_wait_for_a_topic_leave_in_slices(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = await world.connected("owner")
    await owner.producer(TOPIC, producer_access_mode="Exclusive")
    waiters = await world.connected("owner")
    for number in range(COUNT):
        waiters.say(C.PRODUCER, topic=TOPIC, producer_id=number, producer_access_mode="WaitForExclusive")
    topic = world.service.topics.loaded[TOPIC]
    await eventually(lambda: topic.producers.table.waiting == COUNT)
    left: list[int] = []
    work = DetachWorker.work

    def watched(leaving: DetachWorker) -> str | None:
        before = topic.producers.table.waiting
        result = work(leaving)
        left.append(before - topic.producers.table.waiting)
        return result

    monkeypatch.setattr(DetachWorker, "work", watched)
    await waiters.close()
    await eventually(lambda: topic.producers.table.waiting == 0)
    assert max(left) == DETACHED_AT_ONCE
    assert sum(left) == COUNT


async def test_consumers_that_are_not_detached_yet_are_sent_nothing(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """And who comes after them is served."""
    leaving = await world.connected("reader")
    for number in range(COUNT):
        await leaving.subscribe(TOPIC, "s", number, permits=10)
    detached: list[DetachWorker] = []
    monkeypatch.setattr(DetachWorker, "begin", lambda worker: detached.append(worker))
    await leaving.close()
    await eventually(lambda: detached)
    stays = await world.connected("reader")
    await stays.subscribe(TOPIC, "s", 1, permits=10)
    await filled(world, 2)
    assert [message.text for message in await stays.messages(2)] == [b"0", b"1"]
    while detached[0].work():
        pass
    assert len(world.service.topics.loaded[TOPIC].subscriptions.table["s"].consumers) == 1


async def test_a_consumer_that_cannot_be_detached_keeps_no_other(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    leaving = await world.connected("reader")
    for number in range(3):
        await leaving.subscribe(TOPIC, "s", number)
    detach = TopicConsumers.detach

    def detached(consumers: TopicConsumers, subscription: Subscription, consumer: Consumer) -> None:
        if consumer.consumer_id == 0:
            raise RuntimeError("cannot leave")
        detach(consumers, subscription, consumer)

    monkeypatch.setattr(TopicConsumers, "detach", detached)
    await leaving.close()
    consumers = world.service.topics.loaded[TOPIC].subscriptions.table["s"].consumers
    await eventually(lambda: [consumer.consumer_id for consumer in consumers] == [0])
    assert world.service.topics.loaded[TOPIC].services.loops.dispatching.failures == 1
