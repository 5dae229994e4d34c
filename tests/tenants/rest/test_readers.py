"""The report of who may read messages, and who did."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from messaging.broker.runtime.local.messages import OutgoingMessage
from tenants import actions
from tenants.actions.grants import grant_permission
from tenants.models import TokenIssuer
from tests.tenants.world import World

AT = "/api/v1/tenants/acme/readers"
TOPIC = "persistent://acme/orders/t"


def test_it_says_who_may_and_who_did(world: World, caller: Any) -> None:
    for topic in (TOPIC, "persistent://acme/orders/other"):
        world.broker.add(topic)
        world.broker.publish_messages(topic, OutgoingMessage(b"x"))
    actions.set_member(world.actor("olga"), "acme", "tom", "viewer")
    grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["consume"])
    TokenIssuer.unscoped.create(tenant_id="acme", name="corp", issuer="i", audience="a", jwks_url="https://i/", roles={"v": "app"})
    for name in ("t", "t", "other"):
        assert caller("tom")("GET", f"/api/v1/tenants/acme/namespaces/orders/topics/{name}/browse").status_code == 200
    report = caller("olga")("GET", f"{AT}?namespace=orders&topic=t").json()
    may = {reader["role"]: reader for reader in report["may"]}
    assert (may["user:tom"]["reads"], may["user:tom"]["consumes"]) == (True, False)
    assert may["user:olga"]["consumes"] and may["user:tom"]["because"]
    assert may["app@acme"]["consumes"] and may["app@acme"]["issuers"] == ["corp"]
    assert [(did["role"], did["action"], did["resource"], did["times"]) for did in report["did"]] == [
        ("user:tom", "message.browse", TOPIC, 2)
    ]
    assert len(caller("olga")("GET", f"{AT}?namespace=orders").json()["did"]) == 2
    assert "user:sam" not in may


def test_who_reads_no_audit_log_and_other_tenants_are_refused(world: World, caller: Any) -> None:
    assert caller("tom")("GET", AT).status_code == 403
    assert caller("sam")("GET", AT).status_code == 404
    assert caller("olga")("GET", f"{AT}?namespace=nowhere").status_code == 404
    assert caller("olga")("GET", f"{AT}?days=0").status_code == 400


def test_looks_through_dead_letters_of_the_tenant_and_at_the_topic_of_a_partition_are_in_it(world: World, caller: Any) -> None:
    """Records of the whole tenant, and of other rooms of a topic, were missing where one asked for a topic."""
    world.broker.add("persistent://acme/orders/t-s-DLQ")
    actions.set_member(world.actor("olga"), "acme", "tom", "operator")
    assert caller("tom")("GET", "/api/v1/tenants/acme/dead-letters").status_code == 200
    olga = world.actor("olga")
    for action, resource in (("subscription.peek", f"{TOPIC}/s"), ("message.browse", TOPIC), ("message.browse", f"{TOPIC}2")):
        actions.change.record(olga, action, "acme", resource)
    whole, peek = ("user:tom", "message.browse", "acme"), ("user:olga", "subscription.peek", f"{TOPIC}/s")
    of_topic = {whole, peek, ("user:olga", "message.browse", TOPIC)}
    for query, found in (
        ("?namespace=orders&topic=t", of_topic),
        ("?namespace=orders&topic=t-partition-3", of_topic - {peek}),
        ("?namespace=orders", of_topic | {("user:olga", "message.browse", f"{TOPIC}2")}),
    ):
        did = caller("olga")("GET", AT + query).json()["did"]
        assert {(one["role"], one["action"], one["resource"]) for one in did} == found, query


def test_everybody_is_looked_at_once_for_both_rights(world: World, caller: Any) -> None:
    """10,000 keys were read twice, and the oldest record was looked for among all that the tenant has."""
    with CaptureQueriesContext(connection) as queries:
        report = caller("olga")("GET", AT).json()
    asked = [query["sql"] for query in queries]
    assert len([sql for sql in asked if 'FROM "tenants_key"' in sql and "revoked_at" in sql.partition("WHERE")[2]]) == 1
    assert not any('ORDER BY "tenants_auditrecord"."at"' in sql or sql.endswith("ORDER BY 1 ASC LIMIT 1") for sql in asked)
    assert report["log_since"] is not None and report["complete"]
