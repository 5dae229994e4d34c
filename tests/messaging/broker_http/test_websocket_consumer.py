"""Consumers over a WebSocket: messages out, acknowledgements and other commands in."""

from __future__ import annotations

import base64
import json

import pytest

from messaging.broker.http.websocket import window as window_module
from messaging.broker.runtime.topics.persistent import persistent
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send
from tests.messaging.broker_http.addresses import CONSUMER, READER, TOPIC, publish
from tests.support.brokers.http_edge import Edge, receive_json, send_json
from tests.support.clients.batches import store_frame
from tests.support.clients.websocket_peer import close_of, masked_text_frame
from tests.support.waiting import eventually

SHARED = CONSUMER + "?subscriptionType=Shared"  # counts redeliveries, as Exclusive does not


async def test_messages_arrive_and_are_acknowledged(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer:
        ids = await publish(edge, "AQ==", "Ag==")
        for message_id, payload in zip(ids, ("AQ==", "Ag=="), strict=True):
            message = await receive_json(consumer)
            assert (message["messageId"], message["payload"], message["redeliveryCount"]) == (message_id, payload, 0)
            assert message["publishTime"] == "2023-11-14T22:13:20.123Z"
            await send_json(consumer, messageId=message_id)
        await eventually(lambda: edge.acknowledged(TOPIC) == {0, 1})


async def test_the_window_is_receiver_queue_size(edge: Edge) -> None:
    async with edge.connect(CONSUMER + "?receiverQueueSize=2") as consumer:
        await publish(edge, *["AQ=="] * 5)
        first, _ = await receive_json(consumer), await receive_json(consumer)
        assert sum(edge.sessions.consumers[-1].flows) == 2
        await send_json(consumer, messageId=first["messageId"])
        third = await receive_json(consumer)
        assert sum(edge.sessions.consumers[-1].flows) == 3
        await send_json(consumer, type="negativeAcknowledge", messageId=third["messageId"])
        await receive_json(consumer)
        assert sum(edge.sessions.consumers[-1].flows) == 4


async def test_acknowledgements_that_came_together_are_settled_together(edge: Edge) -> None:
    async with edge.connect(CONSUMER + "?receiverQueueSize=50") as consumer:
        ids = await publish(edge, *["AQ=="] * 50)
        for _ in ids:
            await receive_json(consumer)
        consumer.transport.write(b"".join(masked_text_frame(json.dumps({"messageId": message_id})) for message_id in ids))
        await eventually(lambda: sum(edge.sessions.consumers[-1].flows) == 100)
        assert len(edge.sessions.consumers[-1].flows) < 10
        assert len(edge.acknowledged(TOPIC)) == 50


async def test_a_consumer_that_leaves_asks_for_nothing_more(edge: Edge) -> None:
    async with edge.connect(CONSUMER + "?receiverQueueSize=1") as consumer:
        [first, _] = await publish(edge, "AQ==", "Ag==")
        await receive_json(consumer)
        handle = edge.sessions.consumers[-1]
        consumer.transport.write(masked_text_frame(json.dumps({"messageId": first})) + b"\x88\x80\0\0\0\0")
    await eventually(lambda: handle.closes)
    assert edge.acknowledged(TOPIC) == {0}
    assert (handle.flows, len(handle.delivered)) == ([1], 1)


async def test_pull_mode_pushes_only_what_was_permitted(edge: Edge) -> None:
    async with edge.connect(CONSUMER + "?pullMode=true") as consumer:
        await publish(edge, *["AQ=="] * 5)
        await send_json(consumer, type="isEndOfTopic")
        assert await receive_json(consumer) == {"endOfTopic": False}  # and no message before it
        await send_json(consumer, type="permit", permitMessages=2)
        for _ in range(2):
            await send_json(consumer, messageId=(await receive_json(consumer))["messageId"])
        await eventually(lambda: len(edge.acknowledged(TOPIC)) == 2)
        assert edge.sessions.consumers[-1].flows == [2]
        await send_json(consumer, type="permit")
        code, reason = await close_of(consumer)
        assert code == 1007 and reason.startswith("3: permitMessages")


async def test_a_nack_brings_the_message_back_after_its_delay(edge: Edge) -> None:
    async with edge.connect(SHARED + "&negativeAckRedeliveryDelay=30") as consumer:
        [message_id] = await publish(edge, "AQ==")
        assert (await receive_json(consumer))["redeliveryCount"] == 0
        await send_json(consumer, type="negativeAcknowledge", messageId=message_id)
        again = await receive_json(consumer)
        assert (again["messageId"], again["redeliveryCount"]) == (message_id, 1)
    async with edge.connect(SHARED) as consumer:
        await receive_json(consumer)
        await send_json(consumer, type="negativeAcknowledge", messageId=message_id)
        await send_json(consumer, type="isEndOfTopic")
        await receive_json(consumer)
        assert edge.sessions.consumers[-1].nacks == []  # the default is a minute
        await send_json(consumer, messageId=message_id)
        await eventually(lambda: edge.acknowledged(TOPIC) == {0})


async def test_an_unacknowledged_message_comes_again_after_the_ack_timeout(edge: Edge) -> None:
    async with edge.connect(SHARED + "&ackTimeoutMillis=1000&receiverQueueSize=1") as consumer:
        await publish(edge, "AQ==", "Ag==")
        first = await receive_json(consumer)
        again = await receive_json(consumer)
        assert (again["messageId"], again["redeliveryCount"]) == (first["messageId"], 1)


async def test_end_of_topic_is_told_once_everything_was_acknowledged(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer:
        await publish(edge, "AQ==")
        await persistent(edge.topics[TOPIC]).terminate()
        message = await receive_json(consumer)

        async def at_end() -> bool:
            await send_json(consumer, type="isEndOfTopic")
            answer = await receive_json(consumer)
            assert answer.keys() == {"endOfTopic"}
            return bool(answer["endOfTopic"] is True)

        assert not await at_end()  # as in Pulsar, the end is reached when there is no backlog
        await send_json(consumer, messageId=message["messageId"])
        await eventually(at_end)


async def test_unsubscribe_and_its_refusal(edge: Edge) -> None:
    async with edge.connect(SHARED) as first, edge.connect(SHARED) as second:
        await send_json(first, type="unsubscribe")
        code, reason = await close_of(first)
        assert code == 1011 and "other consumers" in reason
        await eventually(lambda: len(edge.topics[TOPIC].subscriptions.table["billing"].consumers) == 1)
        await send_json(second, type="unsubscribe")
        await eventually(lambda: "billing" not in edge.topics[TOPIC].subscriptions.table)


@pytest.mark.parametrize("text", ["no JSON", "[]", "{}", '{"messageId": "x"}', '{"type": "negativeAcknowledge"}'])
async def test_malformed_commands_end_the_connection(edge: Edge, text: str) -> None:
    async with edge.connect(CONSUMER) as consumer:
        await consumer.send(text)
        code, reason = await close_of(consumer)
        assert code == 1007 and reason.startswith("3: ")


async def test_unacknowledged_messages_go_to_the_next_consumer(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer:
        [message_id] = await publish(edge, "AQ==")
        await receive_json(consumer)
    await eventually(lambda: not edge.topics[TOPIC].subscriptions.table["billing"].consumers)
    async with edge.connect(CONSUMER) as consumer:
        message = await receive_json(consumer)
        assert (message["messageId"], message["redeliveryCount"]) == (message_id, 0)  # a new consumer of an Exclusive subscription


async def test_a_consumer_that_does_not_read_is_not_served_without_end(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "QUEUED_BYTES_MAX", 1 << 20)
    payload = "A" * (256 << 10)
    async with edge.connect(CONSUMER, max_queue=1) as consumer:
        await publish(edge, *[payload] * 100)

        async def served() -> int:
            await send_json(consumer, type="isEndOfTopic")  # a round trip of our own through the server
            return len(edge.sessions.consumers[-1].delivered)

        await eventually(lambda: len(edge.sessions.consumers[-1].delivered) > 4)
        await served()
        assert sum(edge.sessions.consumers[-1].flows) < 60
        received = 0
        while received < 100:
            message = await receive_json(consumer)
            if "payload" in message:
                received += 1
                await send_json(consumer, messageId=message["messageId"])
    assert len(edge.sessions.consumers[-1].delivered) == 100


async def stored(edge: Edge, payload: bytes, *, encrypted: bool = False) -> None:
    """A message of a client of the binary protocol."""
    metadata = pb.Metadata(producer_name="p", sequence_id=0, publish_time=1)
    if encrypted:
        metadata.encryption_keys.add(key="app", value=b"key")
    await store_frame(edge.broker, TOPIC, build_send(0, 0, metadata, payload))


@pytest.mark.parametrize("action", ["", "FAIL", "DISCARD", "CONSUME"])
async def test_what_becomes_of_encrypted_messages_is_the_clients_choice(edge: Edge, action: str) -> None:
    query = f"?receiverQueueSize=2{action and f'&cryptoFailureAction={action}'}"
    async with edge.connect(CONSUMER + query) as consumer:
        for number in range(10):
            await stored(edge, b"%d" % number, encrypted=number % 5 != 4)
        expected = list(range(10)) if action == "CONSUME" else [4, 9]
        for number in expected:
            message = await receive_json(consumer)
            assert base64.b64decode(message["payload"]) == b"%d" % number
            assert ("encryptionContext" in message) == (number % 5 != 4)
            await send_json(consumer, messageId=message["messageId"])
        acknowledged = {4, 9} if action in ("", "FAIL") else set(range(10))
        await eventually(lambda: edge.acknowledged(TOPIC) == acknowledged)


async def test_readers_get_encrypted_messages_where_they_ask_for_them(edge: Edge) -> None:
    await stored(edge, b"secret", encrypted=True)
    await stored(edge, b"plain")
    for query, expected in (("", [b"plain"]), ("&cryptoFailureAction=CONSUME", [b"secret", b"plain"])):
        async with edge.connect(f"{READER}?messageId=earliest{query}") as reader:
            assert [base64.b64decode((await receive_json(reader))["payload"]) for _ in expected] == expected


async def test_the_consumer_has_the_name_and_priority_that_it_asked_for(edge: Edge) -> None:
    """Failover sorts by them; the name also has the keys on the ring of Key_Shared."""
    first = CONSUMER + "?subscriptionType=Failover&consumerName=a&priorityLevel=1"
    second = CONSUMER + "?subscriptionType=Failover&consumerName=b"
    async with edge.connect(first), edge.connect(second), edge.connect(READER + "?readerName=mine"):
        await eventually(lambda: len(edge.sessions.consumers) == 3)
        subscriptions = list(edge.broker.topics.loaded[TOPIC].subscriptions.table.values())
        found = {(one.name, one.priority) for subscription in subscriptions for one in subscription.consumers}
        assert found == {("a", 1), ("b", 0), ("mine", 0)}
        active = next(one.active for one in subscriptions if len(one.consumers) == 2)
        assert active is not None and active.name == "b"
