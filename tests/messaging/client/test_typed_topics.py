"""Schemas on a whole broker, and beside Apache's client: each reads what the other wrote."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import struct
from typing import Any

import _pulsar  # type: ignore[import-not-found]
import pulsar
import pytest
from google.protobuf import type_pb2
from pulsar.schema import AvroSchema, JsonSchema, Long, ProtobufNativeSchema, Record, Schema, String, StringSchema

from messaging import client as magnetar
from messaging.client import errors
from messaging.client.schemas.records import record_of

NAMESPACE = "persistent://acme/orders"


@dataclasses.dataclass
class Order:
    number: int
    customer: str


@dataclasses.dataclass
class Priced:
    number: int
    customer: str
    price: float = 9.5


TheirOrder = type("Order", (Record,), {"number": Long(required=True), "customer": String(required=True)})


async def received(consumer: magnetar.Consumer, count: int) -> list[magnetar.Message]:
    return [await consumer.receive(timeout_s=10) for _ in range(count)]


async def test_avro_is_read_by_both(client: magnetar.Client, stock: pulsar.Client) -> None:
    topic = f"{NAMESPACE}/avro"

    def theirs() -> list[tuple[int, str]]:
        schema = AvroSchema(TheirOrder)
        consumer = stock.subscribe(topic, "theirs", schema=schema, initial_position=pulsar.InitialPosition.Earliest)
        values = [consumer.receive(10_000).value() for _ in range(2)]
        stock.create_producer(topic, schema=schema).send(TheirOrder(number=3, customer="theirs"))
        return [(value.number, value.customer) for value in values]

    async with (
        client.producer(topic, schema=magnetar.Avro(Order)) as producer,
        client.consumer(topic, "ours", schema=magnetar.Avro(Order)) as consumer,
    ):
        await asyncio.gather(producer.send(Order(1, "ö")), producer.send(Order(-2, "")))
        assert await asyncio.to_thread(theirs) == [(1, "ö"), (-2, "")]
        messages = await received(consumer, 3)
        assert [message.value for message in messages] == [Order(1, "ö"), Order(-2, ""), Order(3, "theirs")]


async def test_a_consumer_of_a_newer_schema_reads_older_messages_and_the_other_way_round(
    client: magnetar.Client, stock: pulsar.Client
) -> None:
    """Each message by the version that it was written with, in whatever order they come."""
    topic = f"{NAMESPACE}/evolving"

    def theirs() -> list[float]:
        schema = AvroSchema(None, record_of(Priced))
        consumer = stock.subscribe(topic, "theirs", schema=schema, initial_position=pulsar.InitialPosition.Earliest)
        return [consumer.receive(10_000).value()["price"] for _ in range(3)]

    async with (
        client.producer(topic, schema=magnetar.Avro(Order)) as old,
        client.producer(topic, schema=magnetar.Avro(Priced)) as new,
    ):
        await old.send(Order(1, "a"))
        await new.send(Priced(2, "b", 1.5))
        await old.send(Order(3, "c"))
        async with client.reader(topic, magnetar.EARLIEST, schema=magnetar.Avro(Priced)) as reader:
            values = [(await reader.read(timeout_s=10)).value for _ in range(3)]
        assert values == [Priced(1, "a", 9.5), Priced(2, "b", 1.5), Priced(3, "c", 9.5)]
        async with client.consumer(topic, "old", schema=magnetar.Avro(Order), initial="earliest") as consumer:
            messages = await consumer.receive_batch(3, timeout_s=10)
        assert [message.value for message in messages] == [Order(1, "a"), Order(2, "b"), Order(3, "c")]
        assert await asyncio.to_thread(theirs) == [9.5, 1.5, 9.5]


async def test_a_schema_that_does_not_follow_is_refused(client: magnetar.Client) -> None:
    topic = f"{NAMESPACE}/strict"
    async with client.producer(topic, schema=magnetar.Avro(Order)):
        for schema in (magnetar.Avro(Other), magnetar.Json(Order), magnetar.STRING):
            with pytest.raises(errors.IncompatibleSchema):
                await client.create_producer(topic, schema=schema)


@dataclasses.dataclass
class Other:
    number: str


async def test_protobuf_is_read_by_both(client: magnetar.Client, stock: pulsar.Client) -> None:
    topic = f"{NAMESPACE}/protobuf"

    def theirs() -> type_pb2.Type:
        schema = ProtobufNativeSchema(type_pb2.Type)
        consumer = stock.subscribe(topic, "theirs", schema=schema, initial_position=pulsar.InitialPosition.Earliest)
        value = consumer.receive(10_000).value()
        stock.create_producer(topic, schema=schema).send(type_pb2.Type(name="theirs"))
        assert isinstance(value, type_pb2.Type)
        return value

    async with (
        client.producer(topic, schema=magnetar.Protobuf(type_pb2.Type)) as producer,
        client.consumer(topic, "ours", schema=magnetar.Protobuf(type_pb2.Type)) as consumer,
    ):
        await producer.send(type_pb2.Type(name="ours", oneofs=["a"]))
        assert await asyncio.to_thread(theirs) == type_pb2.Type(name="ours", oneofs=["a"])
        assert [message.value.name for message in await received(consumer, 2)] == ["ours", "theirs"]


async def test_a_pair_with_its_key_outside_is_found_by_that_key(client: magnetar.Client) -> None:
    topic = f"{NAMESPACE}/pairs"
    schema = magnetar.KeyValue(magnetar.STRING, magnetar.Avro(Order))
    async with client.producer(topic, schema=schema) as producer, client.consumer(topic, "s", schema=schema) as consumer:
        await producer.send(("customer-7", Order(1, "a")))
        await producer.send(("customer-7", None))
        messages = await received(consumer, 2)
        assert [message.value for message in messages] == [("customer-7", Order(1, "a")), ("customer-7", None)]
        assert [message.key for message in messages] == [b"customer-7"] * 2 and messages[1].null_value
        with pytest.raises(errors.IncompatibleSchema):
            await client.create_producer(topic, schema=magnetar.KeyValue(magnetar.STRING, magnetar.Avro(Other)))


class TheirNumbers(Schema):  # type: ignore[misc]
    """Apache's client for Python has no primitive schemas of its own: the client in C++ below it declares them all the same."""

    def __init__(self, kind: Any, form: str) -> None:
        super().__init__(int, kind, "", "numbers")
        self._form = form

    def encode(self, value: Any) -> bytes:
        return struct.pack(self._form, value)

    def decode(self, data: bytes) -> Any:
        return struct.unpack(self._form, data)[0]


