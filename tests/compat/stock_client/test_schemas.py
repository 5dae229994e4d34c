"""Schemas with the stock Python client and over Pulsar's admin API, as `pulsar-admin schemas` sends its requests."""

from __future__ import annotations

import json
from typing import Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, Float, Integer, JsonSchema, Record, String, StringSchema

from tests.compat.stock import Stock
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]
WAIT_MS = 20_000


class Reading(Record):  # type: ignore[misc]
    _avro_namespace = "test"
    sensor = String(required=True)
    value = Integer()


class Wider(Record):  # type: ignore[misc]
    _avro_namespace = "test"
    sensor = String(required=True)
    value = Integer()
    unit = String(default="C", required_default=True)


class Changed(Record):  # type: ignore[misc]
    _avro_namespace = "test"
    sensor = Float(required=True)


@pytest.fixture
def rest(standalone: Standalone, topic: str) -> Any:
    path = "/admin/v2/schemas/" + topic.partition("://")[2]

    def call(method: str, rest: str, body: Any = None) -> Any:
        return standalone.http(method, f"{path}/{rest}", body, standalone.admin_token)

    return call


@pytest.mark.parametrize("kind", [AvroSchema, JsonSchema])
def test_records_arrive_as_they_were_sent(stock: Stock, topic: str, kind: Any, rest: Any) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "s", schema=kind(Reading))
    producer = client.create_producer(topic, schema=kind(Reading))
    producer.send(Reading(sensor="a", value=7))
    value = consumer.receive(WAIT_MS).value()
    assert (value.sensor, value.value) == ("a", 7)
    stored = rest("GET", "schema").json()
    assert (stored["version"], stored["type"]) == (0, "AVRO" if kind is AvroSchema else "JSON")
    assert json.loads(stored["data"])["fields"][0]["name"] in ("sensor", "value")


def test_versions_evolve_and_incompatible_ones_are_refused(stock: Stock, topic: str, rest: Any) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "s", schema=AvroSchema(Wider))
    for record, schema in ((Wider(sensor="b", value=2, unit="F"), Wider), (Reading(sensor="a", value=1), Reading)):
        client.create_producer(topic, schema=AvroSchema(schema)).send(record)
    assert [consumer.receive(WAIT_MS).value().sensor for _ in range(2)] == ["b", "a"]
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=AvroSchema(Changed))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(topic, "other", schema=StringSchema())
    assert [schema["version"] for schema in rest("GET", "schemas").json()["getSchemaResponses"]] == [0, 1]


AVRO = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
AVRO_B = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}'
KEY_VALUE = {
    "type": "KEY_VALUE",
    "schema": json.dumps({"key": json.loads(AVRO), "value": ""}, separators=(",", ":")),
    "properties": {"kv.encoding.type": "INLINE", "key.schema.type": "AVRO", "value.schema.type": "STRING"},
}


def test_the_admin_api_answers_as_pulsars(rest: Any) -> None:
    """Paths, bodies and codes as a Pulsar 4.0 gave them."""
    given = {"type": "AVRO", "schema": AVRO, "properties": {"x": "y"}}
    assert rest("GET", "schema").status == 404
    for _ in range(2):
        made = rest("POST", "schema", given)
        assert (made.status, made.json()) == (200, {"version": {"version": 0}})
    stored = rest("GET", "schema").json()
    assert {key: stored[key] for key in ("version", "type", "data", "properties")} == {
        "version": 0,
        "type": "AVRO",
        "data": AVRO,
        "properties": {"x": "y"},
    }
    assert rest("GET", "schema/0").json() == stored
    assert rest("GET", "schema/7").status == 404
    assert rest("POST", "schema", {**given, "schema": AVRO_B}).status == 409
    fits, not_fits = rest("POST", "compatibility", given), rest("POST", "compatibility", {**given, "schema": AVRO_B})
    assert (fits.status, fits.json()) == (202, {"schemaCompatibilityStrategy": "FULL", "compatibility": True})
    assert (not_fits.status, not_fits.json()["compatibility"]) == (202, False) and "b" in not_fits.json()["reason"]
    assert rest("POST", "version", given).json() == {"version": 0}
    assert rest("POST", "version", {**given, "schema": AVRO_B}).json() == {"version": -1}
    assert rest("DELETE", "schema").json() == {"version": 1}
    assert rest("GET", "schema").status == 404
    assert rest("GET", "schemas").json() == {"getSchemaResponses": []}
    assert rest("POST", "schema", {**given, "schema": AVRO_B}).json() == {"version": {"version": 2}}
    assert rest("DELETE", "schema?force=true").json() == {"version": -1}
    made = rest("POST", "schema", KEY_VALUE)
    assert made.json() == {"version": {"version": 0}}
    assert rest("GET", "schema").json()["data"] == KEY_VALUE["schema"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"type": "AVRO", "schema": "nonsense", "properties": {}}, 422),
        ({"type": "FOO", "schema": "", "properties": {}}, 400),
        ({"type": "KEY_VALUE", "schema": "7", "properties": {}}, 422),
        ({"schema": ""}, 400),
        (None, 406),
    ],
)
def test_bad_schemas_get_clear_errors(rest: Any, body: Any, status: int) -> None:
    answer = rest("POST", "schema", body)
    assert answer.status == status and ("schema" in answer.text or "type is missing" in answer.text)


def test_a_second_tenant_learns_and_changes_nothing(standalone: Standalone, rest: Any, topic: str) -> None:
    """Reading needs the right to produce or consume, registering the right to produce, deleting a tenant's administrator."""
    token = standalone.admin_token
    rest("POST", "schema", {"type": "STRING", "schema": "", "properties": {}})
    assert standalone.http("POST", "/api/v1/tenants", {"name": "schema-spy"}, token).status in (201, 409)
    made = standalone.http("POST", "/api/v1/tenants/schema-spy/keys", {"name": topic[-8:]}, token)
    assert made.status == 201, made.text
    key = made.json()["token"]
    path = "/admin/v2/schemas/" + topic.partition("://")[2]
    body = {"type": "INT32", "schema": "", "properties": {}}
    for method, rest_of, given in [
        ("GET", "schema", None),
        ("GET", "schema/0", None),
        ("GET", "schemas", None),
        ("POST", "schema", body),
        ("POST", "compatibility", body),
        ("POST", "version", body),
        ("DELETE", "schema", None),
    ]:
        answer = standalone.http(method, f"{path}/{rest_of}", given, key)
        assert answer.status in (401, 403, 404) and "STRING" not in answer.text, (method, rest_of, answer.text)
    assert rest("GET", "schema").json()["type"] == "STRING"
