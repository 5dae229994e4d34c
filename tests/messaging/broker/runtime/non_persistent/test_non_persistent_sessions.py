"""Non-persistent topics over WebSockets: the local sessions behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from messaging.broker.runtime.local.consumer import LocalConsumer
from messaging.broker.runtime.local.messages import DeliveredMessage, MessagePosition, OutgoingMessage, SubscriptionKind
from messaging.errors import MagnetarError, NotAuthorized
from messaging.permissions.model import Principal
from tests.support.clients.producer_sink import ProducerWatch
from tests.support.clients.raw_client import batch_frame
from tests.support.non_persistent import NAME, TOPIC
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

ADMIN = Principal("admin")


class Inbox:
    def __init__(self) -> None:
        self.messages: list[DeliveredMessage] = []

    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        self.messages += messages

    def closed(self, error: MagnetarError | None) -> None: ...

    def end_of_topic(self) -> None: ...


async def consume(world: BrokerWorld, inbox: Inbox, kind: SubscriptionKind = "Exclusive", *, durable: bool = True) -> LocalConsumer:
    return await world.sessions.open_consumer(ADMIN, TOPIC, "s", kind, "earliest", durable, None, inbox)


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover", "Key_Shared"])
async def test_messages_come_and_receipts_follow_their_call(world: BrokerWorld, kind: SubscriptionKind) -> None:
    inbox = Inbox()
    consumer = await consume(world, inbox, kind)
    consumer.flow(2)
    producer = await world.sessions.open_producer(ADMIN, TOPIC, None, ProducerWatch())
    told: list[Sequence[MessagePosition] | None] = []
    producer.publish([OutgoingMessage(b"a"), OutgoingMessage(b"b"), OutgoingMessage(b"c")], lambda at, error: told.append(at))
    assert told == []  # not while it is called
    await eventually(lambda: told and len(inbox.messages) == 2)
    assert told == [[MessagePosition(0, 0)] * 3]
    assert [(one.payload, one.position) for one in inbox.messages] == [(b"a", MessagePosition(0, 0)), (b"b", MessagePosition(0, 0))]
    await consumer.ack([inbox.messages[0].position])
    consumer.nack([inbox.messages[1].position])
    consumer.flow(10)
    producer.publish([OutgoingMessage(b"d")], lambda at, error: told.append(at))
    await eventually(lambda: len(inbox.messages) == 3)
    assert inbox.messages[2].payload == b"d"  # what was dropped, or negatively acknowledged, does not come back
    consumer.close()
    assert (await world.service.topics.get(NAME, create=False)).subscriptions.table == {}


async def test_batches_are_opened_and_nothing_is_kept_of_them(world: BrokerWorld) -> None:
    inbox = Inbox()
    consumer = await consume(world, inbox, durable=False)
    consumer.flow(1_000)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    before = world.service.memory_limiter.sessions.used_bytes
    for number in range(50):
        client.write(batch_frame(number, [b"%d" % index for index in range(1 + number % 7)]))
        await client.expect("SEND_RECEIPT")
    count = sum(1 + number % 7 for number in range(50))
    await eventually(lambda: len(inbox.messages) == count)
    positions = [one.position for one in inbox.messages]
    assert {(one.ledger_id, one.entry_id) for one in positions} == {(0, 0)}
    assert {one.batch_index for one in positions} == set(range(7))
    assert world.service.memory_limiter.sessions.used_bytes == before
    await consumer.ack(positions)
    assert consumer.writable and world.service.memory_limiter.sessions.used_bytes == before


async def test_what_a_role_may_not_do(world: BrokerWorld) -> None:
    with pytest.raises(NotAuthorized):
        await world.sessions.open_producer(Principal("reader@acme"), TOPIC, None, ProducerWatch())
    with pytest.raises(NotAuthorized):
        await world.sessions.open_consumer(Principal("writer@acme"), TOPIC, "s", "Shared", "latest", True, None, Inbox())


async def test_receipts_come_once_all_subscriptions_were_sent_the_message(world: BrokerWorld) -> None:
    """Receipts came at once while the messages still waited for their turns: a client that sends whenever it has a receipt could
    make the broker keep any number of them."""
    consumer = await world.connected("owner")
    for number in range(100):
        await consumer.subscribe(TOPIC, f"s{number}", consumer_id=10 + number)
    producer = await world.sessions.open_producer(Principal("admin"), TOPIC, None, ProducerWatch())
    receipts: list[MagnetarError | None] = []
    for _ in range(10):
        producer.publish([OutgoingMessage(b"x" * 1_000)], lambda positions, error: receipts.append(error))
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(receipts) < 3
    await eventually(lambda: receipts == [None] * 10)
