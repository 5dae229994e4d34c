"""Schemas: what an application registers, evolves, and is refused."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pulsar
from pulsar.schema import AvroSchema, Float, Integer, JsonSchema, Record, String, StringSchema

from tests.compat.clients.python.base import PLAN, feature, receive, same, topic

HAS_AVRO = find_spec("fastavro") is not None  # an extra of the client


def record(*names: str, sensor: Any = String) -> Any:
    """A record Reading with a sensor and other fields, whose default is null."""
    fields = {name: Integer() if name == "value" else String(required_default=True) for name in names}
    return type("Reading", (Record,), {"_avro_namespace": "test", "sensor": sensor(), **fields})


def refused(open_one: Any, **options: Any) -> None:
    try:
        open_one(**options)
    except pulsar.exceptions.IncompatibleSchema:
        return
    raise AssertionError("not refused")


def _through(client: Any, name: str, schema: Any, value: Any) -> Any:
    consumer = client.subscribe(topic(name), "s", schema=schema)
    client.create_producer(topic(name), schema=schema).send(value)
    return consumer.receive(8000).value()


@feature()
def primitive_schemas(client: Any) -> None:
    same(_through(client, "sc-string", StringSchema(), "ü"), "ü")
    refused(client.create_producer, topic=topic("sc-string"), schema=JsonSchema(record("value")))


@feature()
def json_schema(client: Any) -> None:
    reading = record("value")
    received = _through(client, "sc-json", JsonSchema(reading), reading(sensor="a", value=7))
    same([received.sensor, received.value], ["a", 7])
    refused(client.create_producer, topic=topic("sc-json"), schema=JsonSchema(record(sensor=Float)))


@feature(HAS_AVRO)
def avro_schema(client: Any) -> None:
    reading = record("value")
    received = _through(client, "sc-avro", AvroSchema(reading), reading(sensor="a", value=7))
    same([received.sensor, received.value], ["a", 7])


@feature(HAS_AVRO)
def schema_evolution(client: Any) -> None:
    first, wider = record("value"), record("value", "unit")
    before = client.subscribe(topic("sc-evolves"), "before", schema=AvroSchema(first))
    client.create_producer(topic("sc-evolves"), schema=AvroSchema(first)).send(first(sensor="old", value=1))
    client.create_producer(topic("sc-evolves"), schema=AvroSchema(wider)).send(wider(sensor="new", value=2, unit="F"))
    same([before.receive(8000).value().sensor for _ in range(2)], ["old", "new"])


@feature()
def incompatible_schema(client: Any) -> None:
    client.create_producer(topic("sc-strict"), schema=JsonSchema(record("value")))
    other = JsonSchema(record(sensor=Float))
    refused(client.create_producer, topic=topic("sc-strict"), schema=other)
    refused(client.subscribe, topic=topic("sc-strict"), subscription_name="s", schema=other)
    refused(client.subscribe, topic=topic("sc-strict"), subscription_name="s", schema=StringSchema())


@feature()
def without_a_schema(client: Any) -> None:
    consumer = client.subscribe(topic("sc-plain"), "s")
    client.create_producer(topic("sc-plain"), schema=StringSchema()).send("a")
    client.create_producer(topic("sc-plain")).send(b"b")
    same(receive(consumer, 2), ["a", "b"])


@feature()
def enforced_schemas(client: Any) -> None:
    client.create_producer(f"{PLAN['enforced']}py", schema=StringSchema())
    refused(client.create_producer, topic=f"{PLAN['enforced']}py")
    client.subscribe(f"{PLAN['enforced']}py", "s")
