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
from tests.support.clients.batches import single
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


def deliver(
    broker: ScriptedBroker,
    entry_id: int,
    *,
    batch_size: int = 0,
    left: int = 0,
    times: int = 0,
    cut: bool = False,
    encrypted: bool = False,
    chunk: int = -1,
    consumer: int = -1,
) -> None:
    """A message, or a batch, of which the bits of `left` (0: all) are still to be acknowledged. `cut`: it cannot be read. `chunk`:
    of three. `consumer`: the number of the one that gets it, in the order in which they were opened."""
    connection, subscribe = broker.consumers[consumer]
    metadata = pb.Metadata(producer_name="p", sequence_id=entry_id, publish_time=1)
    if encrypted:
        metadata.encryption_param = bytes(12)
        metadata.encryption_keys.add(key="k", value=b"v" * 10)
    if chunk >= 0:
        metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg, metadata.total_chunk_msg_size = "u", chunk, 3, 3
    if batch_size:
        metadata.num_messages_in_batch = batch_size
    stored = frames.build_send(1, entry_id, metadata, b"".join(single(b"%d" % index) for index in range(batch_size)) or b"x")
    stored = stored[8 + int.from_bytes(stored[4:8], "big") :]
    stored = stored[:-1] + b"?" if cut else stored
    message_id = pb.MessageId(ledger_id=1, entry_id=entry_id)
    message = pb.Message(consumer_id=subscribe.consumer_id, message_id=message_id, redelivery_count=times)
    if left:
        message.ack_set.append(left)
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


async def test_what_is_closed_says_so_whatever_is_asked_of_it(broker: ScriptedBroker) -> None:
    async with broker.client() as client:
        consumer = await client.subscribe(TOPIC, "s")
        await consumer.close()
        for call in (consumer.seek(0), consumer.last_message_ids(), consumer.redeliver(), consumer.unsubscribe()):
            with pytest.raises(errors.Closed):
                await call


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


async def test_an_id_is_no_place_to_begin_at_in_several_partitions(broker: ScriptedBroker) -> None:
    broker.partitions = 3
    async with broker.client() as client:
        with pytest.raises(errors.InvalidValue, match="3 partitions"):
            await client.reader(TOPIC, MessageId(1, 1, partition=2))
        await eventually(lambda: broker.commands.count("CLOSE_CONSUMER") == 3)
        async with client.reader(TOPIC, EARLIEST):
            pass


# --- what is refused


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


def with_topics(broker: ScriptedBroker, topic: str) -> tuple[list[str], set[str]]:
    """Two topics that a pattern matches, and those that are deleted. An unloaded one that is not persistent is made again."""
    names = [f"{topic}-{number}" for number in range(2)]
    gone: set[str] = set()

    def topics(command: pb.Command) -> bytes:
        answer = pb.GetTopicsOfNamespaceResponse(request_id=command.get_topics_of_namespace.request_id)
        answer.topics.extend(name for name in names if name not in gone)
        return frames.command(pb.Command.GET_TOPICS_OF_NAMESPACE_RESPONSE, get_topics_of_namespace_response=answer)

    def subscribed(command: pb.Command) -> bytes:
        asked = command.subscribe
        broker.consumers.append((broker.connection, asked))
        if asked.force_topic_creation:
            gone.discard(asked.topic)
        number = asked.request_id
        return frames.error(number, 11, "deleted") if asked.topic in gone else frames.success(number)

    broker.answers[pb.Command.GET_TOPICS_OF_NAMESPACE] = topics
    broker.answers[pb.Command.SUBSCRIBE] = subscribed
    return names, gone


def close_consumer(broker: ScriptedBroker, number: int = -1) -> None:
    """As when its topic is unloaded or deleted."""
    connection, subscribe = broker.consumers[number]
    close = pb.CloseConsumer(consumer_id=subscribe.consumer_id, request_id=0)
    connection.say(frames.command(pb.Command.CLOSE_CONSUMER, close_consumer=close))


async def test_a_topic_that_is_not_persistent_is_kept_when_it_was_unloaded(broker: ScriptedBroker) -> None:
    topic = TOPIC.replace("persistent", "non-persistent")
    names, gone = with_topics(broker, topic)
    async with broker.client() as client, client.pattern_consumer(f"{topic}-.*", "s") as consumer:
        gone.update(names)
        close_consumer(broker, 0)
        close_consumer(broker, 1)
        await reopened(broker, 4)
        await eventually(lambda: consumer.statistics.topics_connected == 2)
        assert consumer.topics == names and not gone
        deliver(broker, 1)
        await consumer.receive(timeout_s=10)


async def test_a_receipt_of_a_topic_that_is_deleted_meanwhile_is_false_and_ends_nothing(broker: ScriptedBroker) -> None:
    _, gone = with_topics(broker, TOPIC)
    handled: list[Message] = []

    async def handle(message: Message) -> None:
        handled.append(message)

    async with broker.client() as client, client.pattern_consumer(f"{TOPIC}-.*", "s", ack_receipts=True) as consumer:
        deliver(broker, 0)
        message = await consumer.receive(timeout_s=10)
        running = asyncio.create_task(consumer.run(handle))
        deliver(broker, 1)
        await eventually(lambda: len(broker.acks) == 1)
        acking = asyncio.create_task(consumer.ack(message))
        await eventually(lambda: len(broker.acks) == 2)
        gone.add(message.topic)
        close_consumer(broker)
        await reopened(broker, 3)
        assert await acking is False
        for of_gone in (message.id, handled[0].id):
            with pytest.raises(errors.InvalidValue, match="does not say of which"):
                await consumer.ack(of_gone)  # not to the topic that is left
            with pytest.raises(errors.InvalidValue, match="does not say of which"):
                await consumer.nack(of_gone)
            with pytest.raises(errors.InvalidValue, match="does not say of which"):
                await consumer.seek(of_gone)
        deliver(broker, 2, consumer=0)
        await eventually(lambda: len(handled) == 2)
        assert len(consumer.topics) == 1 and not running.done()
        await eventually(lambda: len(broker.acks) == 3)
        answer(broker, 2)
    await running


async def test_an_acknowledgement_that_fails_does_not_end_who_runs(broker: ScriptedBroker) -> None:
    handled: list[Message] = []

    async def handle(message: Message) -> None:
        handled.append(message)

    client = broker.client(request_timeout_s=0.05)
    async with client, client.consumer(TOPIC, "s", ack_receipts=True) as consumer:
        running = asyncio.create_task(consumer.run(handle))
        deliver(broker, 0)  # nobody answers its acknowledgement
        await eventually(lambda: len(handled) == 1)
        deliver(broker, 1)
        await eventually(lambda: len(handled) == 2)
    await running


async def test_a_topic_that_is_deleted_is_left_and_not_made_again(broker: ScriptedBroker) -> None:
    names, gone = with_topics(broker, TOPIC)
    async with broker.client() as client, client.pattern_consumer(f"{TOPIC}-.*", "s", nack_delay_s=0.0) as consumer:
        deliver(broker, 1)
        message = await consumer.receive()
        gone.add(message.topic)
        close_consumer(broker)
        await reopened(broker, 3)
        await eventually(lambda: consumer.topics == [name for name in names if name not in gone])
        assert not await consumer.ack(message)
        await consumer.nack(message)
        assert not consumer.closed
        gone.clear()
        broker.time.move(100.0)
        await eventually(lambda: len(consumer.topics) == 2)
