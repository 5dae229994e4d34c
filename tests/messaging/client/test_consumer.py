"""The consumer against a broker that a test moves by hand: cancellation, changes of the active one, a handler that closes it."""

from __future__ import annotations

import asyncio

import pytest

from messaging.client import errors
from messaging.client.message import Message
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.messaging.client.scripted import ScriptedBroker
from tests.support.clients.batches import single
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


def deliver(broker: ScriptedBroker, entry_id: int, *, batch_size: int = 0) -> None:
    connection, subscribe = broker.consumers[-1]
    metadata = pb.Metadata(producer_name="p", sequence_id=entry_id, publish_time=1)
    if batch_size:
        metadata.num_messages_in_batch = batch_size
    stored = frames.build_send(1, entry_id, metadata, single(b"x") * batch_size or b"x")
    stored = stored[8 + int.from_bytes(stored[4:8], "big") :]
    message = pb.Message(consumer_id=subscribe.consumer_id, message_id=pb.MessageId(ledger_id=1, entry_id=entry_id))
    framed = frames.command(pb.Command.MESSAGE, message=message)
    connection.say((len(framed) - 4 + len(stored)).to_bytes(4, "big") + framed[4:] + stored)


async def test_cancelled_at_any_point_a_consumer_leaves_nothing_behind(broker: ScriptedBroker) -> None:
    """Opening, receiving, acknowledging and closing, cancelled after each number of turns of the loop."""

    async def use() -> None:
        async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
            deliver(broker, 0)
            await consumer.ack(await consumer.receive())
            await consumer.receive()

    for turns in range(60):
        task = asyncio.create_task(use())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await eventually(lambda: not any(connection.open for connection in broker.connections))
        await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})


