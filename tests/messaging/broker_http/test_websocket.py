from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trustme
import websockets

from messaging.broker.http.websocket import window as window_module
from messaging.broker.http.websocket.frames import position_text
from messaging.broker.runtime.local.messages import MessagePosition
from messaging.errors import (
    AuthenticationFailed,
    ConsumerBusy,
    IncompatibleSchema,
    MagnetarError,
    NotReady,
    ProducerFenced,
    QuotaExceeded,
    TopicNotFound,
    TopicTerminated,
)
from messaging.permissions.model import Principal
from tests.messaging.broker_http.addresses import CONSUMER, PRODUCER, TOPIC, publish
from tests.support.fake_service import FakeService
from tests.support.http_edge import Edge, receive_json, running_edge, send_json
from tests.support.waiting import eventually

READER = "/ws/v2/reader/persistent/public/default/orders"
ENDPOINTS = [PRODUCER, CONSUMER, READER]


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    async with running_edge() as running:
        yield running


async def close_of(connection: websockets.ClientConnection) -> tuple[int, str]:
    """Code and reason of the server's close frame, after whatever it still sends."""
    with pytest.raises(websockets.ConnectionClosed) as caught:
        async with asyncio.timeout(10):
            while True:
                await connection.recv()
    assert caught.value.rcvd is not None, "no close frame"
    return caught.value.rcvd.code, caught.value.rcvd.reason


# --- producer ----------------------------------------------------------------------------------------------------------------


async def test_a_message_and_its_receipt(edge: Edge) -> None:
    async with edge.connect(PRODUCER + "?producerName=p1") as producer:
        await send_json(producer, payload="aGVsbG8=", properties={"a": "b"}, key="k", context="c1", sequenceId=4)
        assert await receive_json(producer) == {"result": "ok", "messageId": "CAEQAA==", "context": "c1"}
    [stored] = edge.service.topics[TOPIC].messages
    assert (stored.payload, stored.properties, stored.key, stored.sequence_id) == (b"hello", {"a": "b"}, "k", 4)
    assert stored.producer_name == "p1"
    await eventually(lambda: not edge.service.topics[TOPIC].producers)


async def test_answers_come_in_the_order_of_the_frames(edge: Edge) -> None:
    edge.service.hold_receipts = True
    async with edge.connect(PRODUCER) as producer:
        await send_json(producer, payload="AA==", context="1")
        await producer.send("this is no JSON")
        await send_json(producer, payload="!", context="3")
        await send_json(producer, payload="AA==", context="4")
        await eventually(lambda: len(edge.service.topics[TOPIC].messages) == 2)
        edge.service.release_receipts()
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
        data = b"".join(_masked_text_frame(frame) for _ in range(50))
        producer.transport.write(data)
        for _ in range(50):
            assert (await receive_json(producer))["result"] == "ok"
    assert len(edge.service.topics[TOPIC].messages) == 50
    assert len(edge.service.topics[TOPIC].blocks) < 10


async def test_a_refused_publish_is_told_message_by_message(edge: Edge) -> None:
    edge.service.refuse_publish = QuotaExceeded("the backlog quota is passed: consume first")
    async with edge.connect(PRODUCER) as producer:
        await send_json(producer, payload="AA==", context="1")
        answer = await receive_json(producer)
        assert (answer["result"], answer["context"]) == ("send-error:8", "1") and "backlog quota" in answer["errorMsg"]
        edge.service.refuse_publish = None
        await send_json(producer, payload="AA==", context="2")
        assert (await receive_json(producer))["result"] == "ok"


async def test_initial_sequence_id_numbers_what_has_no_number(edge: Edge) -> None:
    async with edge.connect(PRODUCER + "?initialSequenceId=9") as producer:
        for frame in ({}, {"sequenceId": 20}, {}):
            await send_json(producer, payload="AA==", **frame)
            await receive_json(producer)
    assert [message.sequence_id for message in edge.service.topics[TOPIC].messages] == [10, 20, 21]


async def test_a_message_too_large_is_refused_and_one_far_too_large_ends_the_connection() -> None:
    async with running_edge(message_bytes_max=1000) as edge:
        async with edge.connect(PRODUCER) as producer:
            await send_json(producer, payload="A" * 1336)
            answer = await receive_json(producer)
            assert answer["result"] == "send-error:8" and "at most 1000" in answer["errorMsg"]
            await producer.send("x" * (70 << 10))
            assert (await close_of(producer))[0] == 1009
        assert edge.service.topics[TOPIC].messages == []


