from __future__ import annotations

import asyncio
from functools import partial

import pytest

from messaging.client import errors
from tests.messaging.client.scripted import ScriptedBroker, ScriptedChannel
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"


async def test_send_returns_the_id_when_the_receipt_comes(broker: ScriptedBroker) -> None:
    async with broker.client(key="secret") as client, client.producer(TOPIC) as producer:
        channel = broker.channels[0]
        assert channel.url.startswith("wss://broker.example:8081/ws/v2/producer/persistent/acme/orders/new?producerName=sdk-")
        assert channel.headers == {"Authorization": "Bearer secret"}
        sending = asyncio.create_task(producer.send(b"hello", key="k", properties={"a": "b"}, event_time_ms=5))
        await eventually(lambda: channel.sent)
        assert channel.sent[0] == {
            "payload": "aGVsbG8=",
            "context": "0",
            "sequenceId": 0,
            "properties": {"a": "b"},
            "key": "k",
            "eventTime": "1970-01-01T00:00:00.005Z",
        }
        assert not sending.done()
        channel.receipt("0", "the-id")
        assert str(await sending) == "the-id"
    assert channel.closed


async def test_a_given_name_has_sequence_ids_only_where_it_is_told_the_first(broker: ScriptedBroker) -> None:
    async with broker.client() as client:
        plain = await client.producer(TOPIC, name="p")
        numbered = await client.producer(TOPIC, name="q", first_sequence_id=100)
        futures = [plain.send_nowait(b""), numbered.send_nowait(b"")]
        first, second = broker.channels
        await eventually(lambda: first.sent and second.sent)
        assert first.url.endswith("?producerName=p") and "sequenceId" not in first.sent[0]
        assert second.sent[0]["sequenceId"] == 100 and second.sent[0]["context"] == "0"
        first.receipt("0"), second.receipt("0")
        await asyncio.gather(*futures)


async def test_messages_without_a_receipt_are_sent_again_in_order(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC) as producer:
        futures = [producer.send_nowait(bytes([number])) for number in range(3)]
        first = broker.channels[0]
        await eventually(lambda: len(first.sent) == 3)
        first.receipt("0")
        await futures[0]
        first.lose()
        second = await broker.channel(1)
        futures.append(producer.send_nowait(b"\x03"))
        await eventually(lambda: len(second.sent) == 3)
        assert second.contexts == ["1", "2", "3"]
        assert [frame["sequenceId"] for frame in second.sent] == [1, 2, 3]
        for context in second.contexts:
            second.receipt(context)
        assert [str(await future) for future in futures] == ["id-0", "id-1", "id-2", "id-3"]
    assert second.url == first.url and first.closed


async def test_a_refused_message_fails_alone(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC) as producer:
        futures = [producer.send_nowait(b"a"), producer.send_nowait(b"b")]
        channel = broker.channels[0]
        await eventually(lambda: len(channel.sent) == 2)
        channel.give(result="send-error:8", errorMsg="the backlog quota is passed", context="0")
        channel.receipt("1")
        with pytest.raises(errors.SendFailed, match="backlog quota"):
            await futures[0]
        assert str(await futures[1]) == "id-1"


async def test_answers_that_skip_one_make_the_connection_new(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC) as producer:
        futures = [producer.send_nowait(b"a"), producer.send_nowait(b"b")]
        await eventually(lambda: len(broker.channels[0].sent) == 2)
        broker.channels[0].receipt("1")
        second = await broker.channel(1)
        await eventually(lambda: second.contexts == ["0", "1"])
        second.receipt("0"), second.receipt("1")
        await asyncio.gather(*futures)


def sent(channel: ScriptedChannel, context: str) -> bool:
    return context in channel.contexts


async def test_send_waits_for_room_in_the_order_of_the_calls_and_send_nowait_does_not(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC, pending_max=2) as producer:
        sends = [asyncio.create_task(producer.send(bytes([number]))) for number in range(5)]
        channel = broker.channels[0]
        await eventually(lambda: len(channel.sent) == 2)
        with pytest.raises(errors.QueueFull, match="2 messages"):
            producer.send_nowait(b"x")
        sends[2].cancel()
        for context in range(4):
            await eventually(partial(sent, channel, str(context)))
            channel.receipt(str(context))
        await asyncio.wait(sends)
        assert [send.cancelled() for send in sends] == [False, False, True, False, False]
        assert [frame["payload"] for frame in channel.sent] == ["AA==", "AQ==", "Aw==", "BA=="]


