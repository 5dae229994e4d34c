"""Policies of single topics over Pulsar's admin API: the paths, bodies and codes of Pulsar 4.0, and who may use them."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.policies.model import Level
from messaging.policies.pulsar_topics import TopicPath
from messaging.policies.registry import POLICIES
from messaging.protocol.names import parse_topic
from tenants import actions
from tenants.actions.topics import forget_policies_of_gone_topics
from tenants.models import TopicPolicies
from tests.tenants.topic_policies import AT, NAME, PATHS, TOPIC, example, put, told, value_of
from tests.tenants.world import Caller, World, status

NO_RATE = {
    "dispatchThrottlingRateInMsg": 0,
    "dispatchThrottlingRateInByte": 0,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
# What GET ?applied=true answers where no level sets anything, as Pulsar does; those that are not here ignore `applied`.
APPLIED: dict[str, Any] = {
    "retention": {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
    "messageTTL": 0,
    "deduplicationEnabled": False,
    "deduplicationSnapshotInterval": 120,
    "persistence": {
        "bookkeeperEnsemble": 1,
        "bookkeeperWriteQuorum": 1,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 0.0,
    },
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": True},
    "delayedDelivery": {"tickTime": 1000, "active": True, "maxDeliveryDelayInMillis": 0},
    "compactionThreshold": 0,
    "maxProducers": 0,
    "maxConsumers": 0,
    "maxUnackedMessagesOnConsumer": 50_000,
    "maxUnackedMessagesOnSubscription": 200_000,
    **dict.fromkeys(("dispatchRate", "subscriptionDispatchRate", "s/dispatchRate"), NO_RATE),
    "inactiveTopicPolicies": {
        "deleteWhileInactive": False,
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 60,
    },
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 0, "ratePeriodInSecond": 30},
    "schemaCompatibilityStrategy": "FULL",
    "schemaValidationEnforced": False,
}


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.broker.add(TOPIC)


@pytest.fixture
def call(world: World) -> Caller:
    return Caller(world.superuser_token)


def is_set(row: TopicPath) -> bool:
    return any(policy.enforced for policy in row.policies)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_enforced_or_refused(call: Caller, world: World, path: str) -> None:
    row = PATHS[path]
    value = example(row)
    assert value_of(call("GET", f"{AT}/{path}")) == row.unset
    answer = put(call, path, value)
    if is_set(row):
        assert answer.status_code == 204, answer.content
        assert value_of(call("GET", f"{AT}/{path}")) == value
        assert value_of(call("GET", f"{AT}/{path}?applied=true")) == value
        assert told(world), "the broker has it when the call answers"
    else:
        assert (answer.status_code, row.policies[0].path in answer.json()["reason"]) == (412, True)
    if row.can_unset:
        assert call("DELETE", f"{AT}/{path}").status_code == 204
        assert value_of(call("GET", f"{AT}/{path}")) == row.unset
        assert told(world) is None
        assert not TopicPolicies.unscoped.exists()
    else:
        assert call("DELETE", f"{AT}/{path}").status_code == 405


@pytest.mark.parametrize("path", [path for path, row in PATHS.items() if is_set(row)])
def test_what_is_in_force_without_any_setting(call: Caller, world: World, path: str) -> None:
    assert value_of(call("GET", f"{AT}/{path}?applied=true")) == APPLIED.get(path, PATHS[path].unset)


@pytest.mark.parametrize("path", [path for path, row in PATHS.items() if is_set(row) and row.knows_applied])
def test_what_is_in_force_comes_from_the_namespace_where_the_topic_sets_nothing(call: Caller, world: World, path: str) -> None:
    row = PATHS[path]
    changes = row.changes(example(row))
    actions.set_policies(world.actor("olga"), "acme/orders", changes)
    assert value_of(call("GET", f"{AT}/{path}?applied=true")) == example(row)
    assert value_of(call("GET", f"{AT}/{path}")) == row.unset


def test_answers_of_what_is_not_set_have_the_status_that_tools_know(call: Caller, world: World) -> None:
    for path, row in PATHS.items():
        answer = call("GET", f"{AT}/{path}")
        assert status(answer) in (200, 204), path
        assert ("Content-Type" in answer.headers) is (row.unset is not None), "Java's client waits for the body of a typed answer"


def test_every_policy_of_topics_has_a_path() -> None:
    reached = {policy.name for row in PATHS.values() for policy in row.policies}
    by_quota = {name for name in POLICIES if name.startswith("backlog_quota_")}
    # Pulsar has no such policies, our own API sets them
    only_ours = {"delayed_delivery_default_ms", "delayed_delivery_fixed_ms", "deletion_protected"}
    assert reached | by_quota | only_ours == {
        name for name, policy in POLICIES.items() if Level.TOPIC in policy.levels or Level.SUBSCRIPTION in policy.levels
    }


# --- topics that are not there, and partitions -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_a_topic_that_does_not_exist(call: Caller, world: World, path: str) -> None:
    row, at = PATHS[path], "/admin/v2/persistent/acme/orders/missing"
    for method in row.methods:
        answer = call(method, f"{at}/{path}", None if method == "GET" else example(row))
        assert (answer.status_code, answer.json()["reason"]) == (404, "Topic persistent://acme/orders/missing not found")
        answer = call(method, f"/admin/v2/persistent/acme/nowhere/t/{path}", None if method == "GET" else example(row))
        assert (answer.status_code, answer.json()["reason"]) == (404, "Namespace not found")


def test_a_partitioned_topic_has_policies_and_its_partitions_have_none(call: Caller, world: World) -> None:
    world.broker.add_partitioned("persistent://acme/orders/p", 3)
    at = "/admin/v2/persistent/acme/orders/p"
    assert call("POST", f"{at}/maxProducers", 3).status_code == 204
    assert call("GET", f"{at}/maxProducers").json() == 3
    for method, body in (("GET", None), ("POST", 4), ("DELETE", None)):
        answer = call(method, f"{at}-partition-0/maxProducers", body)
        assert answer.status_code == 412
        assert "is a partition" in answer.json()["reason"]
    value = world.broker.service.policies.value("max_producers_per_topic", parse_topic("persistent://acme/orders/p-partition-2"))
    assert value == 3


def test_all_policies_of_a_topic_are_removed_at_once(call: Caller, world: World) -> None:
    put(call, "maxProducers", 3)
    put(call, "s/dispatchRate", {"dispatchThrottlingRateInMsg": 5})
    assert told(world) is not None
    at = "/admin/v2/persistent/acme/orders/"
    for name in ("t", "t", "absent"):
        assert call("DELETE", f"{at}{name}/policies").status_code == 204
    assert told(world) is None
    assert value_of(call("GET", f"{at}t/maxProducers")) is None
    assert value_of(call("GET", f"{at}t/s/dispatchRate")) is None
    assert call("DELETE", f"{at}t-partition-0/policies").status_code == 412
    assert call("DELETE", "/admin/v2/persistent/acme/absent/t/policies").status_code == 404


def test_policies_end_with_their_topic(call: Caller, world: World) -> None:
    world.broker.add_partitioned("persistent://acme/orders/p", 2)
    for topic, delete in (("t", AT), ("p", "/admin/v2/persistent/acme/orders/p/partitions")):
        at = f"/admin/v2/persistent/acme/orders/{topic}"
        assert call("POST", f"{at}/maxProducers", 3).status_code == 204
        assert call("DELETE", delete).status_code == 204
        assert call("GET", f"{at}/maxProducers").status_code == 404
        assert ("topic", f"persistent://acme/orders/{topic}") not in world.broker.state
        assert call("PUT", at).status_code == 204
        assert value_of(call("GET", f"{at}/maxProducers")) is None


def test_deleting_a_partition_leaves_the_policies_of_its_topic(call: Caller, world: World) -> None:
    world.broker.add_partitioned("persistent://acme/orders/p", 2)
    at = "/admin/v2/persistent/acme/orders/p"
    assert call("POST", f"{at}/maxProducers", 3).status_code == 204
    assert call("DELETE", f"{at}-partition-0").status_code == 204
    assert call("GET", f"{at}/maxProducers").json() == 3


def test_policies_end_with_their_namespace(call: Caller, world: World) -> None:
    put(call, "maxProducers", 3)
    actions.delete_namespace(world.actor("olga"), "acme/orders", force=True)
    assert told(world) is None
    assert not TopicPolicies.unscoped.exists()


def test_a_later_topic_of_the_name_does_not_inherit(call: Caller, world: World) -> None:
    """Whoever deleted the former one: here the broker by itself."""
    put(call, "maxProducers", 3)
    TopicPolicies.unscoped.update(created_ms=1)
    assert value_of(call("GET", f"{AT}/maxProducers")) is None
    put(call, "maxConsumers", 4)
    assert told(world) == {"policies": {"max_consumers_per_topic": 4}, "subscriptions": {}}


def test_policies_end_with_a_topic_that_the_broker_deletes_by_itself(call: Caller, world: World) -> None:
    """Nothing is left of them for a later topic of the name, before and after the control plane knows."""
    world.broker.add_partitioned("persistent://acme/orders/p", 2)
    at = "/admin/v2/persistent/acme/orders/p"
    put(call, "maxProducers", 3)
    assert call("POST", f"{at}/maxProducers", 3).status_code == 204
    world.broker.ahead_s = 1
    world.broker.have("acme/orders", (), {})
    world.broker.add(TOPIC)
    world.broker.add_partitioned("persistent://acme/orders/p", 2)
    value = world.broker.service.policies.value
    for name in (NAME, parse_topic("persistent://acme/orders/p-partition-1")):
        assert value("max_producers_per_topic", name) == 0
    world.broker.tell(world.broker.version + 1)
    assert value("max_producers_per_topic", NAME) == 0, "told again"
    assert forget_policies_of_gone_topics(world.line, lambda: None) == 2
    assert not TopicPolicies.unscoped.exists()
    put(call, "maxProducers", 3)
    assert value("max_producers_per_topic", NAME) == 3
    assert forget_policies_of_gone_topics(world.line, lambda: None) == 0
    assert value("max_producers_per_topic", NAME) == 3


def test_policies_survive_a_restart_of_the_broker(call: Caller, world: World) -> None:
    put(call, "maxProducers", 3)
    world.broker.restart()
    assert world.broker.service.policies.value("max_producers_per_topic", NAME) == 3
