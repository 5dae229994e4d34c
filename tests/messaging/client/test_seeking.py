"""Consumers and readers that move, against a broker that a test moves by hand."""

from __future__ import annotations

import asyncio

import pytest

from messaging.client import EARLIEST, errors
from messaging.client.message import MessageId
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.messaging.client.scripted import ScriptedBroker
from tests.messaging.client.scripted_consumers import TOPIC, close_consumer, deliver, reopened
from tests.support.waiting import eventually


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


async def ended(broker: ScriptedBroker, asking: asyncio.Task[dict[str, MessageId]]) -> None:
    """However often it waits in between."""

    def is_over() -> bool:
        broker.time.move(1.0)
        return asking.done()

    await eventually(is_over)


async def test_a_part_of_a_batch_has_no_receipt_after_a_seek(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s", ack_receipts=True) as consumer:
        deliver(broker, 0, batch_size=2)
        messages = await consumer.receive_batch(2, timeout_s=10)
        await consumer.seek(0)
        assert await consumer.ack(messages[0]) is False and broker.acks == []


async def test_what_was_acknowledged_before_a_seek_is_not_sent_after_it(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s", ack_receipts=True) as consumer:
        for entry_id in range(2):
            deliver(broker, entry_id)
        messages = await consumer.receive_batch(2, timeout_s=10)
        acking = [asyncio.create_task(consumer.ack(message)) for message in messages]
        await asyncio.sleep(0)
        await consumer.seek(0)
        assert [name for name in broker.commands if name in ("ACK", "SEEK")] == ["ACK", "SEEK"]
        broker.connection.lose()
        await reopened(broker, 2)
        for task in acking:
            with pytest.raises(errors.ConnectionLost, match="moved"):
                await task
        assert len(broker.acks) == 1


# --- what is sought, and what was on its way


async def test_what_was_on_its_way_when_a_consumer_seeks_does_not_come(broker: ScriptedBroker) -> None:
    """A reader that is read from meanwhile would count it as read, and leave out all before it."""
    asked: list[pb.Command] = []
    broker.answers[pb.Command.SEEK] = asked.append
    async with broker.client() as client, client.reader(TOPIC, EARLIEST) as reader:
        reading = asyncio.create_task(reader.read())
        seeking = asyncio.create_task(reader.seek(MessageId(1, 2)))
        await eventually(lambda: bool(asked))
        deliver(broker, 700, batch_size=3)
        connection, subscribe = broker.consumers[-1]
        close = pb.CloseConsumer(consumer_id=subscribe.consumer_id, request_id=0)
        connection.say(frames.command(pb.Command.CLOSE_CONSUMER, close_consumer=close))
        connection.say(frames.success(asked[0].seek.request_id))
        await seeking
        await reopened(broker, 2)
        start = broker.consumers[-1][1].start_message_id
        assert (start.ledger_id, start.entry_id) == (1, 2)
        deliver(broker, 3)
        assert (await reading).id.entry_id == 3


async def test_after_a_seek_that_is_refused_nothing_is_missing(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.reader(TOPIC, EARLIEST) as reader:
        for entry_id in range(3):
            deliver(broker, entry_id)
        assert (await reader.read()).id.entry_id == 0
        await asyncio.sleep(0)  # the others are queued
        broker.answers[pb.Command.SEEK] = lambda command: frames.error(command.seek.request_id, 22, "not here")
        with pytest.raises(errors.MagnetarError, match="not here"):
            await reader.seek(MessageId(1, 700))
        await eventually(lambda: broker.commands[-1] == "REDELIVER_UNACKNOWLEDGED_MESSAGES")
        for entry_id in range(3):  # it begins again
            deliver(broker, entry_id)
        assert [(await reader.read()).id.entry_id for _ in range(2)] == [1, 2]


async def test_a_reader_whose_seek_the_broker_was_not_asked_for_misses_nothing(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.reader(TOPIC, EARLIEST) as reader:
        deliver(broker, 0)
        assert (await reader.read()).id.entry_id == 0
        broker.connection.lose()
        await asyncio.sleep(0)
        seeking = asyncio.create_task(reader.seek(MessageId(1, 700)))
        await asyncio.sleep(0)
        seeking.cancel()
        await asyncio.gather(seeking, return_exceptions=True)
        await reopened(broker, 2)
        assert seeking.cancelled() and "SEEK" not in broker.commands
        for entry_id in range(2):
            deliver(broker, entry_id)
        assert (await reader.read()).id.entry_id == 1


async def test_a_reader_goes_on_where_it_was_in_those_partitions_that_did_not_move(broker: ScriptedBroker) -> None:
    broker.partitions = 2
    async with broker.client() as client, client.reader(TOPIC, EARLIEST) as reader:
        numbers = [int(subscribe.topic[-1]) for _, subscribe in broker.consumers]
        moved, refused = numbers.index(0), numbers.index(1)
        for entry_id in range(3):
            for number in (moved, refused):
                deliver(broker, entry_id, consumer=number)
        for _ in range(6):
            await reader.read()
        refused_id = broker.consumers[refused][1].consumer_id

        def answered(command: pb.Command) -> bytes:
            number = command.seek.request_id
            return frames.error(number, 22, "not here") if command.seek.consumer_id == refused_id else frames.success(number)

        broker.answers[pb.Command.SEEK] = answered
        with pytest.raises(errors.MagnetarError, match="not here"):
            await reader.seek(1_600_000_000_000)
        deliver(broker, 2, consumer=refused)  # it was not moved, and begins again
        deliver(broker, 0, consumer=moved)
        deliver(broker, 3, consumer=refused)
        read = [await reader.read() for _ in range(2)]
        assert [(message.topic[-1], message.id.entry_id) for message in read] == [("0", 0), ("1", 3)]
        del broker.answers[pb.Command.SEEK]
        await reader.seek(MessageId(1, 700, partition=1))  # of one partition; the other stays where it is
        deliver(broker, 1, consumer=moved)
        assert (await reader.read()).id.entry_id == 1


async def test_a_reader_that_was_moved_to_a_time_is_moved_again_on_another_connection(broker: ScriptedBroker) -> None:
    times: list[int] = []

    def moved(command: pb.Command) -> bytes:
        times.append(command.seek.message_publish_time)
        connection, subscribe = broker.consumers[-1]
        close = pb.CloseConsumer(consumer_id=subscribe.consumer_id, request_id=0)
        connection.say(frames.command(pb.Command.CLOSE_CONSUMER, close_consumer=close))
        return frames.success(command.seek.request_id)

    broker.answers[pb.Command.SEEK] = moved
    async with broker.client() as client, client.reader(TOPIC) as reader:
        await reader.seek(1_600_000_000_000)
        await reopened(broker, 2)
        assert len(times) == 1, "the subscription is where it was moved to"
        broker.connection.lose()
        await reopened(broker, 4)
        assert times == [1_600_000_000_000] * 2
        deliver(broker, 5)
        assert (await reader.read()).id.entry_id == 5
        broker.connection.lose()
        await reopened(broker, 5)
        assert len(times) == 2 and broker.consumers[-1][1].start_message_id.entry_id == 5


async def test_a_reader_is_moved_to_its_time_again_until_that_is_not_refused(broker: ScriptedBroker) -> None:
    """On one connection, which stays, and where the consumer is not left open meanwhile."""
    seeks: list[pb.Seek] = []

    def moved(command: pb.Command) -> bytes:
        seeks.append(command.seek)
        if len(seeks) in (2, 3):
            return frames.error(command.seek.request_id, 6, "not now")
        connection, subscribe = broker.consumers[-1]
        close = pb.CloseConsumer(consumer_id=subscribe.consumer_id, request_id=0)
        connection.say(frames.command(pb.Command.CLOSE_CONSUMER, close_consumer=close))
        return frames.success(command.seek.request_id)

    broker.answers[pb.Command.SEEK] = moved
    async with broker.client() as client, client.reader(TOPIC) as reader:
        await reader.seek(1_600_000_000_000)
        await reopened(broker, 2)
        broker.connection.lose()
        await reopened(broker, 6)
        assert [seek.message_publish_time for seek in seeks] == [1_600_000_000_000] * 4
        assert broker.commands.count("CLOSE_CONSUMER") == 2, "one for each refusal"
        assert len(broker.connections) == 2
        deliver(broker, 5)
        assert (await reader.read()).id.entry_id == 5


async def test_a_reader_has_no_message_where_the_last_cannot_be_read(broker: ScriptedBroker) -> None:
    """Else a single one at the end of a topic would keep every table view of it from opening."""
    last = pb.MessageId(ledger_id=1, entry_id=2)

    def said(command: pb.Command) -> bytes:
        answer = pb.GetLastMessageIdResponse(request_id=command.get_last_message_id.request_id, last_message_id=last)
        return frames.command(pb.Command.GET_LAST_MESSAGE_ID_RESPONSE, get_last_message_id_response=answer)

    broker.answers[pb.Command.GET_LAST_MESSAGE_ID] = said
    async with broker.client() as client, client.reader(TOPIC, EARLIEST) as reader:
        assert await reader.has_message(), "it is on its way"
        deliver(broker, 1)
        deliver(broker, 2, cut=True)
        await reader.read()
        await eventually(lambda: bool(broker.acks))
        assert not await reader.has_message()


@pytest.mark.parametrize("refusal", [6, 13])
async def test_where_a_topic_ends_is_asked_again_after_it_moved(broker: ScriptedBroker, refusal: int) -> None:
    """Seen: the broker that had it had closed the consumer, and the question crossed that on its way."""
    asked: list[int] = []

    def answer(command: pb.Command) -> bytes:
        request_id = command.get_last_message_id.request_id
        asked.append(request_id)
        if len(asked) == 1:
            close_consumer(broker)
            return frames.error(request_id, refusal, "consumer 1 is not open on this connection: subscribe again")
        last = pb.MessageId(ledger_id=1, entry_id=2)
        response = pb.GetLastMessageIdResponse(request_id=request_id, last_message_id=last)
        return frames.command(pb.Command.GET_LAST_MESSAGE_ID_RESPONSE, get_last_message_id_response=response)

    broker.answers[pb.Command.GET_LAST_MESSAGE_ID] = answer
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        asking = asyncio.create_task(consumer.last_message_ids())
        await reopened(broker, 2)
        await ended(broker, asking)
        assert [last.entry_id for last in (await asking).values()] == [2] and len(asked) == 2


@pytest.mark.parametrize(("refusal", "error"), [(4, errors.NotAuthorized), (6, errors.NotReady)])
async def test_a_question_that_is_refused_for_good_ends(
    broker: ScriptedBroker, refusal: int, error: type[errors.MagnetarError]
) -> None:
    def refuse(command: pb.Command) -> bytes:
        return frames.error(command.get_last_message_id.request_id, refusal, "no")

    broker.answers[pb.Command.GET_LAST_MESSAGE_ID] = refuse
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        asking = asyncio.create_task(consumer.last_message_ids())
        await ended(broker, asking)
        with pytest.raises(error, match="no"):
            await asking


async def test_an_id_is_no_place_to_begin_at_in_several_partitions(broker: ScriptedBroker) -> None:
    broker.partitions = 3
    async with broker.client() as client:
        with pytest.raises(errors.InvalidValue, match="3 partitions"):
            await client.reader(TOPIC, MessageId(1, 1, partition=2))
        await eventually(lambda: broker.commands.count("CLOSE_CONSUMER") == 3)
        async with client.reader(TOPIC, EARLIEST):
            pass


# --- what is refused