async def test_producers_of_a_client_share_its_memory(broker: ScriptedBroker) -> None:
    async with broker.client(memory_bytes_max=10) as client, client.producer(TOPIC) as producer, client.producer(TOPIC) as other:
        first = producer.send_nowait(b"x" * 8)
        waiting = asyncio.create_task(other.send(b"y" * 8))
        await eventually(lambda: broker.channels[0].sent)
        assert not broker.channels[1].sent
        broker.channels[0].receipt("0")
        await first
        await eventually(lambda: broker.channels[1].sent)
        broker.channels[1].receipt("0")
        await waiting


async def test_cancelled_before_it_was_written_a_message_is_not_sent(broker: ScriptedBroker) -> None:
    broker.held = True
    async with broker.client() as client, client.producer(TOPIC) as producer:
        broker.channels[0].lose()
        await eventually(lambda: broker.sleeps)
        sending = asyncio.create_task(producer.send(b"taken back"))
        kept = producer.send_nowait(b"kept")
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        broker.held = False
        second = await broker.channel(1)
        await eventually(lambda: second.sent)
        assert [frame["payload"] for frame in second.sent] == ["a2VwdA=="]
        second.receipt(second.contexts[0])
        await kept


async def test_a_message_without_a_receipt_times_out_and_says_whether_it_may_be_stored(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC, send_timeout_s=0.05) as producer:
        broker.now_s += 1  # the clock that the deadline is read from; the timer itself is the loop's
        written = producer.send_nowait(b"a")
        await eventually(lambda: broker.channels[0].sent)
        broker.now_s += 1
        with pytest.raises(errors.SendTimedOut, match="may be stored or not"):
            await written
        broker.held = True
        broker.channels[0].lose()
        await eventually(lambda: broker.sleeps)
        unwritten = producer.send_nowait(b"b")
        broker.now_s += 1
        with pytest.raises(errors.SendTimedOut, match="never sent"):
            await unwritten
        broker.held = False
        await broker.channel(1)


async def test_the_largest_message_is_given_up_when_the_broker_finds_it_too_large(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC) as producer:
        futures = [producer.send_nowait(b"x"), producer.send_nowait(b"x" * 1000)]
        await eventually(lambda: len(broker.channels[0].sent) == 2)
        broker.channels[0].lose(1009, "frame too large")
        with pytest.raises(errors.MessageTooLarge, match="1000 bytes"):
            await futures[1]
        second = await broker.channel(1)
        await eventually(lambda: second.contexts == ["0"])
        second.receipt("0")
        await futures[0]


async def test_a_message_too_large_is_refused_before_it_is_sent(broker: ScriptedBroker) -> None:
    async with broker.client(message_bytes_max=10) as client, client.producer(TOPIC) as producer:
        for send in (producer.send, producer.send_nowait):
            with pytest.raises(errors.MessageTooLarge, match="11 bytes; at most 10"):
                result = send(b"x" * 11)
                await result
        assert broker.channels[0].sent == []


async def test_close_waits_for_receipts_and_abort_does_not(broker: ScriptedBroker) -> None:
    async with broker.client() as client:
        producer = await client.producer(TOPIC)
        pending = producer.send_nowait(b"a")
        closing = asyncio.create_task(producer.close())
        await eventually(lambda: broker.channels[0].sent)
        with pytest.raises(errors.Closed):
            await producer.send(b"b")
        assert not closing.done()
        broker.channels[0].receipt("0")
        await closing
        assert str(await pending) == "id-0"
        other = await client.producer(TOPIC)
        pending = other.send_nowait(b"a")
        await other.abort()
        with pytest.raises(errors.Closed):
            await pending
        with pytest.raises(errors.Closed):
            await other.send(b"b")
    with pytest.raises(errors.Closed):
        await client.producer(TOPIC)


async def test_a_future_that_its_owner_cancelled_stops_nothing(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC) as producer:
        cancelled, kept = producer.send_nowait(b"a"), producer.send_nowait(b"b")
        cancelled.cancel()
        await eventually(lambda: len(broker.channels[0].sent) == 2)
        broker.channels[0].receipt("0"), broker.channels[0].receipt("1")
        assert str(await kept) == "id-1"
