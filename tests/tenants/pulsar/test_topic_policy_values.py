"""Policies of single topics: which values they take, backlog quotas, who may set them, and what the audit log says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from messaging.errors import NotAuthorized, PolicyNotEnforced, PreconditionFailed, TopicNotFound
from messaging.policies.registry import ENFORCED, POLICIES
from messaging.protocol.names import parse_topic
from tenants import actions
from tenants.models import AuditRecord, TopicPolicies
from tests.tenants.topic_policies import AT, NAME, PATHS, TOPIC, example, put, told, value_of
from tests.tenants.world import Caller, World


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.broker.add(TOPIC)


@pytest.fixture
def call(world: World) -> Caller:
    return Caller(world.superuser_token)


@pytest.mark.parametrize(
    ("path", "value", "status"),
    [
        ("maxProducers", -1, 412),
        ("maxProducers", 0, 204),
        ("maxProducers", "x", 412),
        ("maxProducers", None, 412),
        ("retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 0}, 400),
        ("retention", {"retentionTimeInMinutes": -2, "retentionSizeInMB": 0}, 412),
        ("retention", {}, 204),
        ("maxMessageSize", 5 << 20, 204),
        ("maxMessageSize", (5 << 20) + 1, 412),
        ("maxMessageSize", -1, 412),
        ("maxMessageSize", 0, 204),
        ("retention", None, 204),
        ("subscriptionTypesEnabled", ["Nonsense"], 412),
        ("schemaCompatibilityStrategy", "NONSENSE", 412),
        ("deduplicationEnabled", "x", 412),
        ("deduplicationEnabled", None, 204),
        ("autoSubscriptionCreation", {"allowAutoSubscriptionCreation": True}, 204),
    ],
)
def test_values(call: Caller, world: World, path: str, value: Any, status: int) -> None:
    assert put(call, path, value).status_code == status


def test_time_to_live_comes_in_the_query(call: Caller, world: World) -> None:
    for query, status, then in (
        ("?messageTTL=60", 204, 60),
        ("?messageTTL=-1", 412, 60),
        ("?messageTTL=x", 404, 60),
        ("", 204, None),
    ):
        assert call("POST", f"{AT}/messageTTL{query}").status_code == status
        assert value_of(call("GET", f"{AT}/messageTTL")) == then


@pytest.mark.parametrize(("path", "value"), [("subscriptionTypesEnabled", []), ("schemaCompatibilityStrategy", "UNDEFINED")])
def test_a_value_that_says_nothing_unsets(call: Caller, world: World, path: str, value: Any) -> None:
    put(call, path, example(PATHS[path]))
    assert put(call, path, value).status_code == 204
    assert not TopicPolicies.unscoped.exists()


def test_a_topic_may_switch_off_what_its_namespace_switches_on(call: Caller, world: World) -> None:
    actions.set_policies(world.actor("olga"), "acme/orders", {"schema_enforced": True})
    put(call, "schemaValidationEnforced", False)
    assert value_of(call("GET", f"{AT}/schemaValidationEnforced?applied=true")) is False


def test_global_policies_are_refused(call: Caller, world: World) -> None:
    for method, path, body in (("GET", "maxProducers", None), ("POST", "maxProducers", 1), ("POST", "backlogQuota", {})):
        answer = call(method, f"{AT}/{path}?isGlobal=true", body)
        assert (answer.status_code, "isGlobal" in answer.json()["reason"]) == (412, True)


def test_a_policy_of_namespaces_cannot_be_set_on_a_topic(world: World) -> None:
    with pytest.raises(PreconditionFailed, match="cannot be set on a topic: set it on a namespace"):
        actions.set_topic_policies(world.actor("olga"), NAME, {"encryption_required": True})


@pytest.mark.parametrize("name", sorted(POLICIES.keys() - ENFORCED.keys()))
def test_what_is_not_enforced_is_refused_by_its_name(world: World, name: str) -> None:
    with pytest.raises(PolicyNotEnforced, match=name):
        actions.set_topic_policies(world.actor("olga"), NAME, {name: POLICIES[name].default})


# --- backlog quotas ----------------------------------------------------------------------------------------------------------


def test_backlog_quotas(call: Caller, world: World) -> None:
    assert call("GET", f"{AT}/backlogQuotaMap").json() == {}
    none = {"limit": -1, "limitSize": -1, "limitTime": -1, "policy": "producer_request_hold"}
    assert call("GET", f"{AT}/backlogQuotaMap?applied=true").json() == {"destination_storage": none, "message_age": none}
    assert call("POST", f"{AT}/backlogQuota", {"limitSize": 1000, "policy": "producer_exception"}).status_code == 204
    by_age = {"limitTime": 60, "policy": "consumer_backlog_eviction"}
    assert call("POST", f"{AT}/backlogQuota?backlogQuotaType=message_age", by_age).status_code == 204
    found = call("GET", f"{AT}/backlogQuotaMap").json()
    assert (found["destination_storage"]["limitSize"], found["destination_storage"]["policy"]) == (1000, "producer_exception")
    assert (found["message_age"]["limitTime"], found["message_age"]["policy"]) == (60, "consumer_backlog_eviction")
    assert call("DELETE", f"{AT}/backlogQuota").status_code == 204
    assert list(call("GET", f"{AT}/backlogQuotaMap").json()) == ["message_age"]
    assert call("GET", f"{AT}/backlogQuotaMap?applied=true").json()["destination_storage"] == none


@pytest.mark.parametrize("of_namespace", [False, True])
def test_a_quota_is_below_the_retention_in_force(call: Caller, world: World, of_namespace: bool) -> None:
    if of_namespace:
        actions.set_policies(world.actor("olga"), "acme/orders", {"retention_time_min": 10, "retention_size_mb": 1})
    else:
        put(call, "retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 1})
    answer = call("POST", f"{AT}/backlogQuota", {"limitSize": 100_000_000, "policy": "producer_exception"})
    assert (answer.status_code, "below the retention" in answer.json()["reason"]) == (412, True)


# --- who may, and what is recorded -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PATHS, "backlogQuota", "backlogQuotaMap"])
def test_strangers_may_neither_read_nor_set_and_members_may_not_set(world: World, path: str) -> None:
    row = PATHS.get(path)
    body = example(row) if row is not None else {"limitSize": 5, "policy": "producer_exception"}
    methods = {"backlogQuota": ("POST", "DELETE"), "backlogQuotaMap": ("GET",)}.get(path) or (row.methods if row else ())
    stranger, other = Caller(world.token("nobody@acme")), Caller(world.token("boss@other", tenant="other"))
    writer = Caller(world.token("writer@acme"))
    actions.grant_permission(world.actor("olga"), "acme/orders", "writer@acme", ["produce", "consume"])
    for method in methods:
        for caller in (stranger, other, writer):
            assert caller(method, f"{AT}/{path}", None if method == "GET" else body).status_code == 403, method
    assert not TopicPolicies.unscoped.exists()


def test_actions_ask_for_permission(world: World) -> None:
    for who in (world.actor("tom"), world.actor("sam")):
        with pytest.raises(NotAuthorized):
            actions.set_topic_policies(who, NAME, {"max_producers_per_topic": 1})
    assert told(world) is None


def test_a_change_is_recorded(call: Caller, world: World) -> None:
    put(call, "maxProducers", 3)
    put(call, "maxProducers", 3)
    put(call, "maxProducers", 4)
    records = AuditRecord.unscoped.filter(action="topic.set_policies", after__has_key="policies").order_by("id")
    three, four = {"policies": {"max_producers_per_topic": 3}}, {"policies": {"max_producers_per_topic": 4}}
    assert [(one.tenant, one.resource, one.before, one.after) for one in records] == [
        ("acme", TOPIC, {"policies": {}}, three),
        ("acme", TOPIC, three, four),
    ]


def test_where_they_are_disabled_requests_are_refused(call: Caller, world: World, settings: Any) -> None:
    settings.MAGNETAR = msgspec.structs.replace(settings.MAGNETAR, topic_level_policies_enabled=False)
    for method, body in (("GET", None), ("POST", 3), ("DELETE", None)):
        answer = call(method, f"{AT}/maxProducers", body)
        assert (answer.status_code, "topic_level_policies_enabled" in answer.json()["reason"]) == (405, True)
    assert told(world) is None


def test_a_topic_that_was_never_there_has_no_policies(world: World) -> None:
    with pytest.raises(TopicNotFound):
        actions.set_topic_policies(world.actor("olga"), parse_topic("persistent://acme/orders/missing"), {"deduplication": True})
