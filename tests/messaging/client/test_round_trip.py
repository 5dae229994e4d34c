"""The SDK against a whole broker in this process, and beside Apache's client: each reads what the other wrote."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pulsar
import pytest
import uvloop
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from messaging import client as magnetar
from messaging.adminrpc.topics import PartitionsUpdate, TopicCreate
from messaging.client import errors
from tests.support.brokers.running_broker import RunningBroker, running_broker
from tests.support.waiting import eventually

NAMESPACE = "persistent://acme/orders"
CODECS = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


async def received(consumer: magnetar.Consumer, count: int) -> list[magnetar.Message]:
    messages = []
    for _ in range(count):
        messages.append(await consumer.receive(timeout_s=10))
        await consumer.ack(messages[-1])
    return messages


# --- the SDK alone


async def test_a_message_comes_as_it_was_sent_and_not_again_once_it_is_acknowledged(client: magnetar.Client) -> None:
    topic = f"{NAMESPACE}/new"
    async with client.consumer(topic, "billing") as consumer, client.producer(topic) as producer:
        message_id = await producer.send("grüße".encode(), key="k", properties={"a": "ü"}, event_time_ms=1_600_000_000_000)
        (message,) = await received(consumer, 1)
        assert message.id == message_id == magnetar.MessageId.parse(message_id.text)
        assert (message.payload.decode(), message.key, message.properties) == ("grüße", "k", {"a": "ü"})
        assert (message.event_time_ms, message.producer_name) == (1_600_000_000_000, producer.name)
        await producer.send(None, key="k")
        assert (await received(consumer, 1))[0].null_value
    async with client.consumer(topic, "billing") as consumer:
        with pytest.raises(errors.ReceiveTimedOut):
            await consumer.receive(timeout_s=0.05)


async def test_parts_of_a_batch_are_acknowledged(client: magnetar.Client) -> None:
    topic = f"{NAMESPACE}/parts"
    async with client.producer(topic) as producer:
        async with client.consumer(topic, "s", kind="shared", ack_receipts=True) as consumer:
            await asyncio.gather(*(producer.send(b"%d" % number) for number in range(10)))
            messages = [await consumer.receive(timeout_s=10) for _ in range(10)]
            for message in messages[::2]:
                await consumer.ack(message)
        async with client.consumer(topic, "s", kind="shared") as consumer:
            assert [message.payload for message in await received(consumer, 5)] == [b"1", b"3", b"5", b"7", b"9"]


async def test_refused_and_forgotten_messages_come_again_and_then_go_to_the_dead_letters(client: magnetar.Client) -> None:
    topic = f"{NAMESPACE}/poison"
    policy = magnetar.DeadLetterPolicy(max_redeliveries=2, initial_subscription="kept")
    async with (
        client.consumer(
            topic, "s", kind="shared", nack_backoff=magnetar.RedeliveryBackoff(0.01, 0.02), dead_letters=policy
        ) as consumer,
        client.producer(topic) as producer,
        client.consumer(f"{topic}-s-DLQ", "kept", initial="earliest") as dead,
    ):
        await producer.send(b"poison", key="k", properties={"p": "q"})
        for count in range(3):
            message = await consumer.receive(timeout_s=10)
            assert message.redelivery_count == count
            await consumer.nack(message)
        (letter,) = await received(dead, 1)
        assert (letter.payload, letter.key, letter.properties["p"], letter.properties["REAL_TOPIC"]) == (b"poison", "k", "q", topic)
    async with client.consumer(topic, "t", kind="shared", ack_timeout_s=0.05) as consumer, client.producer(topic) as producer:
        await producer.send(b"forgotten")
        assert [(await consumer.receive(timeout_s=10)).redelivery_count for _ in range(2)] == [0, 1]


async def test_a_message_that_is_to_come_later_goes_over_the_retry_topic(client: magnetar.Client) -> None:
    topic = f"{NAMESPACE}/later"
    policy = magnetar.DeadLetterPolicy(max_redeliveries=1, initial_subscription="kept")
    async with (
        client.consumer(topic, "s", kind="shared", dead_letters=policy, retry_enabled=True) as consumer,
        client.consumer(f"{topic}-s-DLQ", "kept", initial="earliest") as dead,
        client.producer(topic) as producer,
    ):
        await producer.send(b"not now")
        await consumer.reconsume_later(await consumer.receive(timeout_s=10), 0.02)
        again = await consumer.receive(timeout_s=10)
        assert (again.properties["RECONSUMETIMES"], again.properties["REAL_TOPIC"]) == ("1", topic)
        await consumer.reconsume_later(again, 0.02)
        assert (await received(dead, 1))[0].payload == b"not now"


async def test_an_exclusive_consumer_gets_everything_again_in_order(client: magnetar.Client) -> None:
    topic = f"{NAMESPACE}/again"
    async with client.consumer(topic, "s", nack_delay_s=0.01) as consumer, client.producer(topic) as producer:
        for number in range(4):
            await producer.send(b"%d" % number)
        messages = [await consumer.receive(timeout_s=10) for _ in range(3)]
        await consumer.ack_cumulative(messages[0])
        await consumer.nack(messages[1])
        await eventually(lambda: consumer.queued_messages == 3)
        assert [message.payload for message in await received(consumer, 3)] == [b"1", b"2", b"3"]


async def test_seeking_reading_and_the_end_of_a_topic(client: magnetar.Client) -> None:
    topic = f"{NAMESPACE}/read"
    async with client.producer(topic) as producer:
        ids = await asyncio.gather(*(producer.send(b"%d" % number, key=str(number % 2)) for number in range(4)))
        async with client.reader(topic, ids[1]) as reader:
            assert await reader.has_message()
            assert [(await reader.read(timeout_s=10)).payload for _ in range(2)] == [b"2", b"3"]
            assert not await reader.has_message()
            await reader.seek(magnetar.EARLIEST)
            assert (await reader.read(timeout_s=10)).payload == b"0"
        async with client.reader(topic, ids[1], inclusive=True) as reader:
            assert (await reader.read(timeout_s=10)).payload == b"1"
        async with client.reader(topic) as reader:
            assert not await reader.has_message()
        async with client.table_view(topic) as view:
            assert dict(view) == {"0": b"2", "1": b"3"}
            changes: list[Any] = []
            view.listen(lambda key, value: changes.append((key, value)))
            await producer.send(None, key="0")
            await eventually(lambda: changes == [("0", None)] and dict(view) == {"1": b"3"})
        async with client.consumer(topic, "s", initial="earliest") as consumer:
            await received(consumer, 4)
            await consumer.seek(ids[2])
            assert (await received(consumer, 1))[0].payload == b"3"
            await consumer.seek(ids[2], inclusive=True)
            assert (await received(consumer, 1))[0].payload == b"2"


async def test_several_topics_patterns_and_batches_of_messages(client: magnetar.Client) -> None:
    names = [f"{NAMESPACE}/multi-{number}" for number in range(3)]
    for name in names:
        async with client.producer(name) as producer:
            await producer.send(name[-1].encode())
    async with client.consumer(names[:2], "s", initial="earliest") as consumer:
        messages = await consumer.receive_batch(2, timeout_s=10)
        assert {message.payload for message in messages} == {b"0", b"1"}
        for message in messages:
            await consumer.ack(message)
        with pytest.raises(errors.InvalidValue, match="several topics"):
            await consumer.ack(messages[0].id)
    async with client.pattern_consumer(f"{NAMESPACE}/multi-[0-9]", "p", initial="earliest", topics_update_s=0.05) as consumer:
        assert {message.payload for message in await received(consumer, 3)} == {b"0", b"1", b"2"}
        async with client.producer(f"{NAMESPACE}/multi-3") as producer:
            await producer.send(b"3")
        assert (await received(consumer, 1))[0].payload == b"3"


async def test_a_topic_of_several_partitions_that_gets_more(client: magnetar.Client, broker: RunningBroker) -> None:
    topic = f"{NAMESPACE}/wide"
    await broker.admin.topics.create(TopicCreate(topic=topic, partitions=2))
    assert len(await client.partitions(topic)) == 2
    async with (
        client.consumer(topic, "s", topics_update_s=0.05) as consumer,
        client.producer(topic, batching=False, partitions_update_s=0.05) as producer,
    ):
        ids = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(10)))
        assert {message_id.partition for message_id in ids} == {0, 1}
        assert {message.id for message in await received(consumer, 10)} == {*ids}
        keyed = [(await producer.send(b"%d" % number, key="customer")).partition for number in range(3)]
        assert len({*keyed}) == 1
        assert [message.payload for message in await received(consumer, 3)] == [b"0", b"1", b"2"]
        await broker.admin.topics.update_partitions(PartitionsUpdate(topic=topic, partitions=3))
        await eventually(lambda: producer.partitions == 3 and len(consumer.topics) == 3)
        more = await asyncio.gather(*(producer.send(b"x") for _ in range(6)))
        assert {message_id.partition for message_id in more} == {0, 1, 2}
        assert {message.id for message in await received(consumer, 6)} == {*more}


async def test_a_key_that_is_renewed_is_used_and_one_that_may_not_is_refused(broker: RunningBroker) -> None:
    async def key() -> str:
        return broker.token("writer")

    async with magnetar.connect(f"pulsar://127.0.0.1:{broker.port}", key=key) as client:
        async with client.producer(f"{NAMESPACE}/new") as producer:
            await producer.send(b"x")
        with pytest.raises(errors.NotAuthorized) as caught:
            await client.subscribe(f"{NAMESPACE}/new", "s")
        assert errors.whose_fault(caught.value) == "caller"


@dataclasses.dataclass
class Order:
    number: int
    customer: str


async def test_a_schema_is_kept_by_the_broker(client: magnetar.Client) -> None:
    topic = f"{NAMESPACE}/typed"
    async with (
        client.producer(topic, schema=magnetar.Json(Order)) as producer,
        client.consumer(topic, "s", schema=magnetar.Json(Order)) as consumer,
    ):
        await producer.send(Order(1, "c"))
        (message,) = await received(consumer, 1)
        assert message.value == Order(1, "c") and message.schema_version
        with pytest.raises(errors.IncompatibleSchema):
            await client.create_producer(topic, schema=magnetar.STRING)


# --- beside Apache's client


@pytest.mark.parametrize("codec", CODECS)
async def test_apaches_client_reads_our_batches_and_we_read_its(client: magnetar.Client, stock: pulsar.Client, codec: Any) -> None:
    topic = f"{NAMESPACE}/{codec}"
    payloads = [b"%d" % number * 100 for number in range(20)]

    def theirs() -> list[tuple[bytes, str, dict[str, str]]]:
        consumer = stock.subscribe(topic, "theirs", initial_position=pulsar.InitialPosition.Earliest)
        messages = [consumer.receive(10_000) for _ in payloads]
        producer = stock.create_producer(topic, compression_type=CODECS[codec], batching_enabled=True)
        for payload in payloads:
            producer.send_async(payload, lambda result, message_id: None, partition_key="theirs", properties={"p": "q"})
        producer.flush()
        return [(message.data(), message.partition_key(), message.properties()) for message in messages]

    async with client.producer(topic, compression=codec) as producer, client.consumer(topic, "ours") as consumer:
        await asyncio.gather(*(producer.send(payload, key="ours", properties={"ö": "ü"}) for payload in payloads))
        assert await asyncio.to_thread(theirs) == [(payload, "ours", {"ö": "ü"}) for payload in payloads]
        messages = await received(consumer, 40)
        assert [message.payload for message in messages] == payloads * 2
        assert (messages[-1].key, messages[-1].properties) == ("theirs", {"p": "q"})


async def test_chunks_are_read_by_both(client: magnetar.Client, stock: pulsar.Client) -> None:
    topic, large = f"{NAMESPACE}/large", bytes(range(256)) * 50_000  # 12.8 MB in chunks of 5

    def theirs() -> bytes:
        consumer = stock.subscribe(topic, "theirs", initial_position=pulsar.InitialPosition.Earliest)
        message = consumer.receive(20_000)
        stock.create_producer(topic, chunking_enabled=True).send(large[::-1])
        return message.data()

    async with client.producer(topic, chunking=True) as producer, client.consumer(topic, "ours", ack_receipts=True) as consumer:
        await producer.send(large)
        assert await asyncio.to_thread(theirs) == large
        assert [message.payload for message in await received(consumer, 2)] == [large, large[::-1]]
        with pytest.raises(errors.ReceiveTimedOut):
            await consumer.receive(timeout_s=0.05)


async def test_encrypted_messages_are_read_by_both(client: magnetar.Client, stock: pulsar.Client, tmp_path: Path) -> None:
    topic, private = f"{NAMESPACE}/secret", rsa.generate_private_key(65537, 2048)
    public_pem = private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    private_pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (tmp_path / "public").write_bytes(public_pem)
    (tmp_path / "private").write_bytes(private_pem)
    reader = pulsar.CryptoKeyReader(str(tmp_path / "public"), str(tmp_path / "private"))

    def theirs() -> list[bytes]:
        options: dict[str, Any] = {"crypto_key_reader": reader, "initial_position": pulsar.InitialPosition.Earliest}
        consumer = stock.subscribe(topic, "theirs", **options)
        read = [consumer.receive(10_000).data() for _ in range(3)]
        producer = stock.create_producer(topic, crypto_key_reader=reader, encryption_key="key", batching_enabled=True)
        producer.send(b"theirs")
        return read

    async with (
        client.producer(topic, encryption=magnetar.Encryptor({"key": public_pem}), compression="lz4") as producer,
        client.consumer(topic, "ours", decryption=magnetar.Decryptor({"key": private_pem})) as consumer,
        client.consumer(topic, "blind", crypto_failure="consume") as blind,
    ):
        await producer.send(b"a" * 100)
        await asyncio.gather(producer.send(b"b"), producer.send(b"c"))
        assert await asyncio.to_thread(theirs) == [b"a" * 100, b"b", b"c"]
        assert [message.payload for message in await received(consumer, 4)] == [b"a" * 100, b"b", b"c", b"theirs"]
        (sealed,) = await received(blind, 1)
        assert sealed.encryption is not None and b"a" * 10 not in sealed.payload


async def test_keys_find_the_same_consumers_and_table_views(client: magnetar.Client, stock: pulsar.Client) -> None:
    """Batches by key on a Key_Shared subscription: no key is read by both."""
    topic = f"{NAMESPACE}/keyed"

    def subscribe() -> pulsar.Consumer:
        return stock.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.KeyShared)

    def read(consumer: pulsar.Consumer) -> list[str]:
        keys = []
        while True:
            try:
                keys.append(consumer.receive(300).partition_key())
            except pulsar.Timeout:
                return keys

    theirs = await asyncio.to_thread(subscribe)
    async with client.consumer(topic, "s", kind="key_shared") as ours, client.producer(topic, batch_by_key=True) as producer:
        await asyncio.gather(*(producer.send(b"x", key=f"key-{number % 20}") for number in range(200)))
        their_keys = await asyncio.to_thread(read, theirs)
        our_keys = [(await ours.receive(timeout_s=10)).key for _ in range(200 - len(their_keys))]
        assert their_keys and our_keys and not {*their_keys} & {*our_keys}


def test_a_client_on_uvloop(tmp_path: Path) -> None:
    """Its transports are no instances of asyncio's."""

    async def scenario() -> bytes:
        async with (
            running_broker(tmp_path) as broker,
            magnetar.connect(f"pulsar://127.0.0.1:{broker.port}", key=broker.token("owner")) as client,
            client.consumer(f"{NAMESPACE}/uv", "s") as consumer,
            client.producer(f"{NAMESPACE}/uv") as producer,
        ):
            await producer.send(b"there")
            return (await consumer.receive(timeout_s=20)).payload

    assert uvloop.run(scenario()) == b"there"
