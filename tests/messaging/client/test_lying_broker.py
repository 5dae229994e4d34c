"""A broker that lies to the SDK: wrong answers, wrong numbers, addresses that are none, sizes that nobody can keep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
import websockets
from websockets.asyncio.server import ServerConnection, serve

from messaging.client import errors
from messaging.client.addresses import parse_addresses
from messaging.client.consuming.acks import bits_of
from messaging.client.consuming.unpacking import Opened, Unpacker, message_count
from messaging.client.schemas import BYTES
from messaging.client.wire.session import MESSAGE_BYTES_CEILING, Session
from messaging.client.wire.transports import MESSAGE_BYTES_MAX, SUBPROTOCOL, connect_web_socket
from messaging.errors import MagnetarError
from messaging.limits.sizes import BATCH_MESSAGES_MAX
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.messaging.client.scripted import ScriptedBroker
from tests.support.waiting import eventually

Command = pb.Command
TOPIC = "persistent://acme/orders/new"


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


async def opening(broker: ScriptedBroker, url: str = "pulsar://scripted:1") -> MagnetarError:
    """Why a producer is not opened; its time is over after a few tries."""
    async with broker.client(url) as client:
        task = asyncio.create_task(client.create_producer(TOPIC))
        while not task.done():
            await asyncio.sleep(0)
            if broker.time.sleeping:
                broker.time.move(20.0)
        error = task.exception()
    assert isinstance(error, MagnetarError)
    return error


@pytest.mark.parametrize("answer", [frames.success, lambda number: frames.command(Command.ACK_RESPONSE, ack_response=_ack(number))])
async def test_an_answer_of_another_kind_ends_the_connection(broker: ScriptedBroker, answer: Callable[[int], bytes]) -> None:
    broker.answers[Command.PRODUCER] = lambda command: answer(command.producer.request_id)
    error = await opening(broker)
    assert isinstance(error, errors.NotReady) and "where PRODUCER_SUCCESS is the answer" in error.message
    assert errors.whose_fault(error) == "broker"


def _ack(number: int) -> pb.AckResponse:
    return pb.AckResponse(consumer_id=1, request_id=number)


async def test_an_address_that_is_none_is_the_fault_of_the_broker(broker: ScriptedBroker) -> None:
    broker.lookup = lambda lookup: pb.LookupResponse(
        request_id=0, response=pb.LookupResponse.Connect, broker_service_url="nonsense"
    )
    error = await opening(broker)
    assert errors.whose_fault(error) == "broker" and "'nonsense'" in error.message


async def test_a_key_that_came_over_tls_is_not_sent_without(broker: ScriptedBroker) -> None:
    broker.lookup = lambda lookup: pb.LookupResponse(
        request_id=0, response=pb.LookupResponse.Redirect, broker_service_url_tls="pulsar://elsewhere:6650"
    )
    error = await opening(broker, "pulsar+ssl://scripted:1")
    assert "pulsar://elsewhere:6650" in error.message and {address.host for address in broker.addresses} == {"scripted"}


async def test_partitions_without_end_are_not_opened(broker: ScriptedBroker) -> None:
    broker.partitions = (1 << 32) - 1
    async with broker.client() as client:
        for open_ in (client.create_producer(TOPIC), client.subscribe(TOPIC, "s"), client.partitions(TOPIC)):
            with pytest.raises(errors.Unreachable, match="4294967295 partitions"):
                await open_


def test_the_limit_of_messages_is_believed_up_to_a_ceiling() -> None:
    session = Session(5 << 20, 30.0, 0.0)
    connected = pb.Connected(server_version="huge", max_message_size=(1 << 31) - 1)
    session.receive(frames.command(Command.CONNECTED, connected=connected), 0.0)
    assert session.message_bytes_max == MESSAGE_BYTES_CEILING


async def test_a_chunk_that_is_refused_fails_its_message_whatever_the_others_are_answered(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC, chunking=True) as producer:
        for refused in range(3):
            first = len(broker.connection.sent)
            task = asyncio.create_task(producer.send(b"x" * 250_000))
            after = asyncio.create_task(producer.send(b"after it"))
            await eventually(partial(_has_sent, broker, first + 4))
            for number in range(first, first + 4):
                send = broker.connection.sent[number].command.send
                if number == first + refused:
                    refusal = pb.SendError(
                        producer_id=send.producer_id, sequence_id=send.sequence_id, error="ChecksumError", message="its checksum"
                    )
                    broker.connection.say(frames.command(Command.SEND_ERROR, send_error=refusal))
                else:
                    broker.connection.receipt(number)
            with pytest.raises(errors.SendFailed, match="its checksum"):
                await task
            assert (await after).entry_id == first + 3 and producer.statistics.pending == 0
        assert len(broker.connections) == 1


def _has_sent(broker: ScriptedBroker, count: int) -> bool:
    return len(broker.connection.sent) == count


async def test_receipts_that_come_twice_or_for_others_are_of_no_account(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC, batching=False) as producer:
        first = producer.send_nowait(b"1")
        await eventually(lambda: len(broker.connection.sent) == 1)
        broker.connection.receipt(0)
        broker.connection.receipt(0)
        stranger = pb.SendReceipt(producer_id=99, sequence_id=0, message_id=pb.MessageId(ledger_id=9, entry_id=9))
        broker.connection.say(frames.command(Command.SEND_RECEIPT, send_receipt=stranger))
        second = producer.send_nowait(b"2")
        await eventually(lambda: len(broker.connection.sent) == 2)
        assert not second.done()
        broker.connection.receipt(1)
        assert [(await first).entry_id, (await second).entry_id] == [0, 1] and len(broker.connections) == 1


def test_a_set_of_acknowledgements_is_read_no_further_than_its_batch() -> None:
    """Millions of words would take minutes."""

    class Words(list[int]):
        def __getitem__(self, index: object) -> list[int]:  # type: ignore[override]
            assert isinstance(index, slice) and index.stop <= 2
            return super().__getitem__(index)

        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("all of them were read")

    metadata = pb.Metadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=3)
    single = pb.SingleMetadata(payload_size=1).SerializeToString()
    payload = 3 * (len(single).to_bytes(4, "big") + single + b"x")

    class Delivery:
        message_id = pb.MessageId(ledger_id=1, entry_id=2)
        redelivery_count = 0
        ack_set = Words([0b101, *[-1] * 1000])

    stored = frames.Stored(metadata, payload)
    messages, size, left = Unpacker(TOPIC, -1, BYTES).messages(Delivery(), Opened(stored, False), 5 << 20)  # type: ignore[arg-type]
    assert (len(messages), size, left) == (2, 3, 0b101)


def test_a_delivery_that_is_passed_over_gives_back_no_more_than_a_batch_has() -> None:
    def stored(count: int) -> bytes:
        metadata = pb.Metadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=count)
        built = frames.build_send(1, 0, metadata, b"")
        return built[8 + int.from_bytes(built[4:8], "big") :]

    delivery = pb.Message(consumer_id=1, message_id=pb.MessageId(ledger_id=1, entry_id=1))
    assert message_count(delivery, stored(7)) == 7
    assert message_count(delivery, stored((1 << 31) - 1)) == BATCH_MESSAGES_MAX
    assert message_count(delivery, b"nothing of it") == 1
    delivery.ack_set.extend([0b1010])
    assert message_count(delivery, stored(7)) == bits_of([0b1010]).bit_count()


class _Heard:
    def __init__(self) -> None:
        self.bytes = 0
        self.reason: str | None = None

    def received(self, data: bytes) -> None:
        self.bytes += len(data)

    def paused(self, paused: bool) -> None: ...

    def lost(self, reason: str) -> None:
        self.reason = reason


@pytest.mark.parametrize("fragments", [False, True])
async def test_a_websocket_message_without_end_is_not_kept(fragments: bool) -> None:
    part = b"\0" * (1 << 20)

    async def talk(peer: ServerConnection) -> None:
        try:
            await peer.send(part)
            await peer.send([part] * 9 if fragments else part * 9)
            await peer.wait_closed()
        except websockets.ConnectionClosed:
            pass

    async with serve(talk, "127.0.0.1", 0, subprotocols=[websockets.Subprotocol(SUBPROTOCOL)], compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        heard = _Heard()
        await connect_web_socket(parse_addresses(f"ws://127.0.0.1:{port}")[0], heard, None)
        await eventually(lambda: heard.reason is not None)
    assert heard.bytes == len(part) and MESSAGE_BYTES_MAX < 9 << 20
