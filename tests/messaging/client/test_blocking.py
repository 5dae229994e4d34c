"""The SDK without an event loop, on a whole broker; and that its classes are those of the asynchronous one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from docs.blocking_client import TARGET, generate
from messaging.client import blocking as magnetar
from messaging.client import errors
from messaging.client.blocking.loop_thread import LoopThread
from tests.support.brokers.running_broker import RunningBroker

TOPIC = "persistent://acme/orders/plain"


def test_it_is_made_from_the_asynchronous_classes() -> None:
    assert generate() == TARGET.read_text(encoding="utf-8"), "run `make client`"


def connect(broker: RunningBroker) -> magnetar.Client:
    return magnetar.connect(f"pulsar://127.0.0.1:{broker.port}", key=broker.token("owner"))


async def test_messages_are_sent_and_received(broker: RunningBroker) -> None:
    def work() -> None:
        with connect(broker) as client, client.consumer(TOPIC, "s") as consumer:
            with client.producer(TOPIC, schema=magnetar.STRING) as producer:
                message_id = producer.send("a", key="k")
                futures = [producer.send_nowait("b"), producer.send_nowait("c")]
                producer.flush()
                assert [future.result().entry_id for future in futures] == [message_id.entry_id + 1] * 2
                assert producer.statistics.stored == 3 and producer.name
            assert consumer.receive(timeout_s=10).id == message_id
            messages = consumer.receive_batch(2, timeout_s=10)
            assert [message.payload for message in messages] == [b"b", b"c"]
            for message in messages:
                consumer.ack(message)
            with pytest.raises(errors.ReceiveTimedOut):
                consumer.receive(timeout_s=0.01)
            with client.reader(TOPIC, magnetar.EARLIEST) as reader:
                assert [reader.read(timeout_s=10).payload for _ in range(3)] == [b"a", b"b", b"c"]
            with client.table_view(TOPIC, schema=magnetar.STRING) as view:
                assert dict(view) == {"k": "a"} and len(view) == 1
        client.close()
        with pytest.raises(errors.InvalidOperation, match="closed"):
            client.partitions(TOPIC)

    await asyncio.to_thread(work)


async def test_a_loop_over_a_consumer_ends_with_it_and_a_listener_runs_in_threads(broker: RunningBroker) -> None:
    def work() -> list[bytes]:
        payloads = []
        with connect(broker) as client, client.producer(TOPIC) as producer:
            consumer = client.subscribe(TOPIC, "loop")
            for number in range(3):
                producer.send(b"%d" % number)
            for message in consumer:
                payloads.append(message.payload)
                consumer.ack(message)
                if len(payloads) == 3:
                    consumer.close()
            listened = client.subscribe(TOPIC, "listener", initial="earliest")

            def handle(message: magnetar.Message) -> None:
                payloads.append(message.payload)
                if len(payloads) == 6:
                    listened.close()

            listened.run(handle)
        return payloads

    assert await asyncio.to_thread(work) == [b"0", b"1", b"2"] * 2


def test_a_callback_cannot_wait_for_its_own_client() -> None:
    thread = LoopThread()
    try:

        def inside(work: Callable[[], object]) -> object:
            return thread.call(work)

        with pytest.raises(errors.InvalidOperation, match="callback"):
            inside(lambda: thread.call(int))
    finally:
        thread.close()
        thread.close()
