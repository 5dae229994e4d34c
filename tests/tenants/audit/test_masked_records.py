"""What somebody looked for is in the audit log, and hidden there from whom the rules hide it elsewhere."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from tenants import actions
from tenants.actions import saved_views
from tenants.audit.export_lines import read_lines
from tenants.audit.verification import verify_part
from tenants.models import AuditRecord, SavedView, User
from tests.tenants.world import World

LOG = "/api/v1/tenants/acme/audit"
NAMESPACE = "/api/v1/tenants/acme/namespaces/orders"
TOPIC, LETTERS = "persistent://acme/orders/t", "persistent://acme/orders/t-s-DLQ"
BROWSE = f"{NAMESPACE}/topics/t/browse"
HIDDEN = ("ada@x.com", "ada%40x.com", "s3cret", "Xq-text", "Xq-card")
RULES = ["key", "property:secret*", "property:DEAD_LETTER_REASON", "$..card"]


@pytest.fixture(autouse=True)
def looked_for(world: World, caller: Any) -> None:
    """Who may read everything looks for what is masked for others."""
    for topic in (TOPIC, LETTERS):
        world.broker.add(topic, "s")
        world.broker.publish(topic, b'{"card": "Xq-card"}')
    olga = world.actor("olga")
    actions.set_policies(olga, "acme/orders", {"masked_fields": RULES})
    actions.set_custom_role(olga, "acme", "auditor", ["audit_read", "message_read"], "Reads the log, and messages.")
    actions.set_member(olga, "acme", "tom", "auditor")
    ask = caller("olga")
    for query in (
        "key=ada%40x.com&limit=7",
        "property=secret-1=s3cret",
        "text=Xq-text",
        "path=$.card&value=Xq-card",
        "property=kind=x",
    ):
        assert ask("GET", f"{BROWSE}?{query}").status_code == 200, query
    assert ask("GET", "/api/v1/tenants/acme/dead-letters?key=ada@x.com&reason=s3cret").status_code == 200
    assert ask("GET", f"{NAMESPACE}/topics/t/delayed?key=ada@x.com").status_code == 200
    wanted = {"key": "ada@x.com", "property_name": "secret-1", "property_value": "s3cret", "reason": "no Xq-text", "target": TOPIC}
    assert ask("POST", f"{NAMESPACE}/topics/t-s-DLQ/redrives", wanted).status_code == 201
    after = {"key": "ada@x.com", "messages": 1, "deliver_at_ms": None}
    actions.change.record(olga, "delayed.cancel", "acme", TOPIC, None, after)


def hidden_in(text: str) -> set[str]:
    return {hidden for hidden in HIDDEN if hidden in text}


def test_filters_on_what_is_masked_are_hidden_on_the_page_in_the_api_and_in_files(caller: Any) -> None:
    paths = (LOG, f"{LOG}/export", f"{LOG}/export?format=csv", "/tenants/acme/audit", "/tenants/acme/audit/export?format=jsonl")
    for path in paths:
        whole, shown = caller("olga")("GET", path), caller("tom")("GET", path)
        assert whole.status_code == shown.status_code == 200
        texts = [(b"".join(one) if one.streaming else one.content).decode() for one in (whole, shown)]
        assert hidden_in(texts[0]) == set(HIDDEN), path
        assert not hidden_in(texts[1]), path
        assert "limit=7" in texts[1] and "property=kind=x" in texts[1], "the rest is shown"
    items = caller("tom")("GET", LOG).json()["items"]
    (cancelled,) = [item for item in items if item["action"] == "delayed.cancel"]
    (redriven,) = [item for item in items if item["action"] == "redrive.start"]
    assert cancelled["after"] == {"key": "•••", "messages": 1, "deliver_at_ms": None} and cancelled["masked"]
    assert [redriven["after"]["filter"][name] for name in ("key", "property_value", "reason")] == ["•••"] * 3
    assert sum(item["masked"] for item in items) == 8
    of_file = list(csv.DictReader(io.StringIO(b"".join(caller("tom")("GET", f"{LOG}/export?format=csv")).decode())))
    assert [row["masked"] for row in of_file].count("true") == 8 and {row["masked"] for row in of_file} == {"true", ""}
    stored = AuditRecord.unscoped.get(action="redrive.start").after
    assert stored is not None and stored["filter"]["key"] == "ada@x.com", "the log keeps it"


def test_an_export_with_masks_is_verified_by_its_places_and_one_without_by_what_it_says(caller: Any) -> None:
    whole = verify_part(read_lines(b"".join(caller("olga")("GET", f"{LOG}/export")).splitlines()))
    lines = b"".join(caller("tom")("GET", f"{LOG}/export")).splitlines()
    shown = verify_part(read_lines(lines))
    assert (whole.intact, whole.masked, shown.intact, shown.masked) == (True, 0, True, 8)
    (place,) = [index for index, line in enumerate(lines) if b'"delayed.cancel"' in line]
    assert not verify_part(read_lines([*lines[: place - 1], *lines[place:]])).intact, "one is missing"
    assert not verify_part(read_lines([line.replace(b'"masked": true', b'"masked": false') for line in lines])).intact


def test_who_reads_no_messages_sees_no_keys_and_properties_in_the_log_without_any_rule(world: World, caller: Any) -> None:
    actions.set_policies(world.actor("olga"), "acme/orders", {"masked_fields": None})
    assert hidden_in(caller("tom")("GET", LOG).content.decode()) == {*HIDDEN, "ada%40x.com"}, "no rule hides them any more"
    actions.set_member(world.actor("olga"), "acme", "tom", "operator")
    text = caller("tom")("GET", LOG).content.decode()
    assert hidden_in(text) <= {"s3cret", "Xq-text"} and "no Xq-text" in text, "but why messages are dead letters"


def test_a_namespace_that_is_gone_hides_what_was_looked_for_in_it(world: World, caller: Any) -> None:
    after = {"key": "ada@x.com", "messages": 1, "deliver_at_ms": None}
    actions.change.record(world.actor("olga"), "delayed.cancel", "acme", "persistent://acme/gone/t", None, after)
    assert caller("tom")("GET", f"{LOG}?resource=persistent://acme/gone/t").json()["items"][0]["after"]["key"] == "•••"


def test_the_address_of_a_shared_view_hides_what_it_looks_for(world: World, caller: Any) -> None:
    olga = world.actor("olga")
    user = User.objects.get(username="olga")
    address = "/tenants/acme/namespaces/orders/topics/t/messages?key=eve%40x.com&limit=7#rows"
    saved_views.save_view(olga, user, "Of Eve", address, "acme", shared=True)
    saved_views.delete_view(olga, user, SavedView.objects.get().pk)
    whole, shown = (caller(person)("GET", LOG).json()["items"][:2] for person in ("olga", "tom"))
    hidden = address.replace("eve%40x.com", "•••")
    for items, seen, masked in ((whole, address, False), (shown, hidden, True)):
        assert [item["action"] for item in items] == ["view.delete", "view.save"]
        assert items[0]["before"] == {"address": seen} and items[1]["after"] == {"address": seen, "shared": True}
        assert [item["masked"] for item in items] == [masked] * 2 and ("eve" in str(items)) is not masked
