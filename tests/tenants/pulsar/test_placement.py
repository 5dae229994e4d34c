"""Isolation policies, failure domains and anti-affinity groups in Pulsar's admin API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.adminrpc.brokers import BrokerSeen, BrokersSeen
from messaging.adminrpc.bundles import BundleLoad, BundleLoads
from messaging.adminrpc.methods import BROKERS_LIST, BUNDLES_LOADS
from messaging.policies.isolation import EXPRESSION_BYTES_MAX, EXPRESSIONS_MAX, POLICIES_MAX
from tenants import actions, feed
from tenants.actions.placement import BROKERS_OF_DOMAIN_MAX, DOMAINS_MAX
from tenants.models import AuditRecord, FailureDomain, IsolationPolicy, OutboxChange, User
from tests.tenants.world import Caller, World, status

Call = Callable[..., Any]
ISOLATION = "/admin/v2/clusters/standalone/namespaceIsolationPolicies"
DOMAINS = "/admin/v2/clusters/standalone/failureDomains"
GROUP = "/admin/v2/namespaces/acme/orders/antiAffinity"
FAILOVER = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}}
POLICY: dict[str, Any] = {"namespaces": ["acme/.*"], "primary": ["b1"], "secondary": ["b2.*"], "auto_failover_policy": FAILOVER}


def newest_audit() -> AuditRecord:
    return AuditRecord.unscoped.order_by("-id")[0]


def test_a_policy_is_set_read_changed_and_deleted(call: Call, world: World) -> None:
    assert status(call("POST", f"{ISOLATION}/gold", POLICY)) == 204
    assert call("GET", f"{ISOLATION}/gold").json() == POLICY | {"unload_scope": "changed"}
    assert call("GET", ISOLATION).json().keys() == {"gold"}
    told = OutboxChange.objects.order_by("-version")[0]
    assert (told.kind, told.key, told.state and told.state["primary"]) == ("isolation", "gold", ["b1"])
    assert world.broker.version == told.version
    record = newest_audit()
    assert (record.action, record.tenant, record.resource, record.before) == ("isolation.set", "", "gold", None)
    assert status(call("POST", f"{ISOLATION}/gold", POLICY | {"primary": ["b3"], "unload_scope": "none"})) == 204
    assert call("GET", f"{ISOLATION}/gold").json()["unload_scope"] == "none"
    record = newest_audit()
    assert record.before and record.after
    assert record.before["primary"] == ["b1"] and record.after["primary"] == ["b3"]
    assert status(call("DELETE", f"{ISOLATION}/gold")) == 204
    assert newest_audit().action == "isolation.delete"
    assert OutboxChange.objects.order_by("-version")[0].state is None
    assert status(call("GET", ISOLATION)) == status(call("GET", f"{ISOLATION}/gold")) == 404
    assert status(call("DELETE", f"{ISOLATION}/gold")) == 204, "as in Pulsar"


def failover(**parameters: str) -> dict[str, Any]:
    return {"auto_failover_policy": {"policy_type": "min_available", "parameters": parameters}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"primary": ["b("]}, "b("),
        ({"namespaces": [r"(a)\1"]}, "RE2"),
        ({"primary": []}, "primary"),
        ({"namespaces": []}, "namespaces"),
        ({"namespaces": None}, "namespaces"),
        ({"secondary": None}, "secondary"),
        ({"auto_failover_policy": None}, "auto_failover_policy"),
        ({"auto_failover_policy": {"policy_type": "odd", "parameters": {}}}, "odd"),
        (failover(min_limit="1"), "usage_threshold"),
        (failover(min_limit="x", usage_threshold="1"), "min_limit"),
        (failover(min_limit="-1", usage_threshold="1"), "min_limit"),
        (failover(min_limit="1" * 30, usage_threshold="1"), "min_limit"),
        (failover(min_limit="1", usage_threshold="101"), "usage_threshold"),
        ({"unload_scope": "odd"}, "unload_scope"),
        ({"primary": ["a" * (EXPRESSION_BYTES_MAX + 1)]}, "primary"),
        ({"primary": ["a"] * (EXPRESSIONS_MAX + 1)}, "primary"),
        ({"primary": [r"\pL{1000}\pL{1000}"] * 4}, "memory"),
    ],
)
def test_what_is_no_policy_is_refused(call: Call, change: dict[str, Any], expected: str) -> None:
    refused = call("POST", f"{ISOLATION}/bad", POLICY | change)
    assert status(refused) == 400 and expected in refused.json()["reason"]
    assert not IsolationPolicy.objects.exists()


def test_names_and_counts_are_limited(call: Call) -> None:
    assert status(call("POST", f"{ISOLATION}/brokers", POLICY)) == 405, "Pulsar has a list in its place"
    assert status(call("POST", f"{ISOLATION}/a%20b", POLICY)) in (400, 412)
    values = {"namespaces": ["a"], "primary": ["b"], "min_limit": 1, "usage_threshold": 1, "unload_scope": "none"}
    IsolationPolicy.objects.bulk_create([IsolationPolicy(name=f"p{number}", **values) for number in range(POLICIES_MAX)])
    refused = call("POST", f"{ISOLATION}/more", POLICY)
    assert status(refused) == 412 and "delete one" in refused.json()["reason"]
    assert status(call("POST", f"{ISOLATION}/p1", POLICY)) == 204


def test_another_cluster_has_none(call: Call) -> None:
    for path in ("namespaceIsolationPolicies/p", "namespaceIsolationPolicies/brokers", "failureDomains/d"):
        assert status(call("GET", f"/admin/v2/clusters/absent/{path}")) == 412
    assert status(call("GET", "/admin/v2/clusters/absent/namespaceIsolationPolicies")) == 404


def test_what_brokers_are_to_the_policies(call: Call, world: World) -> None:
    brokers = [BrokerSeen(broker_id=name, live=name != "gone", broker_url="") for name in ("b1", "b2-x", "b3", "gone")]
    world.line.divert(BROKERS_LIST, lambda _: BrokersSeen(brokers=brokers))
    call("POST", f"{ISOLATION}/gold", POLICY)
    call("POST", f"{ISOLATION}/more", POLICY | {"namespaces": ["x/y"], "primary": ["b3"], "secondary": []})
    assert call("GET", f"{ISOLATION}/brokers").json() == [
        {"brokerName": "b1", "primary": True, "policyName": "gold", "namespaceRegex": ["acme/.*"]},
        {"brokerName": "b2-x", "primary": False, "policyName": "gold", "namespaceRegex": ["acme/.*"]},
        {"brokerName": "b3", "primary": True, "policyName": "more", "namespaceRegex": ["x/y"]},
    ]
    assert call("GET", f"{ISOLATION}/brokers/other:8080").json() == {
        "brokerName": "other:8080",
        "primary": False,
        "namespaceRegex": [],
    }


def test_bundles_of_a_broker(call: Call, world: World) -> None:
    seen = [BrokerSeen(broker_id=name, live=name != "gone", broker_url="") for name in ("b1", "b2-x", "gone")]
    figures = {"messages_in_per_s": 0.0, "messages_out_per_s": 0.0, "bytes_in_per_s": 0.0, "bytes_out_per_s": 0.0, "load": 0.0}
    bundles = [
        BundleLoad(namespace="acme/orders", bundle="0x00000000_0x40000000", topics=2, producers=0, consumers=0, **figures),
        BundleLoad(namespace="other/things", bundle="0x40000000_0x80000000", topics=0, producers=0, consumers=0, **figures),
    ]
    world.line.divert(BROKERS_LIST, lambda _: BrokersSeen(brokers=seen))
    world.line.divert(
        BUNDLES_LOADS, lambda asked: BundleLoads(broker_id=asked.broker_id, movable=True, draining=False, bundles=bundles)
    )
    call("POST", f"{ISOLATION}/gold", POLICY)
    owned = "/admin/v2/brokers/standalone/{}/ownedNamespaces".format
    assert call("GET", owned("b1")).json() == {
        "acme/orders/0x00000000_0x40000000": {"broker_assignment": "primary", "is_controlled": True, "is_active": True},
        "other/things/0x40000000_0x80000000": {"broker_assignment": "shared", "is_controlled": False, "is_active": False},
    }
    assert call("GET", owned("b2-x")).json()["acme/orders/0x00000000_0x40000000"]["broker_assignment"] == "secondary"
    for name in ("gone", "absent:8080"):
        refused = call("GET", owned(name))
        assert status(refused) == 404 and "not found in available brokers" in refused.json()["reason"]


def test_failure_domains(call: Call) -> None:
    assert call("GET", DOMAINS).json() == {}
    assert status(call("POST", f"{DOMAINS}/here", {"brokers": ["b1", "b2", "b1"]})) == 204
    assert newest_audit().action == "failure_domain.set" and newest_audit().resource == "here"
    taken = call("POST", f"{DOMAINS}/there", {"brokers": ["b3", "b2"]})
    assert status(taken) == 409 and "b2" in taken.json()["reason"] and "here" in taken.json()["reason"]
    assert status(call("POST", f"{DOMAINS}/here", {"brokers": ["b1"]})) == 204
    assert status(call("POST", f"{DOMAINS}/there", {"brokers": ["b3", "b2"]})) == 204
    assert call("GET", DOMAINS).json() == {"here": {"brokers": ["b1"]}, "there": {"brokers": ["b3", "b2"]}}
    assert call("GET", f"{DOMAINS}/here").json() == {"brokers": ["b1"]}
    assert status(call("DELETE", f"{DOMAINS}/here")) == 200
    assert status(call("DELETE", f"{DOMAINS}/here")) == status(call("GET", f"{DOMAINS}/here")) == 404


def test_failure_domains_are_limited(call: Call) -> None:
    assert status(call("POST", f"{DOMAINS}/d", {"brokers": ["b"] * (BROKERS_OF_DOMAIN_MAX + 1)})) == 400
    FailureDomain.objects.bulk_create([FailureDomain(name=f"d{number}", brokers=[]) for number in range(DOMAINS_MAX)])
    assert status(call("POST", f"{DOMAINS}/more", {"brokers": ["b"]})) == 412
    assert status(call("POST", f"{DOMAINS}/d1", {"brokers": ["b"]})) == 204


def test_groups_of_namespaces(call: Call, world: World) -> None:
    assert status(call("GET", GROUP)) == 204
    assert status(call("POST", GROUP, b"pair")) == 204, "Pulsar's tools send the bare name"
    assert call("GET", GROUP).json() == "pair"
    assert status(call("POST", GROUP, b'"Pair"')) == 204
    actions.create_namespace(world.admin, "acme/more")
    actions.set_policies(world.admin, "acme/more", {"anti_affinity_group": "pair"})
    actions.set_policies(world.admin, "other/things", {"anti_affinity_group": "pair"})
    together = "/admin/v2/namespaces/standalone/antiAffinity/pair"
    assert sorted(call("GET", f"{together}?tenant=acme").json()) == ["acme/more", "acme/orders"]
    older = together.replace("/v2", "")  # what Pulsar's tools ask
    assert sorted(call("GET", f"{older}?property=acme").json()) == ["acme/more", "acme/orders"]
    assert status(call("GET", together)) == status(call("GET", older)) == 400
    assert status(call("GET", f"{together.replace('standalone', 'absent')}?tenant=acme")) == 412
    assert status(call("POST", GROUP, b"  ")) == 412
    assert status(call("POST", GROUP, b"g" * 129)) == 412
    assert status(call("POST", GROUP, b'{"group": "g"}')) == 412
    assert status(call("DELETE", GROUP)) == 204
    assert status(call("GET", GROUP)) == 204
    assert newest_audit().action == "namespace.set_policies"


def test_only_a_superuser_sees_and_changes_policies(world: World) -> None:
    owner = Caller(user=User.objects.get(username="olga"))
    for method, path, body in (
        ("GET", ISOLATION, None),
        ("GET", f"{ISOLATION}/p", None),
        ("POST", f"{ISOLATION}/p", POLICY),
        ("DELETE", f"{ISOLATION}/p", None),
        ("GET", f"{ISOLATION}/brokers", None),
        ("GET", f"{ISOLATION}/brokers/b", None),
        ("GET", "/admin/v2/brokers/standalone/b/ownedNamespaces", None),
        ("GET", DOMAINS, None),
        ("GET", f"{DOMAINS}/d", None),
        ("POST", f"{DOMAINS}/d", {"brokers": []}),
        ("DELETE", f"{DOMAINS}/d", None),
    ):
        assert status(owner(method, path, body)) == 403, (method, path)
    assert not IsolationPolicy.objects.exists() and not FailureDomain.objects.exists()


def test_a_tenant_sees_and_changes_its_own_groups_alone(world: World) -> None:
    olga, tom, sam = (Caller(user=User.objects.get(username=name)) for name in ("olga", "tom", "sam"))
    assert status(olga("POST", GROUP, b"pair")) == 204
    assert status(tom("POST", GROUP, b"pair")) == 403 and status(tom("DELETE", GROUP)) == 403
    assert status(sam("GET", GROUP)) in (403, 404)
    together = "/admin/v2/namespaces/standalone/antiAffinity/pair?tenant=acme"
    assert olga("GET", together).json() == ["acme/orders"]
    assert status(sam("GET", together)) in (403, 404)
    assert status(sam("GET", together.replace("/v2", "").replace("tenant=", "property="))) in (403, 404)
    assert status(sam("GET", together + "&property=other")) == 200, "of the tenant whose rights were looked at"
    assert sam("GET", together + "&property=other").json() == []


def test_a_broker_that_starts_is_told_everything(call: Call) -> None:
    call("POST", f"{ISOLATION}/gold", POLICY)
    call("POST", f"{DOMAINS}/here", {"brokers": ["b1"]})
    told = {(change.kind, change.key): change.state for change in feed.since(0).changes}
    policy = told["isolation", "gold"]
    assert policy and policy["namespaces"] == ["acme/.*"] and told["failure_domain", "here"] == {"brokers": ["b1"]}