@pytest.mark.parametrize(
    ("name", "form", "value"),
    [
        ("INT8", ">b", -7),
        ("INT16", ">h", -700),
        ("INT32", ">i", -70_000),
        ("INT64", ">q", -(1 << 40)),
        ("FLOAT", ">f", 1.5),
        ("DOUBLE", ">d", -0.1),
    ],
)
async def test_numbers_are_read_by_both(client: magnetar.Client, stock: pulsar.Client, name: str, form: str, value: Any) -> None:
    topic, schema = f"{NAMESPACE}/{name.lower()}", getattr(magnetar, name)

    def theirs() -> Any:
        their_schema = TheirNumbers(getattr(_pulsar.SchemaType, name), form)
        consumer = stock.subscribe(topic, "theirs", schema=their_schema, initial_position=pulsar.InitialPosition.Earliest)
        stock.create_producer(topic, schema=their_schema).send(value)
        return [consumer.receive(10_000).value() for _ in range(2)]

    async with client.producer(topic, schema=schema) as producer, client.consumer(topic, "ours", schema=schema) as consumer:
        await producer.send(value)
        assert await asyncio.to_thread(theirs) == pytest.approx([value, value])
        assert [message.value for message in await received(consumer, 2)] == pytest.approx([value, value])


async def test_a_topic_of_a_primitive_takes_no_other(client: magnetar.Client) -> None:
    topic = f"{NAMESPACE}/dates"
    async with client.producer(topic, schema=magnetar.LOCAL_DATE) as producer:
        await producer.send(datetime.date(2026, 11, 26))
        for schema in (magnetar.DATE, magnetar.INT64, magnetar.STRING):
            with pytest.raises(errors.IncompatibleSchema):
                await client.create_producer(topic, schema=schema)


async def test_auto_consume_reads_what_stock_clients_wrote(client: magnetar.Client, stock: pulsar.Client) -> None:
    """One consumer of three topics with a schema each."""

    def theirs() -> None:
        stock.create_producer(f"{NAMESPACE}/auto-avro", schema=AvroSchema(TheirOrder)).send(TheirOrder(number=3, customer="a"))
        stock.create_producer(f"{NAMESPACE}/auto-json", schema=JsonSchema(TheirOrder)).send(TheirOrder(number=4, customer="b"))
        stock.create_producer(f"{NAMESPACE}/auto-string", schema=StringSchema()).send("c")
        stock.create_producer(f"{NAMESPACE}/auto-bytes").send(b"d")

    topics = [f"{NAMESPACE}/auto-{kind}" for kind in ("avro", "json", "string", "bytes")]
    async with client.consumer(topics, "s", schema=magnetar.AUTO_CONSUME) as consumer:
        await asyncio.to_thread(theirs)
        values = {message.topic.rpartition("-")[2]: message.value for message in await received(consumer, 4)}
    assert values == {"avro": {"number": 3, "customer": "a"}, "json": {"number": 4, "customer": "b"}, "string": "c", "bytes": b"d"}


async def test_auto_produce_sends_bytes_of_the_schema_that_the_topic_has(client: magnetar.Client, stock: pulsar.Client) -> None:
    topic = f"{NAMESPACE}/auto-produced"
    order = magnetar.Avro(Order).encode(Order(5, "e"))
    async with client.producer(topic, schema=magnetar.Avro(Order)):
        pass

    def theirs() -> Any:
        consumer = stock.subscribe(topic, "theirs", schema=AvroSchema(TheirOrder), initial_position=pulsar.InitialPosition.Earliest)
        return consumer.receive(10_000).value().customer

    async with client.producer(topic, schema=magnetar.AUTO_PRODUCE_BYTES) as producer:
        await producer.send(order)
        with pytest.raises(errors.InvalidValue, match="not a Order"):
            await producer.send(b"")
    assert await asyncio.to_thread(theirs) == "e"
    async with client.producer(f"{NAMESPACE}/auto-new", schema=magnetar.AUTO_PRODUCE_BYTES) as producer:
        await producer.send(b"anything: the topic has no schema")


async def test_automatic_schemas_are_for_one_side(client: magnetar.Client) -> None:
    with pytest.raises(errors.InvalidValue, match="AUTO_CONSUME is for consumers"):
        await client.create_producer(f"{NAMESPACE}/t", schema=magnetar.AUTO_CONSUME)
    with pytest.raises(errors.InvalidValue, match="AUTO_PRODUCE_BYTES is for producers"):
        await client.subscribe(f"{NAMESPACE}/t", "s", schema=magnetar.AUTO_PRODUCE_BYTES)
