"""Streams of the audit log over our API: who may set them, where they begin, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest

from tenants import actions
from tenants.models import AuditRecord
from tests.tenants.world import World
from workers.audit_streams.models import AuditStream

AT = "/api/v1/tenants/acme/audit/stream"
PLATFORM = "/api/v1/audit/stream"
HOOK = {"url": "https://hook.example/in"}


def test_an_owner_sets_changes_and_removes_it(world: World, caller: Any) -> None:
    owner = caller("olga")
    assert owner("GET", AT).status_code == 404
    answer = owner("PUT", AT, HOOK)
    assert answer.status_code == 200, answer.content
    made = answer.json()
    newest = AuditRecord.unscoped.filter(tenant="acme").order_by("-id").first()
    assert newest is not None and newest.action == "audit_stream.set"
    assert made["sent_id"] == made["newest_id"] == newest.id, "it begins with what is written from now on"
    again = owner("PUT", AT, HOOK).json()
    assert (again["secret"], again["sent_id"]) == (made["secret"], made["sent_id"]) and again["newest_id"] > made["newest_id"]
    moved = owner("PUT", AT, {"url": "https://elsewhere.example/", "from_oldest": True}).json()
    assert moved["secret"] != made["secret"] and moved["sent_id"] == 0
    assert owner("DELETE", AT).status_code == 204
    assert owner("DELETE", AT).status_code == 404
    texts = str(list(AuditRecord.unscoped.filter(action__startswith="audit_stream.").values_list("before", "after")))
    assert "hook.example" in texts and made["secret"] not in texts and "/in" not in texts, "a URL may hold a secret"


@pytest.mark.parametrize("who", ["tom", "sam"])
def test_nobody_else_sets_or_sees_it(world: World, caller: Any, who: str) -> None:
    """A member without the right, and the owner of another tenant."""
    caller("olga")("PUT", AT, HOOK)
    other = caller(who)
    for method, body in (("GET", None), ("PUT", HOOK), ("DELETE", None)):
        assert other(method, AT, body).status_code in (403, 404)
    assert caller("olga")("GET", PLATFORM).status_code == 403
    assert caller("olga")("PUT", PLATFORM, HOOK).status_code == 403
    assert AuditStream.unscoped.count() == 1


def test_the_platform_has_one_of_everything(world: World, call: Any) -> None:
    assert call("PUT", PLATFORM, HOOK | {"from_oldest": True}).json()["sent_id"] == 0
    assert call("GET", PLATFORM).json()["newest_id"] == AuditRecord.unscoped.order_by("-id").values_list("id", flat=True)[0]
    assert call("DELETE", PLATFORM).status_code == 204


@pytest.mark.parametrize("url", ["", "ftp://hook.example/", "https://user:pass@hook.example/", "http://[::1"])
def test_a_url_that_is_none_is_refused(call: Any, url: str) -> None:
    assert call("PUT", AT, {"url": url}).status_code == 400


TOPIC = {"topic": "persistent://acme/orders/audit"}


def test_an_owner_streams_to_a_topic_of_the_tenant(world: World, caller: Any) -> None:
    owner = caller("olga")
    made = owner("PUT", AT, TOPIC)
    assert made.status_code == 200, made.content
    assert (made.json()["url"], made.json()["topic"]) == ("", TOPIC["topic"])
    newest = AuditRecord.unscoped.filter(action="audit_stream.set").latest("id")
    assert newest.after == {**TOPIC, "oldest": False}
    moved = owner("PUT", AT, HOOK).json()
    assert (moved["url"], moved["topic"], moved["sent_id"]) == (HOOK["url"], "", made.json()["sent_id"])
    assert AuditRecord.unscoped.filter(action="audit_stream.set").latest("id").before == TOPIC


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({**HOOK, **TOPIC}, 400),
        ({}, 400),
        ({"topic": "persistent://other/things/t"}, 400),
        ({"topic": "non-persistent://acme/orders/t"}, 400),
        ({"topic": "persistent://acme/orders/t-partition-0"}, 400),
        ({"topic": "persistent://acme/orders/__change_events"}, 400),
        ({"topic": "orders/t"}, 400),
        ({"topic": "persistent://acme/missing/t"}, 404),
    ],
)
def test_a_target_that_is_none_is_refused(world: World, caller: Any, body: dict[str, str], status: int) -> None:
    assert caller("olga")("PUT", AT, body).status_code == status
    assert not AuditStream.unscoped.exists()


def test_who_may_not_publish_there_cannot_have_the_platform_do_it(world: World, caller: Any) -> None:
    actions.set_custom_role(world.actor("olga"), "acme", "auditor", ["tenant_admin", "audit_read"], "Reads the log.")
    actions.set_member(world.actor("olga"), "acme", "tom", "auditor")
    tom = caller("tom")
    assert tom("PUT", AT, HOOK).status_code == 200
    assert tom("PUT", AT, TOPIC).status_code == 403
    assert AuditStream.unscoped.get().topic == ""


def test_the_platforms_goes_to_any_topic(world: World, call: Any) -> None:
    assert call("PUT", PLATFORM, {"topic": "persistent://other/things/audit"}).json()["topic"] == "persistent://other/things/audit"
