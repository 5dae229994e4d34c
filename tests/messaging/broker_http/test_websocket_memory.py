"""WebSockets under the broker's memory budget: what they hold is counted, given back, and bounded when little is left."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.messaging.broker_http.test_websocket import CONSUMER, PRODUCER, TOPIC, publish
from tests.messaging.edge import Edge, receive_json, running_edge, send_json
from tests.waiting import eventually


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    async with running_edge() as running:
        yield running


async def test_a_producer_waits_while_its_tenant_holds_too_much_and_goes_on_after(edge: Edge) -> None:
    ingress = edge.service.accountant.ingress
    others = ingress.limit_bytes // 2 + 1
    ingress.take("anonymous", others)
    edge.service.hold_receipts = True
    async with edge.connect(PRODUCER) as producer:
        for number in range(3):
            await send_json(producer, payload="AAAA", context=str(number))
        await eventually(lambda: edge.service.gate.paused == 1)
        assert len(edge.service.topics[TOPIC].messages) == 1
        ingress.give("anonymous", others)
        edge.service.release_receipts()
        assert [(await receive_json(producer))["context"] for _ in range(3)] == ["0", "1", "2"]
        assert (ingress.used_bytes, edge.service.gate.paused) == (0, 0)


async def test_a_producer_that_leaves_gives_back_what_had_no_answer(edge: Edge) -> None:
    edge.service.hold_receipts = True
    async with edge.connect(PRODUCER) as producer:
        await send_json(producer, payload="AAAA")
        await eventually(lambda: edge.service.accountant.ingress.used_bytes == 3)
    await eventually(lambda: edge.service.accountant.ingress.used_bytes == 0)


async def test_what_waits_for_a_consumer_counts_until_it_is_taken_or_gone(edge: Edge) -> None:
    egress = edge.service.accountant.egress
    async with edge.connect(CONSUMER + "?pullMode=true") as consumer:
        await publish(edge, "AAAA", "AAAA", "AAAA")
        await send_json(consumer, type="permit", permitMessages=2)
        for _ in range(2):
            await receive_json(consumer)
        assert egress.used_bytes == 0
    async with edge.connect(CONSUMER, max_queue=1) as consumer:
        await publish(edge, *["A" * (256 << 10)] * 40)
        await eventually(lambda: egress.tenants.get("anonymous", 0) > 1 << 20)
    await eventually(lambda: egress.used_bytes == 0)


async def test_a_consumer_gets_one_message_at_a_time_when_no_memory_is_left(edge: Edge) -> None:
    egress = edge.service.accountant.egress
    egress.take("anonymous", egress.limit_bytes)
    async with edge.connect(CONSUMER, max_queue=1) as consumer:
        await publish(edge, *["A" * (64 << 10)] * 20)
        await eventually(lambda: edge.service.topic(TOPIC).subscriptions["billing"].position > 0)
        assert egress.used_bytes - egress.limit_bytes <= 2 * (64 << 10)
        for _ in range(20):
            await receive_json(consumer)
    await eventually(lambda: egress.used_bytes == egress.limit_bytes)
