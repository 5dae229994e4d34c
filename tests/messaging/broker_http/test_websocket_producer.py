"""Producers over a WebSocket: frames in, receipts and refusals out."""

from __future__ import annotations

import json

from messaging.broker.http.websocket.frames import position_text
from messaging.broker.runtime.topics.persistent import persistent
from messaging.errors import NotAuthorized, NotReady, QuotaExceeded
from tests.messaging.broker_http.addresses import PRODUCER, TOPIC
from tests.support.brokers.http_edge import Edge, receive_json, running_edge, send_json
from tests.support.clients.websocket_peer import close_of, masked_text_frame
from tests.support.waiting import eventually


async def test_a_message_and_its_receipt(edge: Edge) -> None:
    async with edge.connect(PRODUCER + "?producerName=p1") as producer:
        await send_json(producer, payload="aGVsbG8=", properties={"a": "b"}, key="k", context="c1", sequenceId=4)
        receipt = await receive_json(producer)
    [stored] = await edge.stored(TOPIC)
    assert receipt.items() >= {"result": "ok", "messageId": position_text(stored.position), "context": "c1"}.items()
    assert (stored.payload, stored.properties, stored.key, stored.sequence_id) == (b"hello", {"a": "b"}, "k", 4)
    assert stored.producer_name == "p1"
    await eventually(lambda: not edge.topics[TOPIC].producers)


async def test_answers_come_in_the_order_of_the_frames(edge: Edge) -> None:
    edge.sessions.hold_receipts()
    async with edge.connect(PRODUCER) as producer:
        await send_json(producer, payload="AA==", context="1")
        await producer.send("this is no JSON")
        await send_json(producer, payload="!", context="3")
        await send_json(producer, payload="AA==", context="4")
        await eventually(lambda: edge.entries(TOPIC) == 2)
        await edge.sessions.release_receipts()
        answers = [await receive_json(producer) for _ in range(4)]
    assert [(answer["result"], answer.get("context")) for answer in answers] == [
        ("ok", "1"),
        ("send-error:3", None),
        ("send-error:7", "3"),
        ("ok", "4"),
    ]


async def test_frames_that_came_together_are_published_together(edge: Edge) -> None:
    async with edge.connect(PRODUCER) as producer:
        frame = json.dumps({"payload": "AA=="})
        data = b"".join(masked_text_frame(frame) for _ in range(50))
        producer.transport.write(data)
        for _ in range(50):
            assert (await receive_json(producer))["result"] == "ok"
    assert edge.entries(TOPIC) == 50
    assert len(edge.sessions.producers[0].blocks) < 10


async def test_a_refused_publish_is_told_message_by_message(edge: Edge) -> None:
    edge.sessions.refuse_to_publish(QuotaExceeded("the backlog quota is passed: consume first"))
    async with edge.connect(PRODUCER) as producer:
        await send_json(producer, payload="AA==", context="1")
        answer = await receive_json(producer)
        assert (answer["result"], answer["context"]) == ("send-error:8", "1") and "backlog quota" in answer["errorMsg"]
        edge.sessions.mend()
        await send_json(producer, payload="AA==", context="2")
        assert (await receive_json(producer))["result"] == "ok"


async def test_initial_sequence_id_numbers_what_has_no_number(edge: Edge) -> None:
    async with edge.connect(PRODUCER + "?initialSequenceId=9") as producer:
        for frame in ({}, {"sequenceId": 20}, {}):
            await send_json(producer, payload="AA==", **frame)
            await receive_json(producer)
    assert [message.sequence_id for message in await edge.stored(TOPIC)] == [10, 20, 21]


async def test_a_message_too_large_is_refused_and_one_far_too_large_ends_the_connection() -> None:
    async with running_edge(message_bytes_max=1000) as edge:
        async with edge.connect(PRODUCER) as producer:
            await send_json(producer, payload="A" * 1336)
            answer = await receive_json(producer)
            assert answer["result"] == "send-error:8" and "at most 1000" in answer["errorMsg"]
            await producer.send("x" * (70 << 10))
            assert (await close_of(producer))[0] == 1009
        assert edge.entries(TOPIC) == 0


async def test_reading_pauses_while_too_much_is_pending(edge: Edge) -> None:
    edge.sessions.hold_receipts()
    async with edge.connect(PRODUCER + "?maxPendingMessages=2") as producer:
        for number in range(5):
            await send_json(producer, payload="AA==", context=str(number))
        await eventually(lambda: edge.entries(TOPIC) == 2)
        await producer.ping()  # the server's protocol still answers what it has read
        assert edge.entries(TOPIC) == 2
        await edge.sessions.release_receipts()
        assert [(await receive_json(producer))["context"] for _ in range(5)] == ["0", "1", "2", "3", "4"]


async def test_a_producer_outlives_its_topic_and_says_message_by_message_that_it_was_terminated(edge: Edge) -> None:
    async with edge.connect(PRODUCER + "?producerName=p1") as producer:
        await send_json(producer, payload="AA==")
        assert (await receive_json(producer))["result"] == "ok"
        await persistent(edge.topics[TOPIC]).terminate()
        for context in "12":
            await send_json(producer, payload="AA==", context=context)
            answer = await receive_json(producer)
            assert (answer["result"], answer["context"]) == ("send-error:8", context) and "was terminated" in answer["errorMsg"]
    assert edge.entries(TOPIC) == 1


async def test_a_producer_that_the_broker_closed_is_opened_again_under_its_name(edge: Edge) -> None:
    async with edge.connect(PRODUCER) as producer:
        [before] = edge.topics[TOPIC].producers
        edge.sessions.producers[-1].close_by_broker(NotReady("the topic is moving"))
        data = b"".join(masked_text_frame(json.dumps({"payload": "AA=="})) for _ in range(5))
        producer.transport.write(data)
        for _ in range(5):
            assert (await receive_json(producer))["result"] == "ok"
        assert [one.name for one in edge.topics[TOPIC].producers] == [before.name]
    assert edge.entries(TOPIC) == 5
    await eventually(lambda: not edge.topics[TOPIC].producers)


async def test_a_producer_that_may_no_longer_publish_is_closed(edge: Edge) -> None:
    async with edge.connect(PRODUCER) as producer:
        edge.sessions.producers[-1].close_by_broker(NotAuthorized("the grant was revoked"))
        assert await close_of(producer) == (1008, "the grant was revoked")
