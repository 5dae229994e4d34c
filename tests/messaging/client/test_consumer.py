"""The consumer against a broker that a test moves by hand: cancellation, changes of the active one, a handler that closes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from messaging.client import EARLIEST, errors
from messaging.client.consuming import partition
from messaging.client.consuming.options import DeadLetterPolicy
from messaging.client.encryption import Decryptor, Encryptor
from messaging.client.message import Message, MessageId
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.messaging.client.scripted import ScriptedBroker
from tests.messaging.client.scripted_consumers import TOPIC, answer, deliver, reopened
from tests.support.waiting import eventually


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


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


async def test_after_a_break_it_is_known_what_was_received_and_forgotten_what_was_queued(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.consumer(TOPIC, "s") as consumer:
        for entry_id in range(3):
            deliver(broker, entry_id, batch_size=2)
        messages = await consumer.receive_batch(3, timeout_s=10)  # one and a half
        await eventually(lambda: consumer.queued_messages == 3)
        broker.connection.lose()
        await reopened(broker, 2)
        assert [await consumer.ack(message) for message in messages] == [True] * 3
        assert await consumer.ack(MessageId(1, 2, 0)) is False


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


async def test_what_is_closed_says_so_whatever_is_asked_of_it(broker: ScriptedBroker) -> None:
    async with broker.client() as client:
        consumer = await client.subscribe(TOPIC, "s")
        await consumer.close()
        for call in (consumer.seek(0), consumer.last_message_ids(), consumer.redeliver(), consumer.unsubscribe()):
            with pytest.raises(errors.Closed):
                await call


async def test_a_message_in_chunks_that_is_refused_twice_comes_again_whole(broker: ScriptedBroker) -> None:
    """Also before it came again: the broker may have sent it to another consumer, or nowhere yet."""
    asked: list[list[int]] = []

    def redelivering(command: pb.Command) -> None:
        asked.append([message_id.entry_id for message_id in command.redeliver_unacknowledged_messages.message_ids])

    broker.answers[pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES] = redelivering
    async with broker.client() as client, client.consumer(TOPIC, "s", kind="shared") as consumer:
        for chunk in range(3):
            deliver(broker, chunk, chunk=chunk)
        message = await consumer.receive(timeout_s=10)
        await consumer.nack(message, delay_s=0.0)
        await eventually(lambda: asked == [[0, 1, 2]])
        await consumer.nack(message, delay_s=0.0)
        await eventually(lambda: len(asked) == 2)
        assert asked[1] == [0, 1, 2]


@pytest.mark.parametrize("kind", ["reader", "exclusive", "shared"])
async def test_what_cannot_be_decrypted_for_a_moment_comes_again_before_what_follows(
    broker: ScriptedBroker, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a reader leaves it out, and a cumulative acknowledgement takes it. A shared subscription keeps no order."""
    monkeypatch.setattr(partition, "PASSING_S", 0.0)
    closed = [True]

    def private(name: str) -> bytes:
        raise OSError("the vault is closed") if closed else KeyError(name)

    options = {"decryption": Decryptor(private), "crypto_failure": "consume"}
    async with broker.client() as client:
        consumer: Any
        if kind == "reader":
            consumer = await client.reader(TOPIC, EARLIEST, **options)  # type: ignore[arg-type]
        else:
            consumer = await client.subscribe(TOPIC, "s", kind=kind, **options)  # type: ignore[arg-type]
        receive = consumer.read if kind == "reader" else consumer.receive
        deliver(broker, 0, encrypted=True)
        deliver(broker, 1)
        if kind == "shared":
            assert (await receive(10)).id.entry_id == 1
        else:
            await eventually(lambda: "REDELIVER_UNACKNOWLEDGED_MESSAGES" in broker.commands)
        closed.clear()
        for entry_id in range(1 if kind == "shared" else 2):
            deliver(broker, entry_id, encrypted=not entry_id)
            message = await receive(10)
            assert message.id.entry_id == entry_id and (message.encryption is not None) == (not entry_id)
    assert not broker.acks


# --- dead letters


async def test_of_a_batch_what_is_acknowledged_is_no_dead_letter_and_what_is_refused_is(broker: ScriptedBroker) -> None:
    """In either order, and whether the broker is told of parts of batches or not."""
    broker.answers_sends = True
    policy = DeadLetterPolicy(1, dead_letter_topic="persistent://acme/orders/dead")
    for batch_index_ack in (True, False):
        broker.acks.clear()
        async with broker.client() as client:
            options = {"nack_delay_s": 0.0, "dead_letters": policy, "batch_index_ack": batch_index_ack}
            async with client.consumer(TOPIC, "s", kind="shared", **options) as consumer:  # type: ignore[arg-type]
                deliver(broker, 0, batch_size=3, times=1)
                messages = await consumer.receive_batch(3, timeout_s=10)
                await consumer.ack(messages[0])
                await consumer.nack(messages[1])
                await consumer.ack(messages[2])
                await eventually(lambda: bool(broker.connection.sent))
                await eventually(lambda: any(ack.message_id and not ack.message_id[0].ack_set for ack in broker.acks))
                assert broker.payloads() == [b"1"]


async def test_dead_letters_may_be_as_large_as_messages_and_are_encrypted_if_asked(broker: ScriptedBroker) -> None:
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    broker.answers_sends = True
    policy = DeadLetterPolicy(0, encryption=Encryptor({"k": pem}))
    async with (
        broker.client(memory_bytes_max=4 << 20) as client,
        client.consumer(TOPIC, "s", kind="shared", dead_letters=policy, retry_enabled=True) as consumer,
    ):
        deliver(broker, 0)
        message = await consumer.receive()
        message.payload = b"x" * 250_000  # more than the broker takes in one: it came in chunks
        await consumer.reconsume_later(message, 1.0)
        sent = [frames.parse_stored(event.rest) for event in broker.connection.sent]
        assert [stored.metadata.chunk_id for stored in sent] == [0, 1, 2]
        assert all(stored.metadata.encryption_keys[0].key == "k" and b"xxxx" not in stored.payload for stored in sent)


async def test_what_was_not_decrypted_is_no_dead_letter_and_no_retry(broker: ScriptedBroker) -> None:
    """Its keys would be lost, and the message with them."""
    broker.answers_sends = True
    policy = DeadLetterPolicy(0)
    options = {"nack_delay_s": 0.0, "dead_letters": policy, "retry_enabled": True, "crypto_failure": "consume"}
    async with broker.client() as client, client.consumer(TOPIC, "s", kind="shared", **options) as consumer:  # type: ignore[arg-type]
        deliver(broker, 0, encrypted=True, consumer=0)
        message = await consumer.receive()
        assert message.encryption is not None
        with pytest.raises(errors.InvalidOperation, match="was not decrypted"):
            await consumer.reconsume_later(message, 1.0)
        await consumer.nack(message)
        await eventually(lambda: "REDELIVER_UNACKNOWLEDGED_MESSAGES" in broker.commands)
        deliver(broker, 0, encrypted=True, consumer=0, times=1)
        assert (await consumer.receive()).redelivery_count == 1
    assert not broker.acks and "PRODUCER" not in broker.commands


# --- patterns
