"""The producer against a broker that a test moves by hand: breaks, limits, cancellation, slow partitions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.client import errors
from messaging.client.message import MessageId, OutgoingMessage
from messaging.client.producing.producer import Producer
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.messaging.client.scripted import ScriptedBroker
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


async def sent(broker: ScriptedBroker, count: int) -> None:
    await eventually(lambda: len(broker.connection.sent) == count)


async def reconnected(broker: ScriptedBroker, connections: int) -> None:
    def opened() -> bool:
        broker.time.move(1.0)
        return len(broker.connections) == connections and broker.commands[-1] in ("PRODUCER", "SEND")

    await eventually(opened)


async def test_messages_that_are_sent_together_share_a_batch_and_one_alone_waits_for_nobody(broker: ScriptedBroker) -> None:
    broker.answers_sends = True
    async with broker.client() as client, client.producer(TOPIC, batch_delay_ms=3_600_000) as producer:
        ids = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(5)))
        assert ids == [MessageId(1, 0, index) for index in range(5)] and len(broker.connection.sent) == 1
        assert await producer.send(b"alone") == MessageId(1, 1)
        future = producer.send_nowait(b"in company")
        await asyncio.sleep(0)
        assert len(broker.connection.sent) == 2, "nobody waits for it, so it waits for others"
        await producer.flush()
        assert future.result() == MessageId(1, 2)
        assert broker.sequence_ids == [0, 5, 6]


async def test_after_a_break_everything_is_sent_again_in_order_under_the_same_ids(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC, batching=False) as producer:
        futures = [producer.send_nowait(b"%d" % number) for number in range(4)]
        await sent(broker, 4)
        broker.connection.receipt(0)
        await futures[0]
        broker.connection.lose()
        await eventually(lambda: not producer.statistics.partitions_connected)
        futures.append(producer.send_nowait(b"4"))
        await reconnected(broker, 2)
        await sent(broker, 4)
        assert broker.sequence_ids == [1, 2, 3, 4] and broker.payloads() == [b"1", b"2", b"3", b"4"]
        for index in range(4):
            broker.connection.receipt(index)
        await asyncio.gather(*futures)


async def test_a_receipt_that_skips_another_ends_the_connection(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC, batching=False) as producer:
        futures = [producer.send_nowait(b"x") for _ in range(2)]
        await sent(broker, 2)
        broker.connection.receipt(1)
        await reconnected(broker, 2)
        await sent(broker, 2)
        broker.connection.receipt(0)
        broker.connection.receipt(1)
        await asyncio.gather(*futures)


async def test_a_producer_that_the_broker_closes_is_opened_again(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC, batching=False) as producer:
        future = producer.send_nowait(b"x")
        await sent(broker, 1)
        closed = pb.CloseProducer(producer_id=broker.connection.sent[0].command.send.producer_id, request_id=frames.UNSOLICITED)
        broker.connection.say(frames.command(pb.Command.CLOSE_PRODUCER, close_producer=closed))

        def sent_again() -> bool:
            broker.time.move(1.0)
            return len(broker.connection.sent) == 2

        await eventually(sent_again)
        assert len(broker.connections) == 1, "the connection is fine"
        broker.connection.receipt(1)
        await future


async def test_the_memory_of_all_producers_is_limited_and_who_waits_gets_in_in_turn(broker: ScriptedBroker) -> None:
    async with broker.client(memory_bytes_max=100) as client:
        first, second = await client.producer(TOPIC, batching=False), await client.producer(f"{TOPIC}-2", batching=False)
        blocking = first.send_nowait(b"x" * 90)
        with pytest.raises(errors.QueueFull, match="90 bytes"):
            second.send_nowait(b"y" * 20)
        waiting = asyncio.create_task(second.send(b"y" * 20))
        await sent(broker, 1)
        assert second.statistics.waiting == 1
        broker.connection.receipt(0)
        await blocking
        await sent(broker, 2)
        broker.connection.receipt(1)
        await waiting
        await first.close()
        await second.close()


async def test_a_producer_that_does_not_block_says_that_it_is_full(broker: ScriptedBroker) -> None:
    async with broker.client() as client:
        producer = await client.producer(TOPIC, batching=False, pending_max=1, block_if_full=False)
        pending = producer.send_nowait(b"x")
        with pytest.raises(errors.QueueFull):
            await producer.send(b"y")
        await producer.abort()
        with pytest.raises(errors.Closed) as caught:
            await pending
        assert errors.may_be_stored(caught.value)


async def test_cancelled_before_it_left_a_message_is_not_sent(broker: ScriptedBroker) -> None:
    broker.answers_sends = True
    async with broker.client() as client, client.producer(TOPIC, pending_max=1) as producer:
        inside = asyncio.create_task(producer.send(b"in the batch"))
        outside = asyncio.create_task(producer.send(b"waits for room"))
        await asyncio.sleep(0)
        outside.cancel()
        await asyncio.gather(inside, outside, return_exceptions=True)
        await producer.send(b"kept")
        assert broker.payloads() == [b"in the batch", b"kept"] and outside.cancelled()
        assert producer.statistics.pending == producer.statistics.waiting == 0


async def test_cancelled_at_any_point_a_producer_leaves_nothing_behind(broker: ScriptedBroker) -> None:
    """Opening, sending and closing, cancelled after each number of turns of the loop."""

    async def use() -> None:
        async with broker.client() as client, client.producer(TOPIC) as producer:
            await producer.send(b"x")

    broker.answers_sends = True
    for turns in range(60):
        task = asyncio.create_task(use())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await eventually(lambda: not any(connection.open for connection in broker.connections))
        await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})


async def test_a_refused_message_says_why_and_the_next_is_sent(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC, batching=False) as producer:
        refused, stored = producer.send_nowait(b"x"), producer.send_nowait(b"y")
        await sent(broker, 2)
        send = broker.connection.sent[0].command.send
        error = pb.SendError(producer_id=send.producer_id, sequence_id=0, error=pb.NotAllowedError, message="too late")
        broker.connection.say(frames.command(pb.Command.SEND_ERROR, send_error=error))
        broker.connection.receipt(1)
        with pytest.raises(errors.SendFailed, match="too late") as caught:
            await refused
        assert errors.whose_fault(caught.value) == "caller" and not errors.may_be_stored(caught.value)
        assert await stored == MessageId(1, 1)


async def test_a_fenced_producer_gives_up(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC, batching=False, access="exclusive") as producer:
        future = producer.send_nowait(b"x")
        await sent(broker, 1)
        send = broker.connection.sent[0].command.send
        error = pb.SendError(producer_id=send.producer_id, sequence_id=0, error=pb.ProducerFenced, message="another owns the topic")
        broker.connection.say(frames.command(pb.Command.SEND_ERROR, send_error=error))
        with pytest.raises(errors.Closed) as caught:
            await future
        assert isinstance(caught.value.__cause__, errors.ProducerFenced) and producer.closed
        with pytest.raises(errors.Closed):
            producer.send_nowait(b"y")


async def test_messages_without_a_receipt_time_out(broker: ScriptedBroker) -> None:
    async with broker.client() as client, client.producer(TOPIC, send_timeout_s=0.01, batching=False) as producer:
        future = producer.send_nowait(b"x")
        broker.time.move(60.0)
        with pytest.raises(errors.SendTimedOut, match="may be stored or not") as caught:
            await future
        assert errors.may_be_stored(caught.value) and producer.statistics.failed == 1


async def test_opening_is_refused_at_once_or_after_its_time(broker: ScriptedBroker) -> None:
    async with broker.client() as client:
        broker.refuses = lambda producer: (4, "no")
        with pytest.raises(errors.NotAuthorized):
            await client.producer(TOPIC)
        broker.refuses = lambda producer: (6, "not yet")
        opening = asyncio.ensure_future(client.create_producer(TOPIC))

        def refused() -> bool:
            broker.time.move(1.0)
            return opening.done()

        await eventually(refused)
        with pytest.raises(errors.NotReady, match="within 10 s: not yet"):
            await opening


async def test_a_broker_that_cannot_look_up_now_is_not_the_only_one_that_is_asked(broker: ScriptedBroker) -> None:
    """Two hosts took turns, for two requests of each attempt: one that was cut off from the others was asked about every topic."""
    refused = pb.LookupResponse(request_id=0, response=pb.LookupResponse.Failed, error=pb.ServiceNotReady, message="cut off")
    there = pb.LookupResponse(request_id=0, response=pb.LookupResponse.Connect, broker_service_url="pulsar://well:1")
    answers = [there, refused]
    broker.lookup = lambda request: answers.pop()
    async with broker.client("pulsar://well:1,cut-off:1") as client:
        await asyncio.wait_for(client.create_producer(TOPIC), 20)  # time stands still: there is no second attempt
    assert not answers and {address.host for address in broker.addresses} == {"well", "cut-off"}


async def test_a_lookup_is_followed_to_another_broker(broker: ScriptedBroker) -> None:
    def lookup(request: pb.Lookup) -> pb.LookupResponse:
        if len(broker.connections) == 1:
            return pb.LookupResponse(
                request_id=0, response=pb.LookupResponse.Redirect, broker_service_url="pulsar://other:2", authoritative=True
            )
        assert request.authoritative
        return pb.LookupResponse(request_id=0, response=pb.LookupResponse.Connect, broker_service_url="pulsar://other:2")

    broker.lookup = lookup
    async with broker.client() as client, client.producer(TOPIC):
        assert [str(address) for address in broker.addresses] == ["pulsar://scripted:1", "pulsar://other:2"]
        assert "PRODUCER" in broker.commands


async def test_a_broker_is_reached_through_the_proxy_that_asks_for_it(broker: ScriptedBroker) -> None:
    """The broker's address is the proxy's business alone; what is asked of the proxy itself stays on a connection of its own."""
    broker.lookup = lambda request: pb.LookupResponse(
        request_id=0,
        response=pb.LookupResponse.Connect,
        broker_service_url="pulsar://inside:6650",
        proxy_through_service_url=True,
    )
    async with broker.client("pulsar://proxy:1") as client, client.producer(TOPIC), client.producer(f"{TOPIC}-2"):
        assert [str(address) for address in broker.addresses] == ["pulsar://proxy:1"] * 2
        assert broker.targets == ["", "inside:6650"]
        assert len(broker.connection.receiver.producers) == 2  # type: ignore[attr-defined]


async def test_of_several_hosts_the_first_that_answers_is_used(broker: ScriptedBroker) -> None:
    broker.reachable = False
    async with broker.client("pulsar://a:1,b:2") as client:
        opening = asyncio.ensure_future(client.create_producer(TOPIC))
        await eventually(lambda: len(broker.addresses) >= 2)
        assert {address.host for address in broker.addresses} == {"a", "b"}
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)


# --- partitions


async def send_some(producer: Producer, count: int, **more: str) -> list[asyncio.Future[MessageId]]:
    return [producer.send_nowait(b"x", **more) for _ in range(count)]  # type: ignore[arg-type]


async def test_a_blocked_partition_takes_its_room_and_no_more(broker: ScriptedBroker) -> None:
    """Messages with a key wait for their partition; all others go around it."""
    broker.partitions = 4
    async with broker.client() as client:
        producer = await client.producer(TOPIC, batching=False, pending_max=10)
        producers = {command: index for index, command in enumerate(sorted(broker.connection.receiver.producers))}  # type: ignore[attr-defined]

        def answer_all_but_the_first_partition(done: int) -> int:
            for index in range(done, len(broker.connection.sent)):
                if producers[broker.connection.sent[index].command.send.producer_id] != 0:
                    broker.connection.receipt(index)
            return len(broker.connection.sent)

        answered, stored = 0, 0
        for _ in range(100):
            futures = await send_some(producer, 4)
            await eventually(lambda answered=answered: len(broker.connection.sent) == answered + 4)  # type: ignore[misc]
            answered = answer_all_but_the_first_partition(answered)
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            stored = producer.statistics.stored
        await eventually(lambda: producer.statistics.stored >= 390)
        assert stored and producer.statistics.pending == 10, "as many as the blocked partition takes"
        await producer.abort()


async def test_a_partition_without_receipts_is_avoided_before_it_is_full(broker: ScriptedBroker) -> None:
    broker.partitions = 2
    async with broker.client() as client:
        producer = await client.producer(TOPIC, batching=False, slow_after_s=0.5)
        futures = await send_some(producer, 2)
        await sent(broker, 2)
        broker.connection.receipt(1)
        await futures[1]
        broker.time.move(1.0)
        await asyncio.gather(*await_receipts(broker, producer, 4))
        await producer.abort()
        with pytest.raises(errors.Closed):
            await futures[0]


def await_receipts(broker: ScriptedBroker, producer: Producer, count: int) -> list[asyncio.Task[MessageId]]:
    async def send(number: int) -> MessageId:
        before = len(broker.connection.sent)
        future = producer.send_nowait(b"%d" % number)
        await sent(broker, before + 1)
        broker.connection.receipt(before)
        return await future

    async def all_of_them() -> MessageId:
        for number in range(count):
            message_id = await send(number)
        return message_id

    return [asyncio.create_task(all_of_them())]


async def test_interceptors_see_each_message_and_its_receipt(broker: ScriptedBroker) -> None:
    seen: list[object] = []

    class Interceptor:
        def before_send(self, message: OutgoingMessage) -> OutgoingMessage:
            message.properties["seen"] = "yes"
            return message

        def after_receipt(self, message: OutgoingMessage, message_id: MessageId | None, error: BaseException | None) -> None:
            seen.append((message.payload, message_id, error))
            raise RuntimeError("a bug of the application")

    broker.answers_sends = True
    async with broker.client() as client, client.producer(TOPIC, interceptors=[Interceptor()]) as producer:
        await producer.send(b"x")
        await eventually(lambda: seen == [(b"x", MessageId(1, 0), None)])
        assert frames.parse_stored(broker.connection.sent[0].rest).metadata.properties[0].key == "seen"


@pytest.mark.parametrize(
    "arguments",
    [
        {"event_time_ms": -1},
        {"event_time_ms": 1 << 64},
        {"event_time_ms": 1.5},
        {"deliver_at_ms": -5},
        {"deliver_at_ms": 1 << 64},
        {"deliver_after_s": float("nan")},
        {"properties": {"attempt": 1}},
        {"properties": {"name": "\ud800"}},
        {"key": 5},
        {"key": "\ud800"},
        {"ordering_key": "text"},
        {"sequence_id": "7"},
    ],
)
async def test_what_cannot_be_written_is_refused_before_it_shares_a_batch(
    broker: ScriptedBroker, arguments: dict[str, Any]
) -> None:
    """Else those who share it would wait for ever, and their messages would be gone."""
    broker.answers_sends = True
    async with broker.client() as client, client.producer(TOPIC) as producer:
        company = producer.send_nowait(b"company")
        with pytest.raises(errors.InvalidValue):
            await producer.send(b"x", **arguments)
        await producer.flush()
        assert (await company).entry_id == 0 and producer.statistics.pending == 0


async def test_a_batch_that_cannot_be_encrypted_fails_and_nobody_waits_for_ever(broker: ScriptedBroker) -> None:
    class Broken:
        def encrypt(self, payload: bytes, metadata: pb.Metadata) -> bytes:
            raise OSError("the module of keys is gone")

    broker.answers_sends = True
    async with broker.client() as client, client.producer(TOPIC, encryption=Broken()) as producer:  # type: ignore[arg-type]
        futures = [producer.send_nowait(b"x") for _ in range(3)]
        await producer.flush()
        for future in futures:
            with pytest.raises(errors.SendFailed, match="the module of keys is gone"):
                await future
        assert producer.statistics.pending == 0


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, asyncio.CancelledError])
async def test_interrupted_it_does_not_wait_for_a_broker_that_is_silent(
    broker: ScriptedBroker, interruption: type[BaseException]
) -> None:
    """Ctrl-C cancels the task where there is a loop, and comes as it is where there is none."""
    async with broker.client() as client:
        producer = await client.create_producer(TOPIC)
        future = producer.send_nowait(b"no receipt comes")
        await asyncio.wait_for(producer.__aexit__(interruption, interruption(), None), 10)
        with pytest.raises(errors.Closed):
            await future
