"""The policy `masked_fields`: who may read but not consume sees masks, everywhere, and cannot search for what they hide."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from messaging.adminrpc.browse import BrowsedMessage, MessagesBrowse, MessagesBrowsed
from messaging.adminrpc.diagnosis import ExplainFinding, SubscriptionExplained
from messaging.adminrpc.methods import MESSAGES_BROWSE, SCHEMAS_GET, SCHEMAS_LIST, SUBSCRIPTIONS_EXPLAIN
from messaging.adminrpc.schemas import SchemaStored, SchemaVersions
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import NotFound
from messaging.payloads.masks import parse_masks
from tenants import actions
from tenants.browsing.pages import MessageRow
from tenants.browsing.pages import masked as masked_row
from tenants.models import AuditRecord
from tests.tenants.world import World
from workers.redrive.models import RedriveJob

NAMESPACE = "/api/v1/tenants/acme/namespaces/orders"
AT = f"{NAMESPACE}/topics/t/browse"
TOPIC = "persistent://acme/orders/t"
RULES = ["key", "property:secret*", "$.customer.email", "$..card"]


@pytest.fixture(autouse=True)
def masked(world: World) -> None:
    world.broker.add(TOPIC, "s")
    payload = b'{"id": 4711, "customer": {"email": "ada@x.com", "name": "Ada"}, "paid": [{"card": "4111"}]}'
    world.broker.publish_messages(TOPIC, OutgoingMessage(payload, {"secret-1": "s3", "kind": "x"}, key="ada@x.com"))
    world.broker.publish_messages(TOPIC, OutgoingMessage(b"ada@x.com, not JSON"))
    actions.set_member(world.actor("olga"), "acme", "tom", "viewer")
    actions.set_policies(world.actor("olga"), "acme/orders", {"masked_fields": RULES})


def test_who_may_consume_sees_everything(caller: Any) -> None:
    page = caller("olga")("GET", AT).json()
    assert page["items"][0]["value"]["customer"]["email"] == "ada@x.com" and not page["items"][0]["masked"]
    assert caller("olga")("GET", f"{AT}?key=ada@x.com").json()["items"]


def test_policy_masked_fields_hides_them_in_every_form_from_who_may_only_read(caller: Any) -> None:
    reader = caller("tom")
    for form in ("auto", "json", "text", "hex", "protobuf", "msgpack"):
        answer = reader("GET", f"{AT}?format={form}")
        assert answer.status_code == 200, answer.content
        text = answer.content.decode()
        assert not any(hidden in text for hidden in ("ada@x.com", "4111", "s3", "YWRhQHg")), form
        first, second = answer.json()["items"]
        assert first["value"] == {"id": 4711, "customer": {"email": "•••", "name": "Ada"}, "paid": [{"card": "•••"}]}
        assert (first["key"], first["properties"]) == ("•••", {"secret-1": "•••", "kind": "x"})
        assert (second["value"], second["masked"]) == ("•••", True), "what has no fields is masked whole"
        one = reader("GET", f"{AT}/{first['message_id']}?format={form}")
        assert one.status_code == 200 and "ada@x.com" not in one.content.decode()


def test_parts_and_numbered_fields_of_decoded_payloads_are_hidden(caller: Any) -> None:
    row = msgspec.convert(caller("olga")("GET", AT).json()["items"][0], MessageRow)
    row.schema_type, row.format, row.value = "KEY_VALUE", "key-value", {"key": "ada@x.com", "value": {"id": 1, "2": "4111"}}
    assert masked_row(row, parse_masks(RULES)).value == {"key": "•••", "value": {"id": 1, "2": "•••"}}
    row.schema_type, row.format, row.value = "PROTOBUF_NATIVE", "protobuf", {"id": 1, "7": "4111"}
    assert masked_row(row, parse_masks(RULES)).value == {"id": 1, "7": "•••"}


@pytest.mark.parametrize(("encoding", "known"), [("INLINE", True), ("SEPARATED", True), ("INLINE", False)])
def test_a_key_in_the_payload_is_hidden_where_keys_are(world: World, caller: Any, encoding: str, known: bool) -> None:
    """A `KEY_VALUE` schema has the key in the payload, unless it keeps it apart; of an unknown schema nobody knows."""
    actions.set_policies(world.actor("olga"), "acme/orders", {"masked_fields": ["key"]})
    value, key = b'{"id": 4711}', b"ada@x.com"
    inline = encoding == "INLINE"
    payload = len(key).to_bytes(4, "big") + key + len(value).to_bytes(4, "big") + value if inline else value
    named = {"key.schema.type": "STRING", "value.schema.type": "JSON", "kv.encoding.type": encoding}
    parts = (0).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"{}"
    stored = SchemaStored(version=0, type="KEY_VALUE", data=parts, properties=named, created_ms=1)

    def versions(_: object) -> SchemaVersions:
        if not known:
            raise NotFound("it was deleted")
        return SchemaVersions(versions=[stored])

    def browsed(asked: MessagesBrowse) -> MessagesBrowsed:
        message = BrowsedMessage(
            ledger_id=1, entry_id=0, batch_index=-1, publish_time_ms=1, payload=payload, size_bytes=len(payload), schema_version=0
        )
        return MessagesBrowsed(messages=[message], looked_at=1, ledger_id=1, entry_id=1, done=True)

    world.line.divert(SCHEMAS_GET, versions)
    world.line.divert(SCHEMAS_LIST, versions)
    world.line.divert(MESSAGES_BROWSE, browsed)
    expected: Any = {"key": "•••", "value": {"id": 4711}} if inline else {"id": 4711}
    for form in ("auto", "hex", "text", "json"):
        answer = caller("tom")("GET", f"{AT}?format={form}")
        assert answer.status_code == 200, answer.content
        (row,) = answer.json()["items"]
        assert "ada@x.com" not in answer.content.decode() and (row["payload_base64"] == "") is inline, form
        if not known:
            assert row["value"] == "•••"
        elif inline or form == "auto":
            assert row["value"] == expected, form
    assert caller("olga")("GET", AT).json()["items"][0]["payload_base64"], "who may consume sees it whole"
    for query in ("text=ada", "path=$.key&value=ada@x.com", "path=$.*&value=ada@x.com"):
        assert caller("tom")("GET", f"{AT}?{query}").status_code == (403 if inline and known else 200), query
    assert caller("tom")("GET", f"{AT}?path=$.value.id&value=4711").status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        "key=ada@x.com",
        "text=ada",
        "property=secret-1=s3",
        "path=$.customer.email&value=ada@x.com",
        "path=$.customer.*&compare=contains&value=ada",
        "path=$.paid[0].card&compare=exists",
    ],
)
def test_a_search_for_what_is_masked_is_refused_and_not_answered(caller: Any, query: str) -> None:
    answer = caller("tom")("GET", f"{AT}?{query}")
    assert answer.status_code == 403, answer.content
    assert "masked" in answer.json()["detail"]
    assert caller("olga")("GET", f"{AT}?{query}").json()["items"]


def test_a_search_for_the_rest_still_finds(caller: Any) -> None:
    for query in ("path=$.id&value=4711", "property=kind=x", "path=$.customer.name&value=Ada"):
        assert len(caller("tom")("GET", f"{AT}?{query}").json()["items"]) == 1, query


def test_messages_as_they_are_stored_are_refused(caller: Any) -> None:
    message_id = caller("tom")("GET", AT).json()["items"][0]["message_id"]
    topic = f"{NAMESPACE}/topics/t"
    ledger, entry = message_id.split(":")[:2]
    for path in (
        f"{topic}/messages",
        f"{topic}/messages/{ledger}:{entry}",
        f"{topic}/subscriptions/s/messages",
        "/admin/v2/persistent/acme/orders/t/subscription/s/position/1",
        f"/admin/v2/persistent/acme/orders/t/ledger/{ledger}/entry/{entry}",
        "/admin/v2/persistent/acme/orders/t/examinemessage",
    ):
        refused = caller("tom")("GET", path)
        assert refused.status_code in (401, 403) and "masked" in refused.content.decode(), (path, refused.content)
        assert caller("olga")("GET", path).status_code == 200, path


def test_dead_letters_are_masked_and_not_told_apart_by_what_is(world: World, caller: Any) -> None:
    letters = "persistent://acme/orders/t-s-DLQ"
    world.broker.add(letters)
    world.broker.publish_messages(letters, OutgoingMessage(b"x", {"secret-1": "s3", "REAL_TOPIC": TOPIC}, key="ada@x.com"))
    actions.set_member(world.actor("olga"), "acme", "tom", "operator")
    tom, at = caller("tom"), "/api/v1/tenants/acme/dead-letters"
    for path in (f"{at}?by=key", f"{at}?by=property&property=secret-1", f"{at}/messages"):
        answer = tom("GET", path)
        assert answer.status_code == 200 and "•••" in answer.content.decode(), answer.content
        assert not any(hidden in answer.content.decode() for hidden in ("ada@x.com", "s3"))
    assert tom("GET", f"{at}?key=ada@x.com").json()["left_out"][0]["why"].startswith("keys are masked")
    (refused,) = tom("POST", f"{at}/redrives", {"key": "ada@x.com"}).json()["not_started"]
    assert refused["why"].startswith("keys are masked")
    dry = tom("POST", f"{NAMESPACE}/topics/t-s-DLQ/redrives/dry-run", {"property_name": "secret-1", "property_value": "s3"})
    assert dry.status_code >= 400 and not RedriveJob.unscoped.exists()


def test_what_somebody_else_looks_for_is_masked_where_their_redrive_is_shown(world: World, caller: Any) -> None:
    letters = "persistent://acme/orders/t-s-DLQ"
    world.broker.add(letters)
    actions.set_member(world.actor("olga"), "acme", "tom", "operator")
    at = f"{NAMESPACE}/topics/t-s-DLQ/redrives"
    asked = {"key": "ada@x.com", "property_name": "secret-1", "property_value": "s3", "target": TOPIC}
    started = caller("olga")("POST", at, asked)
    assert started.status_code == 201 and started.json()["filter"]["key"] == "ada@x.com", started.content
    for path in (at, f"{at}/{started.json()['id']}", "/api/v1/tenants/acme/dead-letters/redrives"):
        answer = caller("tom")("GET", path).content.decode()
        assert "•••" in answer and "ada@x.com" not in answer and '"s3"' not in answer, path
        assert "ada@x.com" in caller("olga")("GET", path).content.decode()


def test_delayed_messages_are_not_changed_by_a_key_that_is_masked(world: World, caller: Any) -> None:
    olga, at = world.actor("olga"), f"{NAMESPACE}/topics/t/delayed"
    actions.set_custom_role(olga, "acme", "sender", ["produce", "message_read"], "Publishes, and looks.")
    actions.set_member(olga, "acme", "tom", "sender")
    for refused in (
        caller("tom")("DELETE", f"{at}?key=ada@x.com"),
        caller("tom")("PATCH", at, {"key": "ada@x.com", "delay_ms": 60_000}),
    ):
        assert refused.status_code == 403 and "masked" in refused.json()["detail"], refused.content
    assert caller("olga")("DELETE", f"{at}?key=ada@x.com").status_code == 200
    actions.set_policies(olga, "acme/orders", {"masked_fields": ["$..card"]})
    assert caller("tom")("DELETE", f"{at}?key=ada@x.com").status_code == 200, "keys are not masked any more"


def test_a_tenant_masks_in_all_its_namespaces_what_they_do_not_say_themselves(world: World, caller: Any) -> None:
    olga, tom, at = caller("olga"), caller("tom"), "/api/v1/tenants/acme/masked-fields"
    actions.set_policies(world.actor("olga"), "acme/orders", {"masked_fields": None})
    assert "ada@x.com" in tom("GET", AT).content.decode()
    assert olga("PUT", at, {"masked_fields": RULES}).json() == {"masked_fields": RULES}
    assert (tom("GET", at).json(), "ada@x.com" in tom("GET", AT).content.decode()) == ({"masked_fields": RULES}, False)
    assert AuditRecord.unscoped.filter(action="tenant.set_policies", resource="acme", role="user:olga").count() == 1
    assert olga("PUT", at, {"masked_fields": ["email"]}).status_code == 400, "it masks nothing"
    assert olga("PATCH", "/api/v1/tenants/acme/policies", {"message_ttl_s": 5}).status_code == 403, "and nothing else"
    assert tom("PUT", at, {"masked_fields": []}).status_code == 403
    assert caller("sam")("PUT", at, {"masked_fields": []}).status_code == 404
    actions.set_custom_role(world.actor("olga"), "acme", "support", ["message_read", "tenant_admin"], "Reads, and keeps people.")
    actions.set_member(world.actor("olga"), "acme", "tom", "support")
    assert caller("tom")("PUT", at, {"masked_fields": []}).status_code == 403, "nobody lifts their own masks"
    assert olga("PUT", at, {"masked_fields": []}).json() == {"masked_fields": []}
    assert "ada@x.com" in tom("GET", AT).content.decode()


def test_nobody_redrives_to_where_they_may_read_what_is_masked_for_them(world: World, caller: Any) -> None:
    olga, at = world.actor("olga"), f"{NAMESPACE}/topics/t/redrives"
    actions.set_custom_role(olga, "acme", "support", ["message_read", "operate"], "Reads, and keeps topics working.")
    actions.set_member(olga, "acme", "tom", "support")
    actions.create_namespace(olga, "acme/open")
    elsewhere = {"target": "persistent://acme/open/t"}
    for path in (at, f"{at}/dry-run"):
        refused = caller("tom")("POST", path, elsewhere)
        assert refused.status_code == 403 and "acme/open" in refused.json()["detail"], refused.content
    assert not RedriveJob.unscoped.exists()
    assert caller("tom")("POST", at, {"target": "persistent://acme/orders/again"}).status_code == 201
    actions.set_policies(olga, "acme/open", {"masked_fields": RULES})
    assert caller("tom")("POST", at, elsewhere).status_code == 201, "the same is masked there"
    actions.set_policies(olga, "acme/open", {"masked_fields": []})
    actions.set_member(olga, "acme", "tom", "operator")
    assert caller("tom")("POST", at, elsewhere).status_code == 201, "who reads nothing anywhere learns nothing"


def test_a_key_that_waits_is_masked_where_a_subscription_is_explained(world: World, caller: Any) -> None:
    sentence = "Key 'ada@x.com' waits until consumer 'c' has acknowledged what it holds of it."

    def explained(_: object) -> SubscriptionExplained:
        finding = ExplainFinding(reason="key_draining", sentence=sentence, remedy="", consumer="c", key="ada@x.com")
        return SubscriptionExplained(
            health="good", sentence=sentence, remedy="", findings=[finding],
            backlog_entries=1, delayed_entries=0, next_delayed_ms=None, message_ttl_s=0, mark_delete="0:0", read_position="0:1",
        )  # fmt: skip

    world.line.divert(SUBSCRIPTIONS_EXPLAIN, explained)
    path = f"{NAMESPACE}/topics/t/subscriptions/s/explain"
    assert "ada@x.com" in caller("olga")("GET", path).json()["sentence"]
    answer = caller("tom")("GET", path)
    assert answer.status_code == 200 and "ada@x.com" not in answer.content.decode()
    assert answer.json()["findings"][0]["key"] == "•••"


def test_rules_that_mask_nothing_are_refused(world: World, caller: Any) -> None:
    answer = caller("olga")("PATCH", f"{NAMESPACE}/policies", {"masked_fields": ["email"]})
    assert answer.status_code == 400 and "masks nothing" in answer.json()["detail"]


def test_who_may_not_consume_does_not_say_what_is_masked(world: World, caller: Any) -> None:
    olga = world.actor("olga")
    actions.set_custom_role(olga, "acme", "support", ["message_read", "namespace_admin"], "Reads, and sets policies.")
    actions.set_member(olga, "acme", "tom", "support")
    lifted: tuple[list[str] | None, ...] = ([], None)
    for rules in lifted:
        refused = caller("tom")("PATCH", f"{NAMESPACE}/policies", {"masked_fields": rules})
        assert refused.status_code == 403, refused.content
    assert "ada@x.com" not in caller("tom")("GET", AT).content.decode()
    assert caller("tom")("PATCH", f"{NAMESPACE}/policies", {"message_ttl_s": 60}).status_code == 200
    assert caller("olga")("PATCH", f"{NAMESPACE}/policies", {"masked_fields": []}).status_code == 200


# --- who read it


def test_the_audit_log_says_which_messages_somebody_was_shown(caller: Any) -> None:
    found = caller("tom")("GET", f"{AT}?path=$.id&value=4711").json()["items"]
    (record,) = AuditRecord.unscoped.filter(action="message.browse")
    assert record.after is not None and record.role == "user:tom"
    ledger, entry = found[0]["message_id"].split(":")[:2]
    assert (record.after["messages"], record.after["read"]) == (1, [f"{ledger}:{entry}"])


def test_a_continuation_that_somebody_made_up_is_recorded(caller: Any) -> None:
    tom, query = caller("tom"), "path=$.id&value=99"
    page = tom("GET", f"{AT}?{query}").json()
    assert AuditRecord.unscoped.filter(action="message.browse").count() == 1
    tom("GET", f"{AT}?{query}&after={page['end']}")
    assert AuditRecord.unscoped.filter(action="message.browse").count() == 1, "the search goes on, and showed nothing"
    tom("GET", f"{AT}?path=$.id&value=98&after={page['end']}")
    assert AuditRecord.unscoped.filter(action="message.browse").count() == 2, "it is another search"
    tom("GET", f"{AT}?{query}&after=-1.0.0.-1")
    assert AuditRecord.unscoped.filter(action="message.browse").count() == 3


def test_who_may_not_consume_makes_no_namespace_without_the_masks_of_the_tenant(world: World, caller: Any) -> None:
    """What is set on a namespace holds in place of what is set on its tenant: to make one was a way round."""
    actions.set_tenant_policies(world.actor("olga"), "acme", {"masked_fields": RULES})
    actions.set_member(world.actor("olga"), "acme", "tom", "operator")
    tom, at = caller("tom"), "/api/v1/tenants/acme/namespaces"
    for rules in ([], ["property:other"]):
        refused = tom("POST", at, {"name": "lifted", "policies": {"masked_fields": rules}})
        assert refused.status_code == 403, refused.content
    assert tom("POST", at, {"name": "plain"}).status_code == 201, "the masks of the tenant hold there"
    assert caller("olga")("POST", at, {"name": "open", "policies": {"masked_fields": []}}).status_code == 201