async def test_reading_pauses_while_too_much_is_pending(edge: Edge) -> None:
    edge.service.hold_receipts = True
    async with edge.connect(PRODUCER + "?maxPendingMessages=2") as producer:
        for number in range(5):
            await send_json(producer, payload="AA==", context=str(number))
        await eventually(lambda: len(edge.service.topics[TOPIC].messages) == 2)
        await producer.ping()  # the server's protocol still answers what it has read
        assert len(edge.service.topics[TOPIC].messages) == 2
        edge.service.release_receipts()
        assert [(await receive_json(producer))["context"] for _ in range(5)] == ["0", "1", "2", "3", "4"]


# --- consumer ----------------------------------------------------------------------------------------------------------------


async def test_messages_arrive_and_are_acknowledged(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer:
        ids = await publish(edge, "AQ==", "Ag==")
        for message_id, payload in zip(ids, ("AQ==", "Ag=="), strict=True):
            message = await receive_json(consumer)
            assert (message["messageId"], message["payload"], message["redeliveryCount"]) == (message_id, payload, 0)
            assert message["publishTime"] == "2023-11-14T22:13:20.123Z"
            await send_json(consumer, messageId=message_id)
        await eventually(lambda: edge.service.topics[TOPIC].subscriptions["billing"].acknowledged == {0, 1})


async def test_the_window_is_receiver_queue_size(edge: Edge) -> None:
    async with edge.connect(CONSUMER + "?receiverQueueSize=2") as consumer:
        await publish(edge, *["AQ=="] * 5)
        first, _ = await receive_json(consumer), await receive_json(consumer)
        assert sum(edge.service.consumer(TOPIC).flows) == 2
        await send_json(consumer, messageId=first["messageId"])
        third = await receive_json(consumer)
        assert sum(edge.service.consumer(TOPIC).flows) == 3
        await send_json(consumer, type="negativeAcknowledge", messageId=third["messageId"])
        await receive_json(consumer)
        assert sum(edge.service.consumer(TOPIC).flows) == 4


async def test_acknowledgements_that_came_together_are_settled_together(edge: Edge) -> None:
    async with edge.connect(CONSUMER + "?receiverQueueSize=50") as consumer:
        ids = await publish(edge, *["AQ=="] * 50)
        for _ in ids:
            await receive_json(consumer)
        consumer.transport.write(b"".join(_masked_text_frame(json.dumps({"messageId": message_id})) for message_id in ids))
        await eventually(lambda: sum(edge.service.consumer(TOPIC).flows) == 100)
        assert len(edge.service.consumer(TOPIC).flows) < 10
        assert len(edge.service.topics[TOPIC].subscriptions["billing"].acknowledged) == 50


async def test_a_consumer_that_leaves_asks_for_nothing_more(edge: Edge) -> None:
    async with edge.connect(CONSUMER + "?receiverQueueSize=1") as consumer:
        [first, _] = await publish(edge, "AQ==", "Ag==")
        await receive_json(consumer)
        handle = edge.service.consumer(TOPIC)
        consumer.transport.write(_masked_text_frame(json.dumps({"messageId": first})) + b"\x88\x80\0\0\0\0")
    await eventually(lambda: handle.closed)
    subscription = edge.service.topics[TOPIC].subscriptions["billing"]
    assert subscription.acknowledged == {0}
    assert subscription.redeliveries == {}


async def test_pull_mode_pushes_only_what_was_permitted(edge: Edge) -> None:
    async with edge.connect(CONSUMER + "?pullMode=true") as consumer:
        await publish(edge, *["AQ=="] * 5)
        await send_json(consumer, type="isEndOfTopic")
        assert await receive_json(consumer) == {"endOfTopic": "false"}  # and no message before it
        await send_json(consumer, type="permit", permitMessages=2)
        for _ in range(2):
            await send_json(consumer, messageId=(await receive_json(consumer))["messageId"])
        await eventually(lambda: len(edge.service.topics[TOPIC].subscriptions["billing"].acknowledged) == 2)
        assert edge.service.consumer(TOPIC).flows == [2]
        await send_json(consumer, type="permit")
        code, reason = await close_of(consumer)
        assert code == 1007 and reason.startswith("3: permitMessages")


async def test_a_nack_brings_the_message_back_after_its_delay(edge: Edge) -> None:
    async with edge.connect(CONSUMER + "?negativeAckRedeliveryDelay=30") as consumer:
        [message_id] = await publish(edge, "AQ==")
        assert (await receive_json(consumer))["redeliveryCount"] == 0
        await send_json(consumer, type="negativeAcknowledge", messageId=message_id)
        again = await receive_json(consumer)
        assert (again["messageId"], again["redeliveryCount"]) == (message_id, 1)
    async with edge.connect(CONSUMER) as consumer:
        await receive_json(consumer)
        await send_json(consumer, type="negativeAcknowledge", messageId=message_id)
        await send_json(consumer, type="isEndOfTopic")
        await receive_json(consumer)
        assert edge.service.consumer(TOPIC).nacks == []  # the default is a minute
        await send_json(consumer, messageId=message_id)
        await eventually(lambda: edge.service.topics[TOPIC].subscriptions["billing"].acknowledged == {0})


async def test_an_unacknowledged_message_comes_again_after_the_ack_timeout(edge: Edge) -> None:
    async with edge.connect(CONSUMER + "?ackTimeoutMillis=1000&receiverQueueSize=1") as consumer:
        await publish(edge, "AQ==", "Ag==")
        first = await receive_json(consumer)
        again = await receive_json(consumer)
        assert (again["messageId"], again["redeliveryCount"]) == (first["messageId"], 1)


async def test_end_of_topic_is_told_once_everything_was_sent(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer:
        await publish(edge, "AQ==")
        edge.service.consumer(TOPIC).sink.end_of_topic()
        await receive_json(consumer)
        await send_json(consumer, type="isEndOfTopic")
        assert await receive_json(consumer) == {"endOfTopic": "true"}


async def test_unsubscribe_and_its_refusal(edge: Edge) -> None:
    shared = CONSUMER + "?subscriptionType=Shared"
    async with edge.connect(shared) as first, edge.connect(shared) as second:
        await send_json(first, type="unsubscribe")
        code, reason = await close_of(first)
        assert code == 1011 and "others are attached" in reason
        await eventually(lambda: len(edge.service.topics[TOPIC].subscriptions["billing"].consumers) == 1)
        await send_json(second, type="unsubscribe")
        await eventually(lambda: "billing" not in edge.service.topics[TOPIC].subscriptions)


@pytest.mark.parametrize("text", ["no JSON", "[]", "{}", '{"messageId": "x"}', '{"type": "negativeAcknowledge"}'])
async def test_malformed_commands_end_the_connection(edge: Edge, text: str) -> None:
    async with edge.connect(CONSUMER) as consumer:
        await consumer.send(text)
        code, reason = await close_of(consumer)
        assert code == 1007 and reason.startswith("3: ")


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_binary_frames_end_the_connection(edge: Edge, path: str) -> None:
    async with edge.connect(path) as connection:
        await connection.send(b"{}")
        assert await close_of(connection) == (1007, "binary frames are not taken: send JSON as text")


async def test_unacknowledged_messages_go_to_the_next_consumer(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer:
        [message_id] = await publish(edge, "AQ==")
        await receive_json(consumer)
    await eventually(lambda: not edge.service.topics[TOPIC].subscriptions["billing"].consumers)
    async with edge.connect(CONSUMER) as consumer:
        message = await receive_json(consumer)
        assert (message["messageId"], message["redeliveryCount"]) == (message_id, 1)


async def test_a_consumer_that_does_not_read_is_not_served_without_end(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "QUEUED_BYTES_MAX", 1 << 20)
    topic = edge.service.topic(TOPIC)
    payload = "A" * (256 << 10)
    async with edge.connect(CONSUMER, max_queue=1) as consumer:
        await publish(edge, *[payload] * 100)

        async def served() -> int:
            await send_json(consumer, type="isEndOfTopic")  # a round trip of our own through the server
            return topic.subscriptions["billing"].position

        await eventually(lambda: topic.subscriptions["billing"].position > 4)
        await served()
        assert edge.service.consumer(TOPIC).permits + topic.subscriptions["billing"].position < 60
        received = 0
        while received < 100:
            message = await receive_json(consumer)
            if "payload" in message:
                received += 1
                await send_json(consumer, messageId=message["messageId"])
    assert topic.subscriptions["billing"].position == 100


# --- reader ------------------------------------------------------------------------------------------------------------------


async def test_a_reader_starts_where_it_is_told(edge: Edge) -> None:
    ids = await publish(edge, "AQ==", "Ag==", "Aw==")
    for start, expected in (("earliest", ids), (ids[0].replace("=", "%3D"), ids[1:])):
        async with edge.connect(f"{READER}?messageId={start}") as reader:
            for message_id in expected:
                message = await receive_json(reader)
                assert message["messageId"] == message_id and "redeliveryCount" not in message
    async with edge.connect(READER) as reader:
        [latest] = await publish(edge, "BA==")
        assert (await receive_json(reader))["messageId"] == latest
    await eventually(lambda: not edge.service.topics[TOPIC].subscriptions)


async def test_any_text_of_a_reader_makes_room_for_one_more(edge: Edge) -> None:
    await publish(edge, *["AQ=="] * 3)
    async with edge.connect(READER + "?messageId=earliest&receiverQueueSize=1") as reader:
        await receive_json(reader)
        for text in ("anything", '{"messageId": "CAEQAA=="}'):
            await reader.send(text)
            await receive_json(reader)
        await send_json(reader, type="isEndOfTopic")
        assert await receive_json(reader) == {"endOfTopic": "false"}
        await eventually(lambda: len(next(iter(edge.service.topics[TOPIC].subscriptions.values())).acknowledged) == 3)


# --- who may -----------------------------------------------------------------------------------------------------------------


def tenants_service() -> FakeService:
    service = FakeService()
    service.tokens = {
        "writer-token": Principal("writer@acme", "k1"),
        "reader-token": Principal("reader@acme", "k2"),
        "stranger-token": Principal("someone@other", "k3"),
        "root-token": Principal("admin", "k0"),
    }
    service.grants.namespaces["acme/orders"] = {"writer@acme": {"produce"}, "reader@acme": {"consume"}}
    return service


ACME = {path: path.replace("public/default", "acme/orders") for path in ENDPOINTS}


@pytest.mark.parametrize(
    ("token", "may"),
    [
        ("writer-token", {PRODUCER}),
        ("reader-token", {CONSUMER, READER}),
        ("stranger-token", set()),
        ("root-token", set(ENDPOINTS)),
        (None, set()),
    ],
)
@pytest.mark.parametrize("path", ENDPOINTS)
async def test_each_endpoint_asks_for_its_permission(path: str, token: str | None, may: set[str]) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with running_edge(tenants_service()) as edge:
        if path in may:
            async with edge.connect(ACME[path], additional_headers=headers):
                pass
        else:
            status, body = await edge.refused(ACME[path], additional_headers=headers)
            assert (status, body["code"]) == (403, "not_authorized")
            assert edge.service.topics == {}


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_a_service_that_forgets_to_check_is_caught_by_the_table(path: str) -> None:
    class Forgetful(FakeService):
        def _topic(self, principal: Principal, *args: Any) -> Any:
            return super()._topic(Principal("admin"), *args)

    service = Forgetful()
    service.tokens = tenants_service().tokens
    async with running_edge(service) as edge:
        status, body = await edge.refused(f"{ACME[path]}?token=stranger-token")
        assert (status, body["code"]) == (403, "not_authorized")
        [topic] = service.topics.values()
        assert not topic.producers and not any(s.consumers for s in topic.subscriptions.values())


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_tokens_by_header_or_query(path: str) -> None:
    async with running_edge(tenants_service()) as edge:
        async with edge.connect(f"{ACME[path]}?token=root-token"):
            pass
        for options in (
            {"path": f"{ACME[path]}?token=forged"},
            {"path": ACME[path], "additional_headers": {"Authorization": "Bearer forged"}},
            {"path": f"{ACME[path]}?token=root-token", "additional_headers": {"Authorization": "Basic cm9vdA=="}},
        ):
            status, body = await edge.refused(**options)
            assert (status, body["code"]) == (401, "authentication_failed")


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_foreign_pages_are_refused_before_anything_else(edge: Edge, path: str) -> None:
    status, body = await edge.refused(path + "?token=forged", origin="https://evil.example")
    assert status == 403 and "evil.example" in body["message"]
    async with edge.connect(path, origin="http://localhost:8080"):
        pass


async def test_a_foreign_host_is_refused(edge: Edge) -> None:
    url = f"ws://rebinding.example:{edge.listeners.ws_port}{PRODUCER}"
    with pytest.raises(websockets.InvalidStatus) as caught:
        async with websockets.connect(url, host="127.0.0.1", port=edge.listeners.ws_port, proxy=None):
            pass
    assert caught.value.response.status_code == 421


@pytest.mark.parametrize("level", [logging.NOTSET, logging.INFO])
async def test_no_token_is_ever_logged(caplog: pytest.LogCaptureFixture, level: int) -> None:
    """Neither as configured with everything at debug, nor where somebody turns uvicorn's lines about requests on again."""
    caplog.set_level(logging.DEBUG)
    async with running_edge(tenants_service()) as edge:
        if level:
            caplog.set_level(level, "uvicorn.error")
        headers = {"Authorization": "Bearer root-token"}
        async with edge.connect(ACME[PRODUCER] + "?token=root-token", additional_headers=headers):
            pass
        await edge.refused(ACME[PRODUCER] + "?token=stranger-token")
        await edge.refused("/unknown?token=stranger-token")
    servers = [record for record in caplog.records if record.name != "websockets.client"]
    if level:
        assert [record for record in servers if record.name == "uvicorn.error"]
    assert not [record for record in servers if "-token" in record.getMessage()]


async def test_a_connection_ends_when_its_token_does() -> None:
    service = tenants_service()
    service.tokens["short"] = Principal("admin", "k", expires_ms=1_000_050)
    async with running_edge(service, clock_ms=lambda: 1_000_000) as edge, edge.connect(PRODUCER + "?token=short") as producer:
        code, reason = await close_of(producer)
        assert code == 1008 and "expired" in reason


# --- opening and ending ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ws/v2/producer/persistent/public/default", 400),
        ("/ws/v2/consumer/persistent/public/default/orders", 400),
        ("/ws/v2/producer/imaginary/public/default/orders", 400),
        ("/ws/v2/producer/persistent/pub%20lic/default/orders", 400),
        ("/ws/v2/producer/persistent/public/default/a/b", 400),
        ("/ws/v2/producer/persistent/public/default/a%2541", 400),
        ("/ws/v2/producer/persistent/public%2Fdefault/x/orders", 400),
        ("/ws/v2/producer/persistent/public/default/%ff", 400),
        ("/ws/v2/consumer/persistent/public/default/orders/%00", 400),
        (PRODUCER + "?maxPendingMessages=x", 400),
        (CONSUMER + "?receiverQueueSize=-1", 400),
        (READER + "?messageId=nonsense", 400),
        ("/ws/v2/admin/persistent/public/default/orders", 404),
        ("/ws/v1/producer/persistent/public/default/orders", 404),
        ("/", 404),
        ("/ws/v2/producer/persistent/public/default/missing", 404),
        ("/ws/v2/consumer/persistent/public/default/missing/s", 404),
        ("/ws/v2/reader/persistent/public/default/missing", 500),
    ],
)
async def test_bad_paths_and_parameters_have_pulsars_status(
    edge: Edge, path: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    got, body = await edge.refused(path)
    assert got == status and body["reason"] and body["code"], path
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]  # a peer's mistake is no error of ours
    assert [name for name in edge.service.topics if "missing" not in name] in ([], [TOPIC])
    assert not any(topic.producers or topic.subscriptions for topic in edge.service.topics.values())


@pytest.mark.parametrize(
    ("error", "status", "reader_status"),
    [
        (AuthenticationFailed("x"), 401, 401),
        (ConsumerBusy("x"), 409, 500),
        (ProducerFenced("x"), 409, 500),
        (IncompatibleSchema("x"), 409, 500),
        (QuotaExceeded("x"), 503, 500),
        (TopicTerminated("x"), 503, 500),
        (NotReady("x"), 503, 500),
        (MagnetarError("x"), 500, 500),
    ],
)
async def test_errors_of_opening_have_pulsars_status(edge: Edge, error: MagnetarError, status: int, reader_status: int) -> None:
    edge.service.refuse_open = error
    for path, expected in ((PRODUCER, status), (CONSUMER, status), (READER, reader_status)):
        got, body = await edge.refused(path)
        assert (got, body["code"]) == (expected, error.code)


async def test_an_exclusive_subscription_and_a_producer_name_are_taken_once(edge: Edge) -> None:
    async with edge.connect(CONSUMER), edge.connect(PRODUCER + "?producerName=p"):
        assert (await edge.refused(CONSUMER))[0] == 409
        assert (await edge.refused(PRODUCER + "?producerName=p"))[0] == 409


async def test_an_unexpected_failure_is_logged_and_told_without_its_cause(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    edge.service.refuse_open = RuntimeError("the cause")  # type: ignore[assignment]
    status, body = await edge.refused(PRODUCER)
    assert status == 500 and "the cause" not in body["message"]
    assert any("websocket could not be opened" in record.message for record in caplog.records)


async def test_names_are_decoded(edge: Edge) -> None:
    async with edge.connect("/ws/v2/consumer/persistent/public/default/caf%C3%A9/sub%2Fscription"):
        [subscription] = edge.service.topics["persistent://public/default/café"].subscriptions
        assert subscription == "sub/scription"


async def test_non_persistent_topics_have_their_domain(edge: Edge) -> None:
    async with edge.connect(PRODUCER.replace("persistent", "non-persistent")):
        assert list(edge.service.topics) == [TOPIC.replace("persistent", "non-persistent")]


@pytest.mark.parametrize(
    ("error", "code"),
    [(None, 1000), (NotReady("the topic is moving"), 1012), (TopicNotFound("deleted"), 1008), (MagnetarError("odd"), 1011)],
)
async def test_what_the_broker_closes_is_closed_with_the_reason(edge: Edge, error: MagnetarError | None, code: int) -> None:
    async with edge.connect(CONSUMER) as consumer:
        edge.service.consumer(TOPIC).sink.closed(error)
        assert await close_of(consumer) == (code, error.message if error else "")


async def test_a_long_reason_is_cut_to_what_a_close_frame_holds(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer:
        edge.service.consumer(TOPIC).sink.closed(NotReady("ü" * 200))
        assert await close_of(consumer) == (1012, "ü" * 61)


async def test_websockets_have_their_share_of_connections_and_superusers_a_reserve() -> None:
    """Of 8 one is kept for superusers; whoever comes without a key has as many as are left for everybody else, and no more."""
    async with running_edge(connections_max=8) as edge, AsyncExitStack() as stack:
        edge.service.tokens["root"] = Principal("admin", "root")
        for _ in range(4):
            await stack.enter_async_context(edge.connect(PRODUCER))
        status, body = await edge.refused(PRODUCER)
        assert (status, "connections_max = 8" in body["message"]) == (503, True)
        async with edge.connect(PRODUCER, additional_headers={"Authorization": "Bearer root"}):
            pass
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.listeners.ws_port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in await reader.readline()  # full is not dead
        writer.close()
        await stack.aclose()
        await eventually(lambda: edge.service.peers.shares.authenticated == 0)
        async with edge.connect(PRODUCER):
            pass


async def test_connections_and_messages_are_counted(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer:
        await publish(edge, "AQ==")
        await receive_json(consumer)
        await edge.refused("/ws/v2/producer/persistent/public/default/missing")
        counters = edge.listeners.counters
        assert (counters.messages_in, counters.messages_out) == (1, 1)
        assert counters.opened == {"consumer": 1, "producer": 1}
        assert counters.refused == {("producer", "404"): 1}
        assert counters.connections["consumer"] == 1
    await eventually(lambda: counters.connections["consumer"] == 0)


async def test_stopping_closes_connections_and_what_they_opened(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer, edge.connect(PRODUCER) as producer:
        await edge.listeners.stop()
        assert (await close_of(consumer))[0] == 1012
        assert (await close_of(producer))[0] == 1012
    topic = edge.service.topics[TOPIC]
    assert not topic.producers and not topic.subscriptions["billing"].consumers


async def test_what_was_read_before_the_end_is_published(edge: Edge) -> None:
    async with edge.connect(PRODUCER) as producer:
        await send_json(producer, payload="AA==")
    await eventually(lambda: len(edge.service.topic(TOPIC).messages) == 1)


async def test_over_tls() -> None:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    async with running_edge(tls=server) as edge:
        url = f"wss://127.0.0.1:{edge.listeners.ws_port}{PRODUCER}"
        async with websockets.connect(url, ssl=client, proxy=None) as producer:
            await send_json(producer, payload="AA==")
            assert await receive_json(producer) == {"result": "ok", "messageId": position_text(MessagePosition(1, 0))}


def _masked_text_frame(text: str) -> bytes:
    data = text.encode()
    assert len(data) < 126
    return bytes([0x81, 0x80 | len(data), 0, 0, 0, 0]) + data
