"""Policies as people and tools meet them: what is accepted is kept and enforced, the rest is refused by its name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from messaging.errors import PreconditionFailed
from messaging.policies.pulsar import PATHS
from messaging.policies.registry import ENFORCED, POLICIES
from tenants import actions, feed
from tenants.actions.policy_views import namespace_in_force
from tenants.models import Namespace
from tenants.rest.document import document
from tests.support.policy_examples import EXAMPLES
from tests.tenants.world import Caller, World

AT = "/admin/v2/namespaces/acme/orders"
API = "/api/v1/tenants/acme/namespaces/orders"
IDLE = sorted(POLICIES.keys() - ENFORCED.keys())


def stored() -> dict[str, Any]:
    found: dict[str, Any] = Namespace.unscoped.get(name="acme/orders").policies
    return found


def store(**policies: Any) -> None:
    """As an earlier release did."""
    Namespace.unscoped.filter(name="acme/orders").update(policies=policies)


@pytest.fixture
def call(world: World) -> Caller:
    return Caller(world.superuser_token)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_pulsar_is_enforced_or_refused(call: Caller, world: World, path: str) -> None:
    at, row = f"{AT}/{path}", PATHS[path]
    value, unset = EXAMPLES[path]

    def read() -> Any:
        response = call("GET", at)
        return None if not response.content else response.json()

    assert read() == unset
    answer = call(row.set_by, at, value)
    if any(policy.enforced for policy in row.policies):
        assert answer.status_code == 204, answer.content
        assert read() == value
        assert world.broker.state[("namespace", "acme/orders")]["policies"], "the broker has it when the call answers"
    else:
        assert answer.status_code == 412
        assert path in answer.json()["reason"]
        store(**{policy.name: policy.default for policy in row.policies})
        assert read() == unset, "what an earlier release stored reads as unset"
    assert call("DELETE", at).status_code == 204
    assert read() == unset
    assert stored() == {}


def test_every_path_has_an_example() -> None:
    assert EXAMPLES.keys() == PATHS.keys()


@pytest.mark.parametrize("path", [path for path, row in PATHS.items() if row.unset is not None])
def test_setting_what_is_unset_anyway_unsets(call: Caller, world: World, path: str) -> None:
    """Tools switch encryptionRequired and its like off by setting them, as Pulsar has no DELETE there."""
    row = PATHS[path]
    store(**{policy.name: EXAMPLES[path][0] for policy in row.policies})
    assert call(row.set_by, f"{AT}/{path}", row.unset).status_code == 204
    assert stored() == {}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"allowAutoTopicCreation": True, "topicType": "partitioned"}, None),
        ({"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 0}, None),
        ({"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": "3"}, None),
        ({"allowAutoTopicCreation": True, "topicType": "bad", "defaultNumPartitions": 3}, None),
        ({"allowAutoTopicCreation": True, "topicType": "non-partitioned", "defaultNumPartitions": 3}, None),
        ({"allowAutoTopicCreation": True}, None),
        ({}, {"allowAutoTopicCreation": False}),
        ({"allowAutoTopicCreation": False}, {"allowAutoTopicCreation": False}),
        (
            {"allowAutoTopicCreation": True, "topicType": "non-partitioned", "defaultNumPartitions": None},
            {"allowAutoTopicCreation": True, "topicType": "non-partitioned"},
        ),
        (
            {"allowAutoTopicCreation": True, "topicType": "PARTITIONED", "defaultNumPartitions": 3},
            {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3},
        ),
    ],
)
def test_how_topics_are_created_by_use(call: Caller, world: World, given: dict[str, Any], kept: dict[str, Any] | None) -> None:
    """As Pulsar 4.0 answers."""
    assert call("POST", f"{AT}/autoTopicCreation", given).status_code == (412 if kept is None else 204)
    if kept is not None:
        assert call("GET", f"{AT}/autoTopicCreation").json() == kept


@pytest.mark.parametrize("name", IDLE)
def test_our_api_refuses_what_is_not_enforced(world: World, caller: Callable[[str], Caller], name: str) -> None:
    olga = caller("olga")
    value = 1 if POLICIES[name].default is None else POLICIES[name].default
    for method, path, body in (
        ("PATCH", f"{API}/policies", {name: value}),
        ("PUT", f"{API}/policies", {name: value}),
        ("POST", "/api/v1/tenants/acme/namespaces", {"name": "new", "policies": {name: value}}),
    ):
        answer = olga(method, path, body)
        assert (answer.status_code, answer.json()["code"]) == (412, "policy_not_enforced")
        assert name in answer.json()["detail"]
    assert stored() == {}
    assert not Namespace.unscoped.filter(name="acme/new").exists()
    store(**{name: value, "message_ttl_s": 5})
    assert olga("GET", f"{API}/policies").json() == {"message_ttl_s": 5}
    assert olga("GET", API).json()["policies_not_enforced"] == {name: value}
    assert olga("PATCH", f"{API}/policies", {"message_ttl_s": 6}).status_code == 200, "what was stored stands in nobody's way"
    assert olga("PATCH", f"{API}/policies", {name: None}).status_code == 200
    assert stored() == {"message_ttl_s": 6}


def test_setting_all_policies_removes_what_an_earlier_release_stored(world: World, caller: Callable[[str], Caller]) -> None:
    store(replicator_dispatch_rate_messages=5, from_the_past=1, message_ttl_s=5)
    assert caller("olga")("PUT", f"{API}/policies", {"deduplication": True}).json() == {"deduplication": True}
    assert stored() == {"deduplication": True}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("publishMaxMessageRate", {"standalone": {"publishThrottlingRateInMsg": 1}}),
        ("max_producers_per_topic", 3),
        ("encryption_required", True),
        ("offload_policies", {"offloadThresholdInBytes": 1}),
        ("resource_group_name", "gold"),
    ],
)
def test_a_new_namespace_is_refused_with_what_would_be_lost(call: Caller, world: World, field: str, value: Any) -> None:
    answer = call("PUT", "/admin/v2/namespaces/acme/new", {field: value})
    policies = [policy for row in PATHS.values() if row.whole_key == field for policy in row.policies]
    if policies and all(policy.enforced for policy in policies):
        assert answer.status_code == 204
    else:
        assert answer.status_code == 412
        assert re.search(f"{field}|{'|'.join(policy.name for policy in policies) or field}", answer.json()["reason"])


def test_a_new_namespace_has_the_permissions_that_it_is_created_with(call: Caller, world: World) -> None:
    auth = {
        "namespace_auth": {"app": ["produce"]},
        "destination_auth": {"persistent://acme/new/t": {"reader": ["consume"]}},
        "subscription_auth_roles": {"s": ["reader"]},
    }
    assert call("PUT", "/admin/v2/namespaces/acme/new", {"auth_policies": auth}).status_code == 204
    assert call("GET", "/admin/v2/namespaces/acme/new").json()["auth_policies"] == auth
    assert call("DELETE", "/admin/v2/namespaces/acme/new/permissions/s/reader").status_code == 204
    assert call("GET", "/admin/v2/namespaces/acme/new/permissions/subscription").json() == {}


@pytest.mark.parametrize(
    "auth",
    [
        {"namespace_auth": {"app": ["odd"]}},
        {"destination_auth": {"persistent://other/ns/t": {"app": ["consume"]}}},
        {"subscription_auth_roles": {"s": [""]}},
    ],
)
def test_permissions_that_cannot_be_granted_create_no_namespace(call: Caller, world: World, auth: Any) -> None:
    assert call("PUT", "/admin/v2/namespaces/acme/new", {"auth_policies": auth}).status_code == 412
    assert call("GET", "/admin/v2/namespaces/acme/new").status_code == 404


def test_a_subscription_may_be_called_subscription(call: Caller, world: World) -> None:
    path = "/admin/v2/namespaces/acme/orders/permissions/subscription"
    assert call("POST", f"{path}/subscription", ["a", "b"]).status_code == 204
    assert call("DELETE", f"{path}/a").status_code == 204
    assert call("GET", path).json() == {"subscription": ["b"]}


def test_numbers_and_truth_values_may_be_in_quotes(call: Caller, world: World) -> None:
    namespace = "/admin/v2/namespaces/acme/orders"
    for path, value in (
        ("messageTTL", "10"),
        ("deduplication", "true"),
        ("retention", {"retentionTimeInMinutes": "5", "retentionSizeInMB": "7"}),
    ):
        assert call("POST", f"{namespace}/{path}", value).status_code == 204, path
    held = call("GET", namespace).json()
    assert (held["message_ttl_in_seconds"], held["deduplicationEnabled"]) == (10, True)
    assert held["retention_policies"]["retentionTimeInMinutes"] == 5
    assert call("POST", f"{namespace}/messageTTL", "ten").status_code == 412


def test_a_negative_limit_is_refused_by_the_name_that_the_client_knows(call: Caller, world: World) -> None:
    answer = call("POST", "/admin/v2/namespaces/acme/orders/maxProducersPerTopic", -3)
    assert answer.status_code == 412
    assert answer.json()["reason"] == "maxProducersPerTopic must be 0 or more, and -3 was given"


def test_settings_of_the_broker_are_refused_by_name(call: Caller, world: World) -> None:
    path = "/admin/v2/brokers/configuration"
    assert "maxConnections" not in call("GET", path).json() and call("GET", f"{path}/values").json() == {}
    for answer in (call("POST", f"{path}/maxConnections/7"), call("DELETE", f"{path}/maxConnections")):
        assert answer.status_code == 412 and answer.json()["reason"].startswith("maxConnections cannot change")


def test_defaults_of_policies_change_while_the_broker_runs(call: Caller, world: World) -> None:
    path, name = "/admin/v2/brokers/configuration", "maxPublishRatePerTopicInMessages"
    values, runtime = f"{path}/values", f"{path}/runtime"
    assert name in call("GET", path).json() and call("GET", runtime).json()[name] == "0"

    def rate() -> object:
        shown = namespace_in_force(Namespace.unscoped.get(name="acme/orders"))
        return next(one.value for one in shown if one.policy.name == "publish_rate_messages")

    assert call("POST", f"{path}/{name}/100").status_code == 200
    assert call("GET", values).json() == {name: "100"} and call("GET", runtime).json()[name] == "100"
    assert rate() == 100
    assert world.broker.state["broker", "all"] == {"settings": {"max_publish_rate_per_topic_in_messages": 100}}
    version = feed.newest_version()
    assert call("POST", f"{path}/{name}/100").status_code == 200 and feed.newest_version() == version
    assert feed.since(0).changes[-1].state == world.broker.state["broker", "all"], "a broker that starts anew gets it"
    assert call("DELETE", f"{path}/{name}").status_code == 200
    assert (call("GET", values).json(), rate()) == ({}, 0)
    assert not world.broker.state.get(("broker", "all")) and feed.since(0).changes[-1].kind != "broker"
    assert call("DELETE", f"{path}/{name}").status_code == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxPublishRatePerTopicInMessages", "many"),
        ("maxPublishRatePerTopicInMessages", "-1"),
        ("maxPublishRatePerTopicInMessages", "9007199254740992"),
        ("brokerDeleteInactiveTopicsMode", "never"),
        ("allowAutoTopicCreation", "2.5"),
        ("subscribeRatePeriodPerConsumerInSecond", "0"),
    ],
)
def test_a_setting_keeps_to_its_values(call: Caller, world: World, name: str, value: str) -> None:
    answer = call("POST", f"/admin/v2/brokers/configuration/{name}/{value}")
    assert answer.status_code == 412 and name in answer.json()["reason"] and value in answer.json()["reason"]


def test_only_superusers_change_settings(call: Caller, world: World) -> None:
    path, owner = "/admin/v2/brokers/configuration", Caller(world.token("owner@acme"))
    for method, below in ("GET", ""), ("GET", "/values"), ("POST", "/allowAutoTopicCreation/false"), ("DELETE", "/x"):
        assert owner(method, path + below).status_code == 403, below
    assert call("GET", f"{path}/values").json() == {}


def test_a_new_namespace_may_say_what_nobody_set(call: Caller, world: World) -> None:
    """As pulsar-admin sends it."""
    whole = {
        "bundles": {"boundaries": None, "numBundles": 4},
        "replication_clusters": ["standalone"],
        "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
        "backlog_quota_map": {},
        "topicDispatchRate": {},
        "publishMaxMessageRate": {},
        "encryption_required": False,
        "subscription_auth_mode": "None",
        "schema_compatibility_strategy": "UNDEFINED",
        "schema_validation_enforced": False,
        "is_allow_auto_update_schema": None,
        "subscription_types_enabled": [],
        "offload_threshold": -1,
        "deleted": False,
        "properties": {},
    }
    assert call("PUT", "/admin/v2/namespaces/acme/new", whole).status_code == 204
    assert Namespace.unscoped.get(name="acme/new").policies == {}


def test_policy_properties_are_kept_and_shown(call: Caller, world: World) -> None:
    assert call("PUT", f"{AT}/properties", {"team": "ships"}).status_code == 204
    assert call("GET", f"{AT}/properties").json() == {"team": "ships"}
    assert call("GET", AT).json()["properties"] == {"team": "ships"}
    large = {str(index): "v" * 4000 for index in range(20)}
    assert call("PUT", f"{AT}/properties", large).status_code == 400  # messaging.limits.rest
    assert call("GET", f"{AT}/properties").json() == {"team": "ships"}


def test_the_api_describes_what_can_be_set_and_nothing_else() -> None:
    body = document()["paths"]["/api/v1/tenants/{tenant}/namespaces/{namespace}/policies"]["patch"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    assert schema["properties"].keys() == ENFORCED.keys()
    assert schema["additionalProperties"] is False
    assert schema["properties"]["message_ttl_s"]["description"] == ENFORCED["message_ttl_s"].meaning


def test_policy_max_namespaces_per_tenant_refuses_one_more(world: World) -> None:
    """The setting is never exceeded, whatever the policy says."""
    admin, olga = world.actor("admin"), world.actor("olga")
    actions.set_tenant_policies(admin, "acme", {"max_namespaces_per_tenant": 2})
    actions.create_namespace(olga, "acme/second")
    with pytest.raises(PreconditionFailed, match="max_namespaces_per_tenant = 2"):
        actions.create_namespace(olga, "acme/third")
    actions.create_namespace(world.actor("sam"), "other/second")
    actions.set_tenant_policies(admin, "acme", {"max_namespaces_per_tenant": 0})
    actions.create_namespace(olga, "acme/third")
