from __future__ import annotations

import asyncio
import base64

import pytest

from messaging.client import consumer as consumer_module
from messaging.client import errors
from messaging.client import inbox as inbox_module
from messaging.client.failures import Refused
from messaging.client.message import MessageId
from tests.messaging.client.scripted import ScriptedBroker, ScriptedChannel
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"


def deliver(channel: ScriptedChannel, *names: str, payload: bytes = b"x") -> None:
    text = base64.b64encode(payload).decode()
    for name in names:
        channel.give(messageId=name, payload=text, properties={}, publishTime="2023-11-14T22:13:20.123Z", redeliveryCount=0)


async def test_options_become_the_query(broker: ScriptedBroker) -> None:
    async with (
        broker.client() as client,
        client.consumer(
            TOPIC, "bill ing/1", kind="shared", initial="earliest", name="c1", unacknowledged_max=5, nack_delay_s=1.5
        ) as consumer,
    ):
        path, _, query = broker.channels[0].url.partition("?")
        assert path.endswith("/ws/v2/consumer/persistent/acme/orders/new/bill%20ing%2F1")
        assert set(query.split("&")) == {
            "subscriptionType=Shared",
            "subscriptionInitialPosition=Earliest",
            "receiverQueueSize=5",
            "negativeAckRedeliveryDelay=1500",
            "consumerName=c1",
        }
        assert (consumer.topic, consumer.subscription) == (TOPIC, "bill ing/1")


async def test_messages_are_received_and_answered(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        channel = broker.channels[0]
        deliver(channel, "a", "b", payload=b"hello")
        first, second = await consumer.receive(), await consumer.receive(timeout_s=10)
        assert (first.id, first.payload, first.publish_time_ms) == (MessageId("a"), b"hello", 1_700_000_000_123)
        await consumer.ack(first)
        await consumer.nack(second.id)
    assert channel.sent == [{"messageId": "a"}, {"type": "negativeAcknowledge", "messageId": "b"}]
    assert channel.closed


async def test_iterating_ends_when_the_consumer_is_closed(broker: ScriptedBroker) -> None:
    async with broker.client() as client:
        consumer = await client.consumer(TOPIC, "s")
        deliver(broker.channels[0], "a", "b")
        seen = []
        async for message in consumer:
            seen.append(message.id.text)
            if len(seen) == 2:
                await consumer.close()
        assert seen == ["a", "b"]
        for call in (consumer.receive(), consumer.ack(MessageId("a"))):
            with pytest.raises(errors.Closed, match="is closed"):
                await call


async def test_receive_times_out(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        with pytest.raises(errors.ReceiveTimedOut, match="within 0 s"):
            await consumer.receive(timeout_s=0)
        with pytest.raises(TimeoutError):
            await consumer.receive(timeout_s=0.01)
        deliver(broker.channels[0], "a")
        await eventually(lambda: consumer.queued_messages)
        assert (await consumer.receive(timeout_s=0)).id.text == "a"


async def test_a_cancelled_receive_loses_no_message(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        for turns in range(6):
            name = f"m{turns}"
            receiving = asyncio.create_task(consumer.receive())
            await asyncio.sleep(0)
            deliver(broker.channels[0], name)
            for _ in range(turns):
                await asyncio.sleep(0)
            receiving.cancel()
            [outcome] = await asyncio.gather(receiving, return_exceptions=True)
            message = await consumer.receive() if isinstance(outcome, asyncio.CancelledError) else outcome
            assert not isinstance(message, BaseException) and message.id.text == name


async def test_each_message_goes_to_one_of_several_receivers(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        receivers = [asyncio.create_task(consumer.receive()) for _ in range(3)]
        await asyncio.sleep(0)
        deliver(broker.channels[0], "a", "b", "c")
        assert sorted(message.id.text for message in await asyncio.gather(*receivers)) == ["a", "b", "c"]


async def test_after_a_broken_connection_nothing_is_handed_on_twice_and_answers_are_kept(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        first = broker.channels[0]
        deliver(first, "a", "b")
        a = await consumer.receive()
        broker.held = True
        first.lose()
        await eventually(lambda: broker.sleeps)
        await consumer.ack(a)
        broker.held = False
        second = await broker.channel(1)
        deliver(second, "b")
        assert (await consumer.receive()).id.text == "b"
        await eventually(lambda: second.sent == [{"messageId": "a"}])
        with pytest.raises(errors.ReceiveTimedOut):
            await consumer.receive(timeout_s=0)


async def test_an_acknowledgement_that_could_not_be_written_goes_out_on_the_next_connection(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        first = broker.channels[0]
        first.may_send.clear()
        deliver(first, "a")
        await consumer.ack(await consumer.receive())
        await asyncio.sleep(0)
        first.lose()
        second = await broker.channel(1)
        await eventually(lambda: second.sent == [{"messageId": "a"}])


async def test_reading_pauses_while_the_program_does_not_take(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "QUEUED_BYTES_MAX", 10)
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        channel = broker.channels[0]
        deliver(channel, *"abcdef", payload=b"x" * 6)
        await eventually(lambda: consumer.queued_messages == 2)
        for _ in range(10):
            await asyncio.sleep(0)
        assert channel.frames.qsize() >= 3
        assert [(await consumer.receive()).id.text for _ in range(6)] == list("abcdef")


async def test_a_frame_that_is_no_message_makes_the_connection_new(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        broker.channels[0].give(surprise=True)
        second = await broker.channel(1)
        deliver(second, "a")
        assert (await consumer.receive()).id.text == "a"
        assert broker.channels[0].closed


async def test_a_consumer_that_gave_up_says_why(broker: ScriptedBroker) -> None:
    broker.script = [None, Refused(403, "not_authorized", "role lacks consume")]
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        deliver(broker.channels[0], "a")
        await consumer.receive()
        receiving = asyncio.create_task(consumer.receive())
        broker.channels[0].lose(1008, "revoked")
        with pytest.raises(errors.Closed, match="role lacks consume"):
            await receiving
        with pytest.raises(errors.Closed):
            async for _ in consumer:
                raise AssertionError("a message from nowhere")


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (Refused(409, "consumer_busy", "use Shared"), errors.ConsumerBusy),
        (Refused(403, "not_authorized", "no"), errors.NotAuthorized),
        (Refused(404, "topic_not_found", "no"), errors.TopicNotFound),
    ],
)
async def test_opening_raises_what_the_broker_said(broker: ScriptedBroker, refused: Refused, kind: type[Exception]) -> None:
    broker.script = [refused]
    async with broker.client() as client:
        with pytest.raises(kind, match=refused.message):
            await client.consumer(TOPIC, "s")


async def test_closing_does_not_wait_for_ever_for_a_peer_that_does_not_read(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(consumer_module, "CLOSE_TIMEOUT_S", 0.05)
    async with broker.client() as client:
        consumer = await client.consumer(TOPIC, "s")
        broker.channels[0].may_send.clear()
        for name in "ab":
            await consumer.ack(MessageId(name))
        await consumer.close()
    assert "1 acknowledgements not sent" in caplog.text or "2 acknowledgements not sent" in caplog.text
    assert broker.channels[0].closed


async def test_bad_names_are_refused_before_any_connection(broker: ScriptedBroker) -> None:
    async with broker.client() as client:
        for topic, subscription in (("a/b", "s"), (TOPIC, "")):
            with pytest.raises(errors.InvalidName):
                client.consumer(topic, subscription)
    assert broker.attempts == 0
