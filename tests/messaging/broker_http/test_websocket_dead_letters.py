"""`maxRedeliverCount` and `deadLetterTopic` of WebSocket consumers."""

from __future__ import annotations

import websockets

from messaging.broker.http.websocket.link import POLICY
from messaging.errors import MagnetarError, StorageFailed
from tests.messaging.broker_http.addresses import CONSUMER, PRODUCER, TOPIC, publish
from tests.messaging.broker_http.websocket_peer import close_of
from tests.support.brokers.http_edge import FIXED, Edge, receive_json, send_json
from tests.support.waiting import eventually

LIMITED = CONSUMER + "?subscriptionType=Shared&negativeAckRedeliveryDelay=10&maxRedeliverCount=1"
DEAD = f"{TOPIC}-billing-DLQ"


async def refuse(consumer: websockets.ClientConnection, times: int) -> list[int]:
    """A message, each time that it comes. Returns what it was said how often it came."""
    counts = []
    for _ in range(times):
        message = await receive_json(consumer)
        counts.append(message["redeliveryCount"])
        await send_json(consumer, type="negativeAcknowledge", messageId=message["messageId"])
    return counts


async def test_a_message_that_came_again_too_often_goes_to_the_dead_letter_topic(edge: Edge) -> None:
    async with edge.connect(LIMITED) as consumer:
        await publish(edge, "cG9pc29u", "Z29vZA==")
        for _ in range(2):
            message = await receive_json(consumer)
            if message["payload"] == "Z29vZA==":
                await send_json(consumer, messageId=message["messageId"])
            else:
                await send_json(consumer, type="negativeAcknowledge", messageId=message["messageId"])
        assert await refuse(consumer, 1) == [1]
        await eventually(lambda: edge.acknowledged(TOPIC) == {0, 1})
        [letter] = await edge.stored(DEAD)
        assert letter.payload == b"poison" and letter.properties["REAL_TOPIC"] == TOPIC
        assert letter.properties["ORIGIN_MESSAGE_ID"].split(":")[1:] == ["0", "-1"]
    assert edge.broker.memory_limiter.egress.used_bytes == 0


async def test_the_topic_may_be_named(edge: Edge) -> None:
    async with edge.connect(f"{LIMITED}&deadLetterTopic=persistent://public/default/dead") as consumer:
        await publish(edge, "AQ==")
        assert await refuse(consumer, 2) == [0, 1]
        await eventually(lambda: edge.acknowledged(TOPIC) == {0})
        assert [letter.payload for letter in await edge.stored("persistent://public/default/dead")] == [b"\x01"]


async def test_who_may_not_publish_there_is_refused_before_there_is_something(edge: Edge) -> None:
    path = "/ws/v2/consumer/persistent/acme/orders/new/billing?subscriptionType=Shared&maxRedeliverCount=1"
    for role, named in (("reader@acme", ""), ("app@acme", "&deadLetterTopic=persistent://other/theirs/dead")):
        status, body = await edge.refused(f"{path}{named}&token={edge.token(role)}")
        assert status == 403 and "produce" in body["reason"]
    async with edge.connect(f"{path}&token={edge.token('app@acme')}"):
        pass


async def test_what_cannot_be_stored_there_comes_again_and_is_tried_again(edge: Edge) -> None:
    """A failure that passes."""
    refusals: list[MagnetarError] = [StorageFailed("the disk is full")]
    open_producer = edge.sessions.open_producer

    async def failing(principal: object, topic: str, *arguments: object, **more: object) -> object:
        if topic == DEAD and refusals:
            raise refusals.pop()
        return await open_producer(principal, topic, *arguments, **more)  # type: ignore[arg-type]

    edge.sessions.open_producer = failing  # type: ignore[method-assign, assignment]
    async with edge.connect(LIMITED) as consumer:
        await publish(edge, "AQ==")
        assert await refuse(consumer, 2) == [0, 1]
        await eventually(lambda: edge.acknowledged(TOPIC) == {0})
        assert not refusals and len(await edge.stored(DEAD)) == 1


async def test_a_dead_letter_topic_that_is_not_there_is_said(edge: Edge) -> None:
    path = LIMITED.replace("public/default", "acme/orders") + f"&deadLetterTopic={FIXED}/none&token={edge.token('app@acme')}"
    producing = PRODUCER.replace("public/default", "acme/orders") + f"?token={edge.token('app@acme')}"
    async with edge.connect(path) as consumer, edge.connect(producing) as producer:
        await send_json(producer, payload="AQ==")
        assert await refuse(consumer, 2) == [0, 1]
        code, reason = await close_of(consumer)
        assert code == POLICY and "dead letter topic" in reason
    assert edge.acknowledged("persistent://acme/orders/orders") == set()
