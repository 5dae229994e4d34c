"""ETags, `If-Match` and idempotency keys of /api/v1."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from messaging.errors import PreconditionFailed
from tenants import actions, idempotency
from tenants.models import AuditRecord, IdempotencyKey, Key
from tests.tenants.world import Caller, World

A = "/api/v1/tenants/acme"
N = f"{A}/namespaces/orders"


@pytest.fixture
def olga(world: World, caller: Callable[[str], Caller]) -> Caller:
    return caller("olga")


def keyed(who: Caller, method: str, path: str, body: object = None, key: str = "k1") -> Any:
    return who(method, path, body, **{"Idempotency-Key": key})


def test_what_did_not_change_is_not_sent_again(olga: Caller) -> None:
    first = olga("GET", N)
    tag = first.headers["ETag"]
    again = olga("GET", N, **{"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert olga("PATCH", f"{N}/policies", {"message_ttl_s": 60}).status_code == 200
    changed = olga("GET", N, **{"If-None-Match": tag})
    assert changed.status_code == 200 and changed.headers["ETag"] != tag


def test_a_change_of_something_older_is_refused(olga: Caller) -> None:
    path = f"{N}/policies"
    tag = olga("GET", path).headers["ETag"]
    assert olga("PATCH", path, {"message_ttl_s": 60}, **{"If-Match": tag}).status_code == 200
    refused = olga("PUT", path, {}, **{"If-Match": tag})
    assert refused.status_code == 412 and "read it again" in refused.json()["detail"]
    assert olga("GET", path).json() == {"message_ttl_s": 60}
    assert olga("DELETE", N, **{"If-Match": '"0"'}).status_code == 412
    assert olga("PATCH", path, {"message_ttl_s": 61}, **{"If-Match": "*"}).status_code == 200
    assert olga("POST", f"{N}/policies/preview", {}, **{"If-Match": tag}).status_code == 400  # there is nothing to read
    assert olga("DELETE", f"{N}/topics/none", **{"If-Match": "*"}).status_code == 412


def test_the_condition_is_looked_at_again_under_the_lock_of_the_change(world: World) -> None:
    def changed() -> None:
        raise PreconditionFailed("somebody was faster")

    actor = world.actor("olga")
    actor.conditions.append(changed)
    with pytest.raises(PreconditionFailed, match="faster"):
        actions.set_policies(actor, "acme/orders", {"message_ttl_s": 60})
    assert actions.set_policies(actor, "acme/orders", {}).policies == {}


def test_a_topic_is_deleted_on_the_condition_that_it_is_there_as_it_was(world: World, olga: Caller) -> None:
    """Its policies go after the broker has deleted it: the condition is about what was before that."""
    topic = f"{N}/topics/t"
    world.broker.add("persistent://acme/orders/t", "s")
    assert olga("PATCH", f"{topic}/policies", {"message_ttl_s": 60}).status_code == 200
    tag = olga("GET", topic).headers["ETag"]
    assert olga("DELETE", topic, **{"If-Match": '"0"'}).status_code == 412
    assert olga("DELETE", topic, **{"If-Match": tag}).status_code == 204
    assert olga("GET", topic).status_code == 404


def test_a_namespace_is_not_emptied_for_a_deletion_that_is_refused(world: World) -> None:
    def changed() -> None:
        raise PreconditionFailed("somebody was faster")

    world.broker.add("persistent://acme/orders/t", "s")
    actor = world.actor("olga")
    actor.conditions.append(changed)
    with pytest.raises(PreconditionFailed, match="faster"):
        actions.delete_namespace(actor, "acme/orders", force=True)
    assert "persistent://acme/orders/t" in world.broker.topics


def test_a_request_with_the_same_key_is_carried_out_once(world: World, olga: Caller) -> None:
    path = f"{N}/topics"
    first = keyed(olga, "POST", path, {"name": "t"})
    again = keyed(olga, "POST", path, {"name": "t"})
    assert first.status_code == again.status_code == 201
    assert first.content == again.content
    assert again.headers["Idempotent-Replayed"] == "true"
    assert AuditRecord.unscoped.filter(action="topic.create").count() == 1
    other = keyed(olga, "POST", path, {"name": "u"})
    assert other.status_code == 400 and "another request" in other.json()["detail"]
    assert keyed(olga, "POST", path, {"name": "u"}, "k2").status_code == 201
    assert set(world.broker.topics) == {"persistent://acme/orders/t", "persistent://acme/orders/u"}


def test_messages_are_published_once(world: World, olga: Caller) -> None:
    world.broker.add("persistent://acme/orders/t", "s")
    for _ in range(2):
        answer = keyed(olga, "POST", f"{N}/topics/t/messages", {"messages": [{"text": "a"}]})
        assert answer.status_code == 201
    assert world.broker.backlog("persistent://acme/orders/t") == 1


def test_keys_belong_to_whoever_sends_them(world: World, olga: Caller, call: Caller) -> None:
    assert keyed(olga, "POST", f"{N}/topics", {"name": "t"}).status_code == 201
    assert keyed(call, "POST", f"{N}/topics", {"name": "t"}).status_code == 409
    assert keyed(Caller(), "POST", f"{N}/topics", {"name": "t"}).status_code == 401


def test_what_failed_may_be_tried_again_and_secrets_are_not_kept(olga: Caller) -> None:
    assert keyed(olga, "POST", f"{N}/topics", {"name": ""}).status_code == 400
    assert keyed(olga, "POST", f"{N}/topics", {"name": "t"}).status_code == 201
    made = keyed(olga, "POST", f"{A}/keys", {"name": "app"}, "k2")
    assert made.status_code == 201 and made.json()["token"]
    again = keyed(olga, "POST", f"{A}/keys", {"name": "app"}, "k2")
    assert again.status_code == 409 and "not kept" in again.json()["detail"]
    assert Key.unscoped.filter(name="app").count() == 1
    assert not IdempotencyKey.objects.get(key="k2").content


def test_keys_are_forgotten_after_a_day_and_are_not_too_many(olga: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keyed(olga, "POST", f"{N}/topics", {"name": "t"}).status_code == 201
    monkeypatch.setattr(idempotency, "OF_OWNER_MAX", 1)
    assert keyed(olga, "POST", f"{N}/topics", {"name": "u"}, "k2").status_code == 429
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert keyed(olga, "POST", f"{N}/topics", {"name": "u"}, "k2").status_code == 201
    assert [row.key for row in IdempotencyKey.objects.all()] == ["k2"]


@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
def test_what_is_no_key_is_refused(olga: Caller, key: str) -> None:
    refused = keyed(olga, "POST", f"{N}/topics", {"name": "t"}, key)
    assert refused.status_code == 400 and "1 to 255" in refused.json()["detail"]


def test_while_the_first_request_runs_the_second_waits_for_nobody(olga: Caller) -> None:
    assert keyed(olga, "POST", f"{N}/topics", {"name": "t"}).status_code == 201
    IdempotencyKey.objects.update(status=None)
    running = keyed(olga, "POST", f"{N}/topics", {"name": "t"})
    assert running.status_code == 409 and "has not ended" in running.json()["detail"]
