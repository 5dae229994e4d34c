"""Whatever is raised for one subscription, client or topic stays there: the others get their messages, receipts and reads."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.core.backlog.plan import BacklogPlan
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.wire.sinks import MessageSender, ReceiptSender
from messaging.errors import NotReady
from messaging.protocol import pulsar_pb2 as pb
from tests.adversary.acknowledging import TOPIC, published, subscribed
from tests.support.clients.raw_client import send_frame
from tests.support.worlds.broker_world import BrokerWorld

OTHER = "persistent://acme/orders/other"


async def test_a_delivery_that_raises_keeps_no_other_reader_from_the_block(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await subscribed(world, "a", "bad", "c")
    for consumer_id in (1, 2, 3):
        client.say(pb.Command.FLOW, consumer_id=consumer_id, message_permits=10)
    assert await client.quiet() == []
    assign = Subscription.assign

    def assigned(self: Subscription, *given: Any) -> Any:
        if self.name == "bad":
            raise ValueError("a state that nobody thought of")
        return assign(self, *given)

    monkeypatch.setattr(Subscription, "assign", assigned)
    await published(world, 2)
    assert sorted([message.body.consumer_id for message in await client.messages(4)]) == [1, 1, 3, 3]
    assert world.service.background.loops["dispatch"].failures == 1
    monkeypatch.undo()
    await published(world, 1)
    assert sorted([message.body.consumer_id for message in await client.messages(5)]) == [1, 2, 2, 2, 3]


async def test_a_receipt_that_raises_keeps_nobody_from_theirs_nor_the_topic_from_unloading(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was counted as in flight, and as not answered, would have been so for ever."""
    reader = await subscribed(world, "s")
    reader.say(pb.Command.FLOW, consumer_id=1, message_permits=10)
    bad, good = await world.connected(), await world.connected()
    await bad.producer(TOPIC, producer_name="bad")
    await good.producer(TOPIC, producer_name="good")
    receipts = ReceiptSender.receipts

    def raises(self: ReceiptSender, producer: Any, *given: Any) -> None:
        if producer.name == "bad":
            raise ValueError("a connection in a state that nobody thought of")
        receipts(self, producer, *given)

    monkeypatch.setattr(ReceiptSender, "receipts", raises)
    bad.write(send_frame(0, b"x"))
    assert await bad.quiet() == []
    good.write(send_frame(0, b"y"))
    await good.expect("SEND_RECEIPT")
    assert sorted([message.text for message in await reader.messages(2)]) == [b"x", b"y"]
    await world.service.topics.close_all(NotReady("the broker is stopping"))
    assert world.service.topics.loaded == {}


async def test_reads_whose_end_raises_are_not_counted_as_under_way_for_ever(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two are under way at a time, over all topics: after two such ends nobody would have been read for again."""
    await published(world, 3)
    with monkeypatch.context() as patched:

        def raises(*_: Any) -> None:
            raise ValueError("blocks that nobody thought of")

        patched.setattr(BacklogPlan, "arrived", raises)
        for number in range(3):
            client = await subscribed(world, f"bad{number}")
            client.say(pb.Command.FLOW, consumer_id=1, message_permits=10)
            await client.quiet()
    client = await world.connected()
    await client.producer(OTHER)
    client.write(send_frame(0, b"there"))
    await client.expect("SEND_RECEIPT")
    await client.subscribe(OTHER, permits=10)
    assert [message.text for message in await client.messages(1)] == [b"there"]
    assert world.service.backlog_scheduler.reads_under_way == 0


async def test_a_consumer_that_cannot_be_told_keeps_no_topic_from_closing(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await subscribed(world, "a", "b")

    def raises(*_: Any) -> None:
        raise ValueError("a connection in a state that nobody thought of")

    monkeypatch.setattr(MessageSender, "closed", raises)
    await world.service.topics.close_all(NotReady("the broker is stopping"))
    assert world.service.topics.loaded == {}
