"""`maxRedeliverCount` and `deadLetterTopic` of WebSocket consumers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
import websockets

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.http.websocket import consumer as consuming
from messaging.broker.http.websocket.link import POLICY
from messaging.broker.http.websocket.window import QUEUED_BYTES_MAX
from messaging.errors import MagnetarError, MessageTooLarge, StorageFailed
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send
from tests.messaging.broker_http.addresses import CONSUMER, PRODUCER, TOPIC, publish
from tests.support.brokers.http_edge import FIXED, Edge, receive_json, send_json
from tests.support.clients.batches import store_frame
from tests.support.clients.websocket_peer import close_of
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


SOON = CONSUMER + "?subscriptionType=Shared&negativeAckRedeliveryDelay=0&maxRedeliverCount=1"


def before_opening(edge: Edge, act: Callable[[], Awaitable[None]]) -> None:
    """`act` is awaited each time before a producer of the dead letter topic is opened."""
    open_producer = edge.sessions.open_producer

    async def opening(principal: Any, topic: str, *arguments: Any, **more: Any) -> Any:
        if topic == DEAD:
            await act()
        return await open_producer(principal, topic, *arguments, **more)

    edge.sessions.open_producer = opening  # type: ignore[method-assign]


def delivered(edge: Edge) -> int:
    return len(edge.sessions.consumers[-1].delivered)


async def test_dead_letters_that_are_not_stored_yet_take_bounded_memory(edge: Edge) -> None:
    """They were 1,000 of whatever size: a client that refused all had as much of the broker's memory as it liked."""
    size, count, may_open = 512 << 10, 60, asyncio.Event()  # more than it has permits for

    async def wait() -> None:
        await may_open.wait()

    before_opening(edge, wait)
    account = edge.broker.memory_limiter.egress
    async with edge.connect(SOON, max_size=None) as consumer:
        await publish(edge, *[base64.b64encode(bytes(size)).decode()] * count)
        await refuse(consumer, count)
        ids = [(await receive_json(consumer))["messageId"] for _ in range(count)]
        for message_id in ids:
            await send_json(consumer, type="negativeAcknowledge", messageId=message_id)
        await eventually(lambda: delivered(edge) >= 2 * count + QUEUED_BYTES_MAX // size - 1)
        for _ in range(10):  # what it reads, and asks for then, comes in these turns
            await (await consumer.ping())
        assert QUEUED_BYTES_MAX - size <= account.used_bytes <= QUEUED_BYTES_MAX + 2 * size
        may_open.set()
        await eventually(lambda: edge.acknowledged(TOPIC) == set(range(count)))
    assert account.used_bytes == edge.broker.memory_limiter.ingress.used_bytes == 0


async def test_dead_letters_on_their_way_count_as_what_is_published(edge: Edge) -> None:
    ingress = edge.broker.memory_limiter.ingress
    async with edge.connect(SOON) as consumer:
        await publish(edge, base64.b64encode(bytes(10_000)).decode())
        await eventually(lambda: not ingress.used_bytes)
        edge.sessions.hold_receipts()
        await refuse(consumer, 2)
        await eventually(lambda: ingress.used_bytes >= 10_000)
        await edge.sessions.release_receipts()
        await eventually(lambda: edge.acknowledged(TOPIC) == {0} and not ingress.used_bytes)


async def test_a_dead_letter_that_cannot_be_stored_is_tried_again_after_longer_and_longer(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a delay of negative acknowledgements it went round as fast as the broker could."""
    monkeypatch.setattr(consuming, "MOVE_AGAIN_S", 0.1)
    loop, times_s = asyncio.get_running_loop(), list[float]()

    async def fail() -> None:
        times_s.append(loop.time())
        if len(times_s) < 4:
            raise StorageFailed("the disk is full")

    before_opening(edge, fail)
    async with edge.connect(SOON) as consumer:
        await publish(edge, "AQ==")
        await refuse(consumer, 2)
        await eventually(lambda: edge.acknowledged(TOPIC) == {0})
    pauses_s = [after - before for before, after in pairwise(times_s)]
    assert len(pauses_s) == 3 and all(pause_s > 0.09 * 2**number for number, pause_s in enumerate(pauses_s))


async def test_a_dead_letter_that_can_never_be_stored_is_in_nobodys_way(edge: Edge) -> None:
    may_open = asyncio.Event()

    async def wait() -> None:
        await may_open.wait()

    before_opening(edge, wait)
    async with edge.connect(SOON) as consumer:
        await publish(edge, "AQ==", "AA==", "AQ==")
        await refuse(consumer, 6)
        await eventually(lambda: delivered(edge) == 9)
        open_producer = edge.sessions.sessions.open_producer

        async def choosy(*arguments: Any, **more: Any) -> Any:
            handle = await open_producer(*arguments, **more)
            publish_there = handle.publish

            def publish_small(messages: Any, on_receipt: Any) -> None:
                if any(message.payload == b"\x00" for message in messages):
                    asyncio.get_running_loop().call_soon(on_receipt, None, MessageTooLarge("send it in parts"))
                else:
                    publish_there(messages, on_receipt)

            handle.publish = publish_small  # type: ignore[method-assign]
            return handle

        edge.sessions.sessions.open_producer = choosy  # type: ignore[method-assign]
        may_open.set()
        await eventually(lambda: edge.acknowledged(TOPIC) == {0, 2})
        assert [letter.payload for letter in await edge.stored(DEAD)] == [b"\x01", b"\x01"]


@pytest.mark.parametrize("encrypted", [True, False])
async def test_dead_letters_where_all_has_to_be_encrypted(edge: Edge, encrypted: bool) -> None:
    """Encrypted ones were refused for good, and nobody was told."""
    async with edge.connect(SOON + "&cryptoFailureAction=CONSUME") as consumer:
        metadata = pb.Metadata(producer_name="p", sequence_id=0, publish_time=1)
        if encrypted:
            metadata.encryption_keys.add(key="app", value=b"key")
        await store_frame(edge.broker, TOPIC, build_send(0, 0, metadata, b"dead"))
        await refuse(consumer, 1)
        message = await receive_json(consumer)
        state = {"policies": {"encryption_required": True}}
        change = FeedChange(version=2, kind="namespace", key="public/default", state=state)
        await edge.broker.access.feed.apply(FeedApply(from_version=1, to_version=2, full=False, changes=[change]))
        await send_json(consumer, type="negativeAcknowledge", messageId=message["messageId"])
        if not encrypted:
            code, reason = await close_of(consumer)
            assert code == POLICY and "encryption_required" in reason
            return
        await eventually(lambda: edge.acknowledged(TOPIC) == {0})
        [letter] = await edge.stored(DEAD)
        assert letter.payload == b"dead" and letter.encryption is not None
