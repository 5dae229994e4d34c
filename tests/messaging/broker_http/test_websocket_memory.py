"""WebSockets under the broker's memory budget: what they hold is counted, given back, and bounded when little is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from messaging.broker.core.memory.ingress_limiter import PublishQuota
from messaging.broker.http.websocket.consumer import POSITION_BYTES
from messaging.broker.http.websocket.producer import SLOT_BYTES
from messaging.settings import Settings
from tests.messaging.broker_http.addresses import CONSUMER, PRODUCER, TOPIC, publish
from tests.support.brokers.http_edge import Edge, receive_json, send_json
from tests.support.waiting import eventually


async def test_a_producer_waits_while_its_tenant_holds_too_much_and_goes_on_after(edge: Edge) -> None:
    ingress = edge.broker.memory_limiter.ingress
    others = ingress.limit_bytes // 2 + 1
    ingress.take("anonymous", others)
    edge.sessions.hold_receipts()
    async with edge.connect(PRODUCER) as producer:
        for number in range(3):
            await send_json(producer, payload="AAAA", context=str(number))
        await eventually(lambda: edge.broker.ingress_limiter.paused == 1)
        assert sum(edge.sessions.producers[0].blocks) == 1
        ingress.give("anonymous", others)
        await edge.sessions.release_receipts()
        assert [(await receive_json(producer))["context"] for _ in range(3)] == ["0", "1", "2"]
        assert (ingress.used_bytes, edge.broker.ingress_limiter.paused) == (0, 0)


async def test_a_producer_that_leaves_gives_back_what_had_no_answer(edge: Edge) -> None:
    edge.sessions.hold_receipts()
    async with edge.connect(PRODUCER) as producer:
        await send_json(producer, payload="AAAA")
        await edge.sessions.receipts_held()
        assert edge.broker.memory_limiter.ingress.used_bytes > SLOT_BYTES
    await eventually(lambda: edge.broker.memory_limiter.ingress.used_bytes == 0)


async def test_contexts_and_errors_count_until_their_answers_are_taken(edge: Edge) -> None:
    edge.sessions.hold_receipts()
    async with edge.connect(PRODUCER) as producer:
        await send_json(producer, payload="", context="c" * 1000)
        for _ in range(9):
            await producer.send("no JSON")
        ingress = edge.broker.memory_limiter.ingress
        await eventually(lambda: edge.entries(TOPIC) == 1 and ingress.used_bytes > 1000 + 10 * SLOT_BYTES)
        await edge.sessions.release_receipts()
        for _ in range(10):
            await receive_json(producer)
        assert edge.broker.memory_limiter.ingress.used_bytes == 0


@pytest.mark.parametrize("ends", [True, False])
async def test_a_message_that_has_begun_counts_as_the_largest_there_may_be(edge: Edge, ends: bool) -> None:
    """Nothing counted what had not come whole: 7 MB a connection."""
    ingress, go_on = edge.broker.memory_limiter.ingress, asyncio.Event()

    async def pieces() -> AsyncIterator[str]:
        yield '{"payload":"' + "A" * 200_000
        await go_on.wait()
        yield '"}'

    async with edge.connect(PRODUCER) as producer:
        sending = asyncio.ensure_future(producer.send(pieces()))
        await eventually(lambda: ingress.used_bytes == Settings(data_dir="unused").message_bytes_max)
        if ends:
            go_on.set()
            await sending
            assert (await receive_json(producer))["result"] == "ok"
        else:
            producer.transport.abort()
        go_on.set()
    await asyncio.gather(sending, return_exceptions=True)
    await eventually(lambda: ingress.used_bytes == 0)


async def test_a_message_that_has_begun_waits_where_memory_is_short(edge: Edge) -> None:
    ingress = edge.broker.memory_limiter.ingress
    ingress.take("others", ingress.limit_bytes)
    async with edge.connect(PRODUCER) as producer:
        await send_json(producer, payload="AAAA" * 100_000)
        await eventually(lambda: edge.broker.ingress_limiter.paused == 1)
        assert not edge.topics or not edge.entries(TOPIC)
        edge.broker.ingress_limiter.give(quota_of("others", ingress.limit_bytes), ingress.limit_bytes)
        assert (await receive_json(producer))["result"] == "ok"
        await eventually(lambda: (ingress.used_bytes, edge.broker.ingress_limiter.paused) == (0, 0))


def quota_of(tenant: str, held_bytes: int) -> PublishQuota:
    quota = PublishQuota(tenant, lambda: None)
    quota.held_bytes = held_bytes
    return quota


async def test_positions_that_wait_for_a_time_count(edge: Edge) -> None:
    sessions = edge.broker.memory_limiter.sessions
    async with edge.connect(CONSUMER + "?ackTimeoutMillis=60000") as consumer:
        await publish(edge, *["AAAA"] * 5)
        ids = [(await receive_json(consumer))["messageId"] for _ in range(5)]
        await eventually(lambda: sessions.used_bytes == 5 * POSITION_BYTES)
        await send_json(consumer, messageId=ids[0])
        await send_json(consumer, type="negativeAcknowledge", messageId=ids[1])
        await eventually(lambda: sessions.used_bytes == 4 * POSITION_BYTES)
    await eventually(lambda: sessions.used_bytes == 0)


async def test_a_nack_comes_back_at_once_where_there_is_no_memory_to_wait_in(edge: Edge) -> None:
    sessions = edge.broker.memory_limiter.sessions
    sessions.take("anonymous", sessions.limit_bytes)
    async with edge.connect(CONSUMER + "?subscriptionType=Shared") as consumer:
        await publish(edge, "AAAA")
        message = await receive_json(consumer)
        await send_json(consumer, type="negativeAcknowledge", messageId=message["messageId"])
        assert (await receive_json(consumer))["redeliveryCount"] == 1


async def test_what_waits_for_a_consumer_counts_until_it_is_taken_or_gone(edge: Edge) -> None:
    egress = edge.broker.memory_limiter.egress
    async with edge.connect(CONSUMER + "?pullMode=true") as consumer:
        await publish(edge, "AAAA", "AAAA", "AAAA")
        await send_json(consumer, type="permit", permitMessages=2)
        for _ in range(2):
            await receive_json(consumer)
        await eventually(lambda: egress.used_bytes == 0)
    async with edge.connect(CONSUMER, max_queue=1) as consumer:
        await publish(edge, *["A" * (256 << 10)] * 40)
        await eventually(lambda: egress.tenants.get("anonymous", 0) > 1 << 20)
    await eventually(lambda: egress.used_bytes == 0)


async def test_a_consumer_gets_one_message_at_a_time_when_no_memory_is_left(edge: Edge) -> None:
    egress = edge.broker.memory_limiter.egress
    egress.take("anonymous", egress.limit_bytes)
    async with edge.connect(CONSUMER, max_queue=1) as consumer:
        await publish(edge, *["A" * (64 << 10)] * 20)
        await eventually(lambda: edge.sessions.consumers[-1].delivered)
        assert egress.used_bytes - egress.limit_bytes <= 2 * (64 << 10)
        for _ in range(20):
            await receive_json(consumer)
    await eventually(lambda: egress.used_bytes == egress.limit_bytes)
