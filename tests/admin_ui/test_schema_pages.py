"""Versions of schemas and ledgers on the pages of a topic."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admin_ui.schema_view import DiffLine, changes, laid_out, version_rows
from messaging.adminrpc.methods import SCHEMAS_ADD
from messaging.adminrpc.schemas import SchemaGiven, SchemaStored
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import PLACED

TOPIC = f"{NAMESPACE}/topics/placed"


def avro(*fields: str) -> bytes:
    rows = [{"name": name, "type": ["null", "string"], "default": None} for name in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": rows}).encode()


def stored(data: bytes, version: int = 0, **fields: Any) -> SchemaStored:
    return SchemaStored(version=version, type=fields.get("type", "AVRO"), data=data, properties={}, created_ms=1)


@pytest.fixture
def versions(broker: ConsoleBroker, world: ConsoleBroker) -> ConsoleBroker:
    broker.real.add(PLACED, "s")
    for fields in (("id",), ("id", "amount")):
        broker.perform(SCHEMAS_ADD, SchemaGiven(topic=PLACED, type="AVRO", data=avro(*fields), role="admin"))
    return broker


def test_what_changed_is_shown_line_by_line() -> None:
    lines = changes(stored(avro("id")), stored(avro("id", "amount")))
    assert lines is not None and DiffLine("added", '      "name": "amount",') in lines
    assert not [line for line in lines if line.kind == "removed" and "amount" in line.text]
    assert changes(stored(avro("id")), stored(avro("id"))) == []
    assert changes(stored(avro("id")), stored(avro(*(f"f{index}" for index in range(1_000))))) is None
    assert laid_out(stored(b"not json", type="STRING")) == ["type STRING", "not json"]


def test_versions_are_listed_with_who_uses_them(versions: ConsoleBroker, browse: Browse) -> None:
    users = {"publishers": [{"producerName": "shop", "schemaVersion": 1}, {"producerName": "old", "schemaVersion": 0}]}
    consumers = {"subscriptions": {"s": {"consumers": [{"consumerName": "c", "schemaVersion": 0}]}}}
    versions.stats[PLACED] = {**users, **consumers}
    page = text(browse("teammate"), f"{TOPIC}/schemas")
    assert "From version 0 to 1" in page and "1: shop" in page and "1: old" in page and "1: c of s" in page
    assert '<div class="added">' in page and "amount" in page
    page = text(browse("teammate"), f"{TOPIC}/schemas", version="0")
    assert "From version" not in page and "amount" not in page
    assert browse("teammate").get(f"{TOPIC}/schemas?version=7").status_code == 404
    assert browse("stranger").get(f"{TOPIC}/schemas").status_code == 404


def test_without_a_schema_and_without_the_broker(broker: ConsoleBroker, world: ConsoleBroker, browse: Browse) -> None:
    broker.real.add(PLACED, "s")
    assert "No schema" in text(browse("owner"), f"{TOPIC}/schemas")
    broker.cut("the broker does not answer")
    page = text(browse("owner"), f"{TOPIC}/schemas")
    assert "does not answer" in page and "No schema" not in page


def test_ledgers_and_positions(broker: ConsoleBroker, world: ConsoleBroker, browse: Browse) -> None:
    broker.real.add(PLACED, "s")
    broker.real.publish(PLACED, b"1", b"2")
    broker.real.roll(PLACED)
    broker.real.publish(PLACED, b"3")
    browse("owner").post(f"{TOPIC}/subscriptions/s/clear", {"confirm": "s"})
    page = text(browse("teammate"), f"{TOPIC}/storage")
    assert "written to" in page and "closed" in page and f">{broker.real.mark_delete(PLACED, 's')}<" in page
    broker.real.add_partitioned("persistent://acme/orders/parts", 2, "s")
    assert f"{NAMESPACE}/topics/parts-partition-1/storage" in text(browse("owner"), f"{NAMESPACE}/topics/parts/storage")
    assert browse("owner").get(f"{NAMESPACE}/non-persistent/brief/storage").status_code == 404
    broker.cut("the broker does not answer")
    assert "What is stored is unknown" in text(browse("owner"), f"{TOPIC}/storage")


def test_each_client_is_looked_at_once_however_many_versions_there_are() -> None:
    asked: list[int] = []

    class Client:
        name, subscription = "c", "s"

        @property
        def schema_version(self) -> int:
            asked.append(1)
            return 3

    client: Any = Client()
    versions = [SchemaStored(version=number, type="AVRO", data=b"", properties={}, created_ms=0) for number in range(50)]
    rows = {row.version: row for row in version_rows(versions, [client], [client])}
    assert (rows[3].producers, rows[3].consumers, rows[4].producers, len(asked)) == (["c"], ["c of s"], [], 2)
