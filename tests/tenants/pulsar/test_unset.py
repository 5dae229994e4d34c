"""What Pulsar has and is not here reads as what nobody has set up, is removed without effect, and cannot be set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from messaging.policies.pulsar_unset import NAMESPACE_UNSET, TOPIC_UNSET
from tenants.models import AuditRecord
from tests.tenants.world import World, status

Call = Callable[..., Any]
NAMESPACE, TOPIC = "/admin/v2/namespaces/acme/orders", "/admin/v2/persistent/acme/orders/t"


def test_it_reads_as_unset_and_cannot_be_set(call: Call, world: World) -> None:
    world.broker.add("persistent://acme/orders/t")
    recorded = AuditRecord.unscoped.count()
    for base, rows in ((NAMESPACE, NAMESPACE_UNSET), (TOPIC, TOPIC_UNSET)):
        for one in rows:
            found = call("GET", f"{base}/{one.path}")
            assert status(found) == one.status, one
            assert found.content == b"" if one.answer is None else found.json() == one.answer
            for method in ("POST", "PUT"):
                refused = call(method, f"{base}/{one.path}", 1)
                assert status(refused) in (405, 501) and "not offered" in refused.json()["reason"], one
            if one.removed_at:
                assert status(call("DELETE", f"{base}/{one.removed_at}")) == 204
            absent = f"{base.replace('orders', 'absent')}/{one.path}"
            assert status(call("GET", absent)) == 404
    assert AuditRecord.unscoped.count() == recorded
    why = call("POST", f"{NAMESPACE}/entryFilters", {}).json()["reason"]
    assert why == "POST is not offered here: there are no plug-ins in the broker: filter in the consumer; or use DELETE, GET"


def test_what_is_in_force_instead(call: Call, world: World) -> None:
    world.broker.add("persistent://acme/orders/t")
    assert call("GET", f"{TOPIC}/replication?applied=true").json() == ["standalone"]
    assert call("GET", f"{TOPIC}/entryFilters?applied=true").json() == {"entryFilterNames": ""}
    limited = call("GET", f"{TOPIC}/replicatorDispatchRate?applied=true").json()
    assert limited["dispatchThrottlingRateInMsg"] == limited["dispatchThrottlingRateInByte"] == 0


def test_subscriptions_are_not_replicated(call: Call, world: World) -> None:
    world.broker.add("persistent://acme/orders/t")
    assert status(call("PUT", f"{TOPIC}/subscription/s")) == 204
    assert call("GET", f"{TOPIC}/subscription/s/replicatedSubscriptionStatus").json() == {"persistent://acme/orders/t": False}
    assert status(call("GET", f"{TOPIC}/subscription/absent/replicatedSubscriptionStatus")) == 404


def test_clusters_and_what_stands_beside_brokers(call: Call, world: World) -> None:
    for path, expected in (
        ("clusters/standalone/peers", 200),
        ("clusters/elsewhere/peers", 404),
        ("clusters/standalone/failureDomains/d", 404),
        ("clusters/standalone/migrate", 404),
        ("clusters/standalone/namespaceIsolationPolicies", 404),
        ("resourcegroups/g", 404),
        ("brokers/backlog-quota-check", 204),
    ):
        assert status(call("GET", f"/admin/v2/{path}")) == expected, path
    found = {path: call("GET", f"/admin/v2/{path}").json() for path in ("clusters/standalone/failureDomains", "resourcegroups")}
    assert list(found.values()) == [{}, []]


def test_schemas_are_listed_without_the_place_where_they_are(call: Call, world: World) -> None:
    world.broker.add("persistent://acme/orders/t")
    at = "/admin/v2/schemas/acme/orders/t"
    assert call("GET", f"{at}/metadata").content == b""
    assert call("DELETE", f"{at}/schema").json() == {"version": 0}
    assert call("POST", f"{at}/schema", {"type": "STRING", "schema": ""}).json() == {"version": {"version": 1}}
    only = {"version": 1, "ledgerId": -1, "entryId": 0}
    assert call("GET", f"{at}/metadata").json() == {"info": only, "index": [only]}
    assert [status(call("GET", f"{at}/schema/{version}")) for version in ("-1", "0", "x")] == [404, 404, 404]