async def test_a_receive_that_is_cancelled_takes_no_message(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        waiting = asyncio.create_task(consumer.receive())
        await asyncio.sleep(0)
        deliver(broker, 0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled() and (await consumer.receive(timeout_s=10)).id.entry_id == 0


async def test_a_consumer_hears_that_it_is_the_active_one(broker: ScriptedBroker) -> None:
    changes: list[tuple[str, bool]] = []

    def changed(topic: str, active: bool) -> None:
        changes.append((topic, active))
        if not active:
            raise RuntimeError("of the application")

    options = {"kind": "failover", "active_changed": changed}
    async with broker.client() as client, client.consumer(TOPIC, "s", **options) as consumer:  # type: ignore[arg-type]
        connection, subscribe = broker.consumers[-1]
        for active in (False, True):
            change = pb.ActiveConsumerChange(consumer_id=subscribe.consumer_id, is_active=active)
            connection.say(frames.command(pb.Command.ACTIVE_CONSUMER_CHANGE, active_consumer_change=change))
        await eventually(lambda: changes == [(TOPIC, False), (TOPIC, True)])
        deliver(broker, 0)
        await consumer.receive(timeout_s=10)


async def test_a_handler_that_closes_its_consumer_ends_the_loop(broker: ScriptedBroker) -> None:
    async with broker.client() as client:
        consumer = await client.subscribe(TOPIC, "s")
        deliver(broker, 0)

        async def handle(message: Message) -> None:
            await consumer.close()

        await consumer.run(handle)
        assert consumer.closed and client.statistics.endpoints == 0
        with pytest.raises(errors.Closed):
            await consumer.receive()


# --- receipts


def answer(broker: ScriptedBroker, index: int) -> None:
    ack = broker.acks[index]
    response = pb.AckResponse(consumer_id=ack.consumer_id, request_id=ack.request_id)
    broker.connection.say(frames.command(pb.Command.ACK_RESPONSE, ack_response=response))


async def reopened(broker: ScriptedBroker, consumers: int) -> None:
    """The wait before is over."""

    def again() -> bool:
        broker.time.move(1.0)
        return len(broker.consumers) == consumers

    await eventually(again)


async def test_an_acknowledgement_whose_connection_broke_is_sent_again(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s", ack_receipts=True) as consumer:
        for entry_id in range(2):
            deliver(broker, entry_id)
        first, second = await consumer.receive(timeout_s=10), await consumer.receive(timeout_s=10)
        acking = [asyncio.create_task(consumer.ack(first))]
        await eventually(lambda: len(broker.acks) == 1)
        broker.connection.lose()
        await eventually(lambda: not consumer.statistics.topics_connected)
        acking.append(asyncio.create_task(consumer.ack(second)))  # while there is no connection
        await reopened(broker, 2)
        await eventually(lambda: len(broker.acks) == 3)
        assert [ack.message_id[0].entry_id for ack in broker.acks] == [0, 0, 1]
        assert broker.commands[-3:] == ["ACK", "ACK", "FLOW"], "before the broker may send anything"
        assert not any(task.done() for task in acking)
        answer(broker, 1)
        await acking[0]
        assert not acking[1].done()
        answer(broker, 2)
        await acking[1]


async def test_an_acknowledgement_is_sent_again_when_the_broker_closed_the_consumer(broker: ScriptedBroker) -> None:
    """The connection stays, and nothing answers on it."""
    async with broker.client() as client, client.consumer(TOPIC, "s", ack_receipts=True) as consumer:
        deliver(broker, 0)
        acking = asyncio.create_task(consumer.ack(await consumer.receive(timeout_s=10)))
        await eventually(lambda: len(broker.acks) == 1)
        connection, subscribe = broker.consumers[-1]
        closed = pb.CloseConsumer(consumer_id=subscribe.consumer_id, request_id=frames.UNSOLICITED)
        connection.say(frames.command(pb.Command.CLOSE_CONSUMER, close_consumer=closed))
        await reopened(broker, 2)
        await eventually(lambda: len(broker.acks) == 2)
        answer(broker, 0)  # late: it was sent again under another number
        answer(broker, 1)
        await acking


async def test_who_waits_for_a_receipt_hears_when_none_comes(broker: ScriptedBroker) -> None:
    client = broker.client(request_timeout_s=0.05)
    async with client, client.consumer(TOPIC, "s", ack_receipts=True) as consumer:
        for entry_id in range(3):
            deliver(broker, entry_id)
        messages = await consumer.receive_batch(3, timeout_s=10)
        with pytest.raises(errors.ConnectionLost, match="may come again"):
            await consumer.ack(messages[0])
        broker.connection.lose()
        await eventually(lambda: not consumer.statistics.topics_connected)
        with pytest.raises(errors.ConnectionLost, match="may come again"):
            await consumer.ack(messages[1])
        closing = asyncio.create_task(consumer.ack(messages[2]))
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(errors.Closed):
            await closing


async def test_a_part_of_a_batch_that_the_broker_is_not_told_of_has_no_receipt(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s", ack_receipts=True, batch_index_ack=False) as consumer:
        deliver(broker, 0, batch_size=3)
        messages = await consumer.receive_batch(3, timeout_s=10)
        assert await consumer.ack(messages[0]) is False
        assert await consumer.ack_cumulative(messages[1]) is False
        assert broker.acks == []
        acking = asyncio.create_task(consumer.ack(messages[2]))
        await eventually(lambda: len(broker.acks) == 1)
        assert not acking.done()
        answer(broker, 0)
        assert await acking is True
        assert await consumer.ack(messages[2]) is False, "again"


@pytest.mark.parametrize("cumulative", [False, True])
async def test_a_part_of_a_batch_that_comes_again_is_acknowledged_with_a_receipt(broker: ScriptedBroker, cumulative: bool) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s", ack_receipts=True) as consumer:
        deliver(broker, 0, batch_size=3)
        messages = await consumer.receive_batch(3, timeout_s=10)
        await consumer.redeliver()
        acking = asyncio.create_task((consumer.ack_cumulative if cumulative else consumer.ack)(messages[1]))
        await eventually(lambda: len(broker.acks) == 1)
        assert list(broker.acks[0].message_id[0].ack_set) == [0b100 if cumulative else 0b101]
        await asyncio.sleep(0)
        assert not acking.done()
        answer(broker, 0)
        assert await acking is True


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
