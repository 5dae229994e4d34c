"""Messages, schemas and what is done to whole topics, over /api/v1."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from tenants.models import AuditRecord
from tests.tenants.world import Caller, World

TOPIC = "persistent://acme/orders/t"
N = "/api/v1/tenants/acme/namespaces/orders"
T = f"{N}/topics/t"
AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]})


@pytest.fixture
def olga(world: World, caller: Callable[[str], Caller]) -> Caller:
    """The owner of a topic with a subscription."""
    world.broker.add(TOPIC, "s")
    return caller("olga")


def test_messages_are_published_and_read_in_pages(world: World, olga: Caller) -> None:
    given = [{"text": "a", "key": "k", "properties": {"p": "v"}}, {"payload_base64": "AAE="}, {"text": "ü"}]
    sent = olga("POST", f"{T}/messages", {"messages": given})
    assert sent.status_code == 201, sent.content
    ids = sent.json()["message_ids"]
    page = olga("GET", f"{T}/messages?limit=2").json()
    rest = olga("GET", f"{T}/messages?limit=2&after={page['next']}").json()
    shown = page["items"] + rest["items"]
    assert [base64.b64decode(message["payload_base64"]) for message in shown] == [b"a", b"\0\1", "ü".encode()]
    assert [message["message_id"] for message in shown] == [":".join(each.split(":")[:2]) for each in ids]
    assert rest["next"] is None
    assert shown[0]["headers"]["X-Pulsar-partition-key"] == "k"
    assert olga("GET", f"{T}/messages/{ids[1]}").json() == shown[1]
    assert olga("GET", f"{T}/last-message").json()["message_id"] == ids[2]
    assert olga("GET", f"{T}/message-at?publish_time_ms=0").json()["message_id"].startswith(shown[0]["message_id"])
    assert world.broker.backlog(TOPIC) == 3
    assert AuditRecord.unscoped.filter(action="message.publish", after__messages=3).count() == 1
    assert AuditRecord.unscoped.filter(action="message.read").count() == 3


def test_messages_of_a_key_go_to_one_partition(world: World, olga: Caller) -> None:
    world.broker.add_partitioned("persistent://acme/orders/p", 3, "s")
    messages = [{"text": str(number), "key": "same"} for number in range(4)]
    ids = olga("POST", f"{N}/topics/p/messages", {"messages": messages}).json()["message_ids"]
    assert len({each.split(":")[2] for each in ids}) == 1
    spread = [{"text": str(number)} for number in range(3)]
    ids = olga("POST", f"{N}/topics/p/messages", {"messages": spread}).json()["message_ids"]
    assert {each.split(":")[2] for each in ids} == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "messages is empty"),
        ([{}], "messages[0]: give one of text and payload_base64"),
        ([{"text": "a"}, {"text": "a", "payload_base64": "AAE="}], "messages[1]: give one of"),
        ([{"payload_base64": "?"}], "messages[0].payload_base64 is no base64"),
        ([{"text": "a", "deliver_at_ms": 2**62}], "after the year 9999"),
        ([{"text": "a"}] * 101, "100"),
    ],
)
def test_what_cannot_be_published_is_refused_by_its_number(olga: Caller, messages: list[object], why: str) -> None:
    refused = olga("POST", f"{T}/messages", {"messages": messages})
    assert refused.status_code == 400 and why in refused.json()["detail"], refused.content


def test_who_may_only_consume_does_not_publish_and_the_other_way_round(world: World, olga: Caller) -> None:
    key = Caller(world.token("app@acme"))
    assert olga("PUT", f"{T}/permissions/app@acme", {"actions": ["produce"]}).status_code == 200
    assert key("POST", f"{T}/messages", {"messages": [{"text": "a"}]}).status_code == 201
    assert key("GET", f"{T}/messages").status_code == 403
    assert olga("PUT", f"{T}/permissions/app@acme", {"actions": ["consume"]}).status_code == 200
    assert key("GET", f"{T}/messages").status_code == 200
    assert key("POST", f"{T}/messages", {"messages": [{"text": "a"}]}).status_code == 403


def test_schemas_have_versions_that_are_checked_and_deleted(olga: Caller) -> None:
    assert olga("POST", f"{T}/schemas", {"type": "AVRO", "schema": AVRO}).json() == {"version": 0}
    wrong = {"type": "AVRO", "schema": AVRO.replace('"int"', '"string"')}
    verdict = olga("POST", f"{T}/schemas/check", wrong).json()
    assert not verdict["compatible"] and verdict["reason"]
    assert olga("POST", f"{T}/schemas/check", {"type": "AVRO", "schema": AVRO}).json()["compatible"]
    assert olga("POST", f"{T}/schemas", wrong).status_code == 409
    listed = olga("GET", f"{T}/schemas").json()
    assert [row["version"] for row in listed["items"]] == [0] and listed["next"] is None
    assert olga("GET", f"{T}/schemas/latest").json() == olga("GET", f"{T}/schemas/0").json() == listed["items"][0]
    assert olga("GET", f"{T}/schemas/7").status_code == 404
    assert olga("GET", f"{T}/schemas/last").status_code == 400
    assert olga("DELETE", f"{T}/schemas?force=true&dry_run=true").json()["affected"] == {"schema_versions": 1}
    assert olga("GET", f"{T}/schemas/latest").status_code == 200
    assert olga("DELETE", f"{T}/schemas?force=true").status_code == 204
    assert olga("GET", f"{T}/schemas").json()["items"] == []


@pytest.mark.parametrize("operation", ["unload", "truncate", "terminate"])
def test_a_dry_run_leaves_a_topic_as_it_is(world: World, olga: Caller, operation: str) -> None:
    olga("POST", f"{T}/messages", {"messages": [{"text": "a"}]})
    told = olga("POST", f"{T}/{operation}?dry_run=true").json()
    assert told["action"] == f"topic.{operation}" and told["affected"]["backlog_entries"] == 1 and told["affected"]["storage_bytes"]
    assert not AuditRecord.unscoped.filter(action=f"topic.{operation}").exists()
    assert olga("POST", f"{T}/messages", {"messages": [{"text": "b"}]}).status_code == 201
    assert world.broker.backlog(TOPIC) == 2
    assert olga("POST", f"{T}/{operation}").json()["dry_run"] is False
    assert AuditRecord.unscoped.filter(action=f"topic.{operation}").count() == 1
    assert world.broker.backlog(TOPIC) == (0 if operation == "truncate" else 2)
    published = olga("POST", f"{T}/messages", {"messages": [{"text": "c"}]})
    assert published.status_code == (409 if operation == "terminate" else 201)


def test_dry_runs_of_deletions_count_and_delete_nothing(world: World, olga: Caller, call: Caller) -> None:
    assert olga("DELETE", f"{T}?dry_run=true").json()["affected"]["subscriptions"] == 1
    assert olga("DELETE", f"{N}?dry_run=true").status_code == 409
    assert olga("DELETE", f"{N}?dry_run=true&force=true").json()["affected"]["topics"] == 1
    assert call("DELETE", "/api/v1/tenants/acme?dry_run=true").status_code == 409
    assert call("DELETE", "/api/v1/tenants/acme?dry_run=true&force=true").json()["affected"]["namespaces"] == 1
    key = olga("POST", "/api/v1/tenants/acme/keys", {"name": "k"}).json()["id"]
    assert olga("DELETE", f"/api/v1/tenants/acme/keys/{key}?dry_run=true").json()["revoked_at"] is None
    assert olga("GET", T).status_code == 200
    deleted = AuditRecord.unscoped.filter(action__endswith=".delete") | AuditRecord.unscoped.filter(action="key.revoke")
    assert not deleted.exists()


def test_a_topic_gets_more_partitions_and_other_properties(world: World, olga: Caller) -> None:
    world.broker.add_partitioned("persistent://acme/orders/p", 2)
    path = f"{N}/topics/p/properties"
    assert olga("PATCH", path, {"partitions": 3, "properties": {"a": "1", "b": "2"}}).json()["partitions"] == 3
    assert olga("PATCH", path, {"removed_property": "a"}).json()["properties"] == {"b": "2"}
    assert olga("GET", path).json() == {"topic": "persistent://acme/orders/p", "partitions": 3, "properties": {"b": "2"}}
    assert olga("PATCH", f"{T}/properties", {"partitions": 3}).status_code == 400
    assert olga("POST", f"{N}/topics/p/missing-partitions").status_code == 204


def test_compaction_is_asked_for_and_its_status_told(olga: Caller, told_workers: list[str]) -> None:
    assert olga("POST", f"{T}/compaction").status_code == 202
    assert told_workers
    assert olga("GET", f"{T}/compaction").json()["status"]
    assert olga("POST", f"{T}/trim").status_code == 204
    assert "ledgers" in olga("GET", f"{T}/internal-stats").json()["stats"]
