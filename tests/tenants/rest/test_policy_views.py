"""Policies of topics over our API, the policies in force at each level, and previews of a change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.policies.registry import ENFORCED
from tenants import actions
from tenants.models import AuditRecord, TopicPolicies
from tests.tenants.world import Caller, World

TOPIC = "persistent://acme/orders/t"
NAMESPACE = "/api/v1/tenants/acme/namespaces/orders"
AT = f"{NAMESPACE}/topics/t"
OF_SUBSCRIPTION = f"{AT}/subscriptions/s"
RATE = {"subscription_dispatch_rate_messages": 7}


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.broker.add(TOPIC)


@pytest.fixture
def olga(caller: Callable[[str], Caller]) -> Caller:
    return caller("olga")


def in_force(call: Caller, at: str) -> dict[str, dict[str, Any]]:
    answer = call("GET", f"{at}/policies/in-force")
    assert answer.status_code == 200, answer.content
    return {one["name"]: one for one in answer.json()["policies"]}


def test_policies_of_a_topic(olga: Caller, world: World) -> None:
    assert olga("GET", f"{AT}/policies").json() == {}
    assert olga("PATCH", f"{AT}/policies", {"message_ttl_s": 60, "deduplication": True}).json() == {
        "message_ttl_s": 60,
        "deduplication": True,
    }
    assert olga("PUT", f"{AT}/policies", {"message_ttl_s": 90}).json() == {"message_ttl_s": 90}
    assert olga("GET", f"{AT}/policies").json() == {"message_ttl_s": 90}
    assert olga("PATCH", f"{AT}/policies", {"message_ttl_s": None}).json() == {}
    assert not TopicPolicies.unscoped.exists()


def test_policies_of_a_subscription(olga: Caller, world: World) -> None:
    assert olga("PATCH", f"{OF_SUBSCRIPTION}/policies", RATE).json() == RATE
    assert olga("GET", f"{OF_SUBSCRIPTION}/policies").json() == RATE
    assert olga("GET", f"{AT}/policies").json() == {}
    refused = olga("PATCH", f"{OF_SUBSCRIPTION}/policies", {"message_ttl_s": 5})
    assert (refused.status_code, "cannot be set on a subscription" in refused.json()["detail"]) == (412, True)
    assert olga("PUT", f"{OF_SUBSCRIPTION}/policies", {}).json() == {}
    assert not TopicPolicies.unscoped.exists()


def test_each_policy_in_force_says_where_it_comes_from_and_what_it_means(olga: Caller, world: World) -> None:
    olga("PATCH", f"{NAMESPACE}/policies", {"message_ttl_s": 604_800, "max_producers_per_topic": 3})
    olga("PATCH", f"{AT}/policies", {"message_ttl_s": 3_600})
    found = in_force(olga, AT)
    assert list(found) == list(ENFORCED)
    ttl = found["message_ttl_s"]
    assert (ttl["value"], ttl["text"], ttl["unit"], ttl["level"]) == (3_600, "after 1 h", "seconds", "topic")
    assert (ttl["set"], ttl["levels"], ttl["pulsar"]) == (
        {"topic": 3_600, "namespace": 604_800},
        ["topic", "namespace", "tenant"],
        "messageTTL",
    )
    assert ttl["meaning"].startswith("A message that is not acknowledged within this time")
    assert (found["max_producers_per_topic"]["value"], found["max_producers_per_topic"]["level"]) == (3, "namespace")
    assert found["deduplication"]["level"] == "broker"
    assert in_force(olga, NAMESPACE)["message_ttl_s"]["text"] == "after 7 d"


def test_the_policies_in_force_for_a_subscription(olga: Caller, world: World) -> None:
    olga("PATCH", f"{NAMESPACE}/policies", {"subscription_dispatch_rate_messages": 50})
    olga("PATCH", f"{OF_SUBSCRIPTION}/policies", RATE)
    found = in_force(olga, OF_SUBSCRIPTION)
    assert {next(iter(one["levels"])) for one in found.values()} == {"subscription"}
    assert (found["subscription_dispatch_rate_messages"]["value"], found["subscription_dispatch_rate_messages"]["level"]) == (
        7,
        "subscription",
    )
    assert in_force(olga, AT)["subscription_dispatch_rate_messages"]["value"] == 50


@pytest.mark.parametrize("at", [NAMESPACE, AT])
def test_a_preview_changes_nothing(olga: Caller, world: World, at: str) -> None:
    for _ in range(3):
        world.broker.connect_producer(TOPIC)
    before = AuditRecord.unscoped.count()
    answer = olga("POST", f"{at}/policies/preview", {"max_producers_per_topic": 1})
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert found["effects"] == [
        {
            "policy": "max_producers_per_topic",
            "topic": TOPIC,
            "subscription": "",
            "affected": 2,
            "sentence": "2 producers of 3 would be refused when connecting again",
        }
    ]
    assert (found["effects_count"], found["topics_looked_at"], found["topics_left_out"]) == (1, 1, 0)
    assert olga("GET", f"{at}/policies").json() == {}
    assert AuditRecord.unscoped.count() == before


@pytest.mark.parametrize("at", [NAMESPACE, AT, OF_SUBSCRIPTION])
@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"nonsense": 1}, 400, "invalid_value"),
        ({"subscription_dispatch_rate_messages": "fast"}, 400, "invalid_value"),
        ({"replicator_dispatch_rate_messages": 1}, 412, "policy_not_enforced"),
    ],
)
def test_a_preview_refuses_what_setting_refuses(
    olga: Caller, world: World, at: str, changes: dict[str, Any], status: int, code: str
) -> None:
    answer = olga("POST", f"{at}/policies/preview", changes)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_topics_and_namespaces_that_are_not_there(olga: Caller, world: World) -> None:
    for at in (f"{NAMESPACE}/topics/missing", "/api/v1/tenants/acme/namespaces/nowhere/topics/t"):
        for method, path in (
            ("GET", "policies"),
            ("PATCH", "policies"),
            ("GET", "policies/in-force"),
            ("POST", "policies/preview"),
        ):
            assert olga(method, f"{at}/{path}", {"message_ttl_s": 5}).status_code == 404, path


def test_who_may(world: World, caller: Callable[[str], Caller]) -> None:
    """Owners set, members read, and nobody else learns that there is anything."""
    writer = Caller(world.token("writer@acme"))
    actions.grant_permission(world.actor("olga"), "acme/orders", "writer@acme", ["produce", "consume"])
    for at in (AT, OF_SUBSCRIPTION):
        for method, path in (
            ("GET", "policies"),
            ("GET", "policies/in-force"),
            ("PUT", "policies"),
            ("PATCH", "policies"),
            ("POST", "policies/preview"),
        ):
            body = None if method == "GET" else RATE
            answers = {who: caller(who)(method, f"{at}/{path}", body).status_code for who in ("tom", "sam")}
            assert answers == {"tom": 200 if method == "GET" else 403, "sam": 404}, (method, path)
            assert writer(method, f"{at}/{path}", body).status_code == 403
    assert caller("tom")("POST", f"{NAMESPACE}/policies/preview", RATE).status_code == 403
    assert caller("sam")("POST", f"{NAMESPACE}/policies/preview", RATE).status_code == 404
    assert caller("sam")("GET", f"{NAMESPACE}/policies/in-force").status_code == 404
    assert not TopicPolicies.unscoped.exists()
