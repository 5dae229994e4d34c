"""Changes of topic policies as the stock Python client reads them from `__change_events`, written by the worker of a platform."""

from __future__ import annotations

import io
import json

import pulsar
import pytest
from fastavro import parse_schema, schemaless_reader

from tests.compat.stock import Stock
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

WRITTEN_MS = 60_000  # a worker writes them at once, or, if it is busy, with its next scheduled run
EVENTS = "persistent://public/changed/__change_events"
AT = "/admin/v2/persistent/public/changed"


def test_a_reader_and_a_table_view_of_change_events(stock: Stock, standalone: Standalone) -> None:
    def ask(method: str, path: str, body: object = None) -> None:
        answer = standalone.http(method, path, body, standalone.admin_token)
        assert answer.status == 204, answer.text

    ask("PUT", "/admin/v2/namespaces/public/changed")
    for topic in ("a", "b"):
        ask("PUT", f"{AT}/{topic}")
    ask("POST", f"{AT}/a/maxProducers", 3)
    ask("POST", f"{AT}/b/maxConsumers", 5)
    ask("DELETE", f"{AT}/b/policies")
    client = stock.client(standalone.admin_token)
    reader = client.create_reader(EVENTS, pulsar.MessageId.earliest)
    first, second, third = (reader.read_next(WRITTEN_MS) for _ in range(3))
    answer = standalone.http("GET", "/admin/v2/schemas/public/changed/__change_events/schema", token=standalone.admin_token).json()
    assert answer["type"] == "AVRO" and first.schema_version() == second.schema_version()
    schema = parse_schema(json.loads(answer["data"]))
    event = schemaless_reader(io.BytesIO(first.data()), schema, None)
    assert isinstance(event, dict)
    about = event["topicPoliciesEvent"]
    assert (event["eventType"], event["actionType"], about["topic"]) == ("TOPIC_POLICY", "UPDATE", "a")
    assert about["policies"]["maxProducerPerTopic"] == 3
    keys = [message.partition_key().rpartition("/")[2] for message in (first, second, third)]
    assert keys == ["a", "b", "b"] and third.data() == b""
    view = client.create_table_view(EVENTS)
    eventually_sync(lambda: len(view) == 1)
    assert view.get("persistent://public/changed/a") == first.data()
    view.close()
    with pytest.raises(pulsar.AuthorizationError):
        stock.client().create_producer("persistent://public/default/__change_events")
