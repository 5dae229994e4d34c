"""Consumers of topics that come and go, against a broker that a test moves by hand."""

from __future__ import annotations

import asyncio

import pytest

from messaging.client import errors
from messaging.client.message import Message
from tests.messaging.client.scripted import ScriptedBroker
from tests.messaging.client.scripted_consumers import TOPIC, answer, close_consumer, deliver, reopened, with_topics
from tests.support.waiting import eventually


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


async def test_a_topic_that_is_not_persistent_is_kept_when_it_was_unloaded(broker: ScriptedBroker) -> None:
    topic = TOPIC.replace("persistent", "non-persistent")
    names, gone = with_topics(broker, topic)
    async with broker.client() as client, client.pattern_consumer(f"{topic}-.*", "s") as consumer:
        gone.update(names)
        close_consumer(broker, 0)
        close_consumer(broker, 1)
        await reopened(broker, 4)
        await eventually(lambda: consumer.statistics.topics_connected == 2)
        assert consumer.topics == names and not gone
        deliver(broker, 1)
        await consumer.receive(timeout_s=10)


async def test_a_receipt_of_a_topic_that_is_deleted_meanwhile_is_false_and_ends_nothing(broker: ScriptedBroker) -> None:
    _, gone = with_topics(broker, TOPIC)
    handled: list[Message] = []

    async def handle(message: Message) -> None:
        handled.append(message)

    async with broker.client() as client, client.pattern_consumer(f"{TOPIC}-.*", "s", ack_receipts=True) as consumer:
        deliver(broker, 0)
        message = await consumer.receive(timeout_s=10)
        running = asyncio.create_task(consumer.run(handle))
        deliver(broker, 1)
        await eventually(lambda: len(broker.acks) == 1)
        acking = asyncio.create_task(consumer.ack(message))
        await eventually(lambda: len(broker.acks) == 2)
        gone.add(message.topic)
        close_consumer(broker)
        await reopened(broker, 3)
        assert await acking is False
        for of_gone in (message.id, handled[0].id):
            with pytest.raises(errors.InvalidValue, match="does not say of which"):
                await consumer.ack(of_gone)  # not to the topic that is left
            with pytest.raises(errors.InvalidValue, match="does not say of which"):
                await consumer.nack(of_gone)
            with pytest.raises(errors.InvalidValue, match="does not say of which"):
                await consumer.seek(of_gone)
        deliver(broker, 2, consumer=0)
        await eventually(lambda: len(handled) == 2)
        assert len(consumer.topics) == 1 and not running.done()
        await eventually(lambda: len(broker.acks) == 3)
        answer(broker, 2)
    await running


async def test_an_acknowledgement_that_fails_does_not_end_who_runs(broker: ScriptedBroker) -> None:
    handled: list[Message] = []

    async def handle(message: Message) -> None:
        handled.append(message)

    client = broker.client(request_timeout_s=0.05)
    async with client, client.consumer(TOPIC, "s", ack_receipts=True) as consumer:
        running = asyncio.create_task(consumer.run(handle))
        deliver(broker, 0)  # nobody answers its acknowledgement
        await eventually(lambda: len(handled) == 1)
        deliver(broker, 1)
        await eventually(lambda: len(handled) == 2)
    await running


async def test_a_topic_that_is_deleted_is_left_and_not_made_again(broker: ScriptedBroker) -> None:
    names, gone = with_topics(broker, TOPIC)
    async with broker.client() as client, client.pattern_consumer(f"{TOPIC}-.*", "s", nack_delay_s=0.0) as consumer:
        deliver(broker, 1)
        message = await consumer.receive()
        gone.add(message.topic)
        close_consumer(broker)
        await reopened(broker, 3)
        await eventually(lambda: consumer.topics == [name for name in names if name not in gone])
        assert not await consumer.ack(message)
        await consumer.nack(message)
        assert not consumer.closed
        gone.clear()
        broker.time.move(100.0)
        await eventually(lambda: len(consumer.topics) == 2)
