"""The recycle bin over our API: what goes there, who sees it, and that a topic comes back with its policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tenants import actions
from tenants.models import AuditRecord, TopicPolicies, User
from tests.tenants.world import Caller, World

TOPIC = "persistent://acme/orders/t"
NAMESPACE = "/api/v1/tenants/acme/namespaces/orders"
BIN = f"{NAMESPACE}/recycle-bin"
AT_TOPIC = f"{NAMESPACE}/topics/t"
ADMIN = "/admin/v2/persistent/acme/orders"
POLICY = {"recycle_bin_retention_hours": 24}


@pytest.fixture
def olga(world: World) -> Caller:
    world.broker.add(TOPIC, "s")
    caller = Caller(user=User.objects.get(username="olga"))
    assert caller("PATCH", f"{NAMESPACE}/policies", POLICY).status_code == 200
    return caller


def items(caller: Caller) -> list[dict[str, Any]]:
    answer = caller("GET", BIN)
    assert answer.status_code == 200, answer.content
    listed: list[dict[str, Any]] = answer.json()["items"]
    return listed


@pytest.mark.parametrize("address", [AT_TOPIC, f"{ADMIN}/t"])
def test_a_deleted_topic_comes_back_with_what_was_set_on_it(world: World, olga: Caller, address: str) -> None:
    world.broker.publish(TOPIC, b"kept")
    assert olga("PATCH", f"{AT_TOPIC}/policies", {"message_ttl_s": 77}).status_code == 200
    assert olga("PATCH", f"{AT_TOPIC}/subscriptions/s/policies", {"subscription_dispatch_rate_messages": 5}).status_code == 200
    before = world.broker.state["topic", TOPIC]
    assert olga("DELETE", f"{address}?force=true").status_code == 204
    assert olga("GET", AT_TOPIC).status_code == 404 and not TopicPolicies.unscoped.exists()
    (item,) = items(olga)
    assert (item["topic"], item["deleted_by"], item["partitions"]) == (TOPIC, "user:olga", 0) and item["storage_bytes"] > 0
    record = AuditRecord.unscoped.get(action="topic.delete")
    assert record.after == {"force": True, "recycle_id": item["recycle_id"]}
    at = f"{BIN}/{item['recycle_id']}"
    assert olga("GET", at).json() == item

    told = olga("POST", f"{at}/restore?dry_run=true").json()
    affected = {"partitions": 0, "storage_bytes": item["storage_bytes"]}
    outcome = {"action": "topic.restore", "resource": TOPIC, "affected": affected, "moved": []}
    assert told == {"dry_run": True, **outcome} and len(items(olga)) == 1 and not TopicPolicies.unscoped.exists()
    assert olga("POST", f"{at}/restore").json() == {"dry_run": False, **outcome}
    assert items(olga) == [] and world.broker.backlog(TOPIC) == 1
    assert world.broker.state["topic", TOPIC] == before
    row = TopicPolicies.unscoped.get()
    assert (row.topic, row.policies, row.subscriptions) == (TOPIC, before["policies"], before["subscriptions"])
    assert AuditRecord.unscoped.filter(action="topic.restore", resource=TOPIC, role="user:olga", tenant="acme").count() == 1
    assert olga("POST", f"{at}/restore").status_code == 404


def test_grants_on_a_topic_hold_again(world: World, olga: Caller) -> None:
    assert olga("PUT", f"{AT_TOPIC}/permissions/app@acme", {"actions": ["consume"]}).status_code == 200
    olga("DELETE", AT_TOPIC)
    olga("POST", f"{BIN}/{items(olga)[0]['recycle_id']}/restore")
    assert olga("GET", f"{AT_TOPIC}/permissions").json()["permissions"] == {"app@acme": ["consume"]}


def test_a_partitioned_topic_comes_back_whole(world: World, olga: Caller) -> None:
    assert olga("POST", f"{NAMESPACE}/topics", {"name": "p", "partitions": 3}).status_code == 201
    assert olga("PATCH", f"{NAMESPACE}/topics/p/policies", {"message_ttl_s": 5}).status_code == 200
    assert olga("DELETE", f"{ADMIN}/p/partitions").status_code == 204
    (item,) = items(olga)
    assert item["partitions"] == 3
    assert olga("POST", f"{BIN}/{item['recycle_id']}/restore").status_code == 200
    assert olga("GET", f"{ADMIN}/p/partitions").json()["partitions"] == 3
    assert olga("GET", f"{NAMESPACE}/topics/p/policies").json() == {"message_ttl_s": 5}


def test_a_topic_that_took_the_name_keeps_it_and_its_policies(world: World, olga: Caller) -> None:
    olga("PATCH", f"{AT_TOPIC}/policies", {"message_ttl_s": 77})
    olga("DELETE", AT_TOPIC)
    at = f"{BIN}/{items(olga)[0]['recycle_id']}"
    world.broker.ahead_s = 5.0  # the next one is made at another time
    world.broker.add(TOPIC)
    olga("PATCH", f"{AT_TOPIC}/policies", {"message_ttl_s": 5})
    for address in (f"{at}/restore", f"{at}/restore?dry_run=true"):
        refused = olga("POST", address)
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert olga("GET", f"{AT_TOPIC}/policies").json() == {"message_ttl_s": 5} and len(items(olga)) == 1


def test_a_restore_that_fails_leaves_no_policies(world: World, olga: Caller) -> None:
    olga("PATCH", f"{AT_TOPIC}/policies", {"message_ttl_s": 77})
    olga("DELETE", AT_TOPIC)
    at = f"{BIN}/{items(olga)[0]['recycle_id']}"
    olga("PATCH", f"{NAMESPACE}/policies", {"max_topics_per_namespace": 1})
    world.broker.add(f"{TOPIC}2")
    assert olga("POST", f"{at}/restore").status_code == 412
    assert not TopicPolicies.unscoped.exists() and len(items(olga)) == 1


def test_a_purged_topic_is_gone(world: World, olga: Caller) -> None:
    olga("DELETE", AT_TOPIC)
    at = f"{BIN}/{items(olga)[0]['recycle_id']}"
    assert olga("DELETE", f"{at}?dry_run=true").json()["action"] == "topic.purge" and len(items(olga)) == 1
    assert olga("DELETE", at).status_code == 204
    assert items(olga) == [] and olga("GET", at).status_code == 404 and olga("DELETE", at).status_code == 404
    assert AuditRecord.unscoped.filter(action="topic.purge", resource=TOPIC).count() == 1


def test_without_the_policy_topics_are_deleted_at_once(world: World, olga: Caller) -> None:
    olga("PATCH", f"{NAMESPACE}/policies", {"recycle_bin_retention_hours": 0})
    assert olga("DELETE", AT_TOPIC).status_code == 204
    assert items(olga) == []
    assert AuditRecord.unscoped.get(action="topic.delete").after == {"force": False}


def test_the_bin_goes_with_its_namespace(world: World, olga: Caller) -> None:
    olga("DELETE", AT_TOPIC)
    assert olga("DELETE", f"{NAMESPACE}?force=true").status_code == 204
    assert olga("GET", BIN).status_code == 404
    (namespace,) = olga("GET", "/api/v1/tenants/acme/recycled-namespaces").json()["items"]
    assert olga("DELETE", f"/api/v1/tenants/acme/recycled-namespaces/{namespace['recycle_id']}").status_code == 204
    actions.create_namespace(world.actor("olga"), "acme/orders")
    assert items(olga) == []


@pytest.fixture
def viewer(world: World) -> Iterator[Caller]:
    actions.set_member(world.actor("olga"), "acme", "tom", "viewer")
    yield Caller(user=User.objects.get(username="tom"))


def test_a_viewer_sees_the_bin_and_changes_nothing(olga: Caller, viewer: Caller) -> None:
    olga("DELETE", AT_TOPIC)
    (item,) = items(viewer)
    at = f"{BIN}/{item['recycle_id']}"
    assert viewer("GET", at).status_code == 200
    for answer in (viewer("POST", f"{at}/restore"), viewer("POST", f"{at}/restore?dry_run=true"), viewer("DELETE", at)):
        assert answer.status_code == 403
    assert len(items(olga)) == 1


def test_a_stranger_finds_nothing(olga: Caller, world: World) -> None:
    olga("DELETE", AT_TOPIC)
    at = f"{BIN}/{items(olga)[0]['recycle_id']}"
    sam = Caller(user=User.objects.get(username="sam"))
    theirs = at.replace("/acme/namespaces/orders/", "/other/namespaces/things/")
    for address in (at, theirs):
        for answer in (sam("GET", address), sam("POST", f"{address}/restore"), sam("DELETE", address)):
            assert answer.status_code == 404
    assert sam("GET", BIN).status_code == 404
    assert len(items(olga)) == 1


def test_pages(olga: Caller, world: World) -> None:
    for index in range(3):
        world.broker.add(f"{TOPIC}{index}")
        olga("DELETE", f"{NAMESPACE}/topics/t{index}")
    first = olga("GET", f"{BIN}?limit=2").json()
    rest = olga("GET", f"{BIN}?limit=2&after={first['next']}").json()
    names = [item["topic"] for item in (*first["items"], *rest["items"])]
    assert sorted(names) == [f"{TOPIC}{index}" for index in range(3)] and rest["next"] is None
    assert olga("GET", f"{BIN}?after={'x' * 65}").status_code == 400
