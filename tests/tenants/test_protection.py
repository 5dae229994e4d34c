"""What is protected is deleted by nobody, over no API, whatever it is deleted with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.tenants.world import Caller, World

TOPIC = "persistent://acme/orders/t"
TENANT = "/api/v1/tenants/acme"
NAMESPACE = f"{TENANT}/namespaces/orders"
AT_TOPIC = f"{NAMESPACE}/topics/t"
ADMIN = "/admin/v2"
ON, OFF = {"deletion_protected": True}, {"deletion_protected": False}
# By what is protected: every address that deletes it, or what it is in.
OF_TENANT = [f"{TENANT}?force=true", f"{ADMIN}/tenants/acme?force=true"]
OF_NAMESPACE = [f"{NAMESPACE}?force=true", f"{ADMIN}/namespaces/acme/orders?force=true"]
OF_TOPIC = [f"{AT_TOPIC}?force=true", f"{ADMIN}/persistent/acme/orders/t?force=true"]


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.broker.add(TOPIC, "s")


def refused(answer: Any) -> None:
    assert answer.status_code == 412, answer.content
    assert answer.json()["code"] == "deletion_protected"


@pytest.mark.parametrize("protected", [TENANT, NAMESPACE, AT_TOPIC])
def test_neither_it_nor_what_it_is_in_is_deleted(world: World, call: Caller, protected: str) -> None:
    assert call("PATCH", f"{protected}/policies", ON).status_code == 200
    for address in [*OF_TOPIC, *OF_NAMESPACE, *OF_TENANT]:
        refused(call("DELETE", address))
    for address in (OF_TOPIC[0], OF_NAMESPACE[0], OF_TENANT[0]):
        refused(call("DELETE", f"{address}&dry_run=true"))
    assert TOPIC in world.broker.topics
    assert call("PATCH", f"{protected}/policies", {"deletion_protected": None}).status_code == 200
    assert call("DELETE", OF_TOPIC[1]).status_code == 204
    assert call("DELETE", OF_NAMESPACE[1]).status_code == 204
    assert call("DELETE", OF_TENANT[1]).status_code == 204


def test_partitions_and_partitioned_topics_are_protected(world: World, call: Caller) -> None:
    assert call("POST", f"{NAMESPACE}/topics", {"name": "p", "partitions": 2}).status_code == 201
    assert call("PATCH", f"{NAMESPACE}/topics/p/policies", ON).status_code == 200
    refused(call("DELETE", f"{ADMIN}/persistent/acme/orders/p/partitions?force=true"))
    refused(call("DELETE", f"{ADMIN}/persistent/acme/orders/p-partition-0?force=true"))
    refused(call("DELETE", f"{NAMESPACE}/topics/p"))


def test_a_nearer_level_takes_the_protection_back(world: World, call: Caller) -> None:
    call("PATCH", f"{TENANT}/policies", ON)
    call("PATCH", f"{NAMESPACE}/policies", OFF)
    assert call("DELETE", OF_TOPIC[0]).status_code == 204
    assert call("DELETE", OF_NAMESPACE[0]).status_code == 204
    refused(call("DELETE", OF_TENANT[0]))


def test_an_owner_cannot_lift_what_protects_the_tenant(caller: Callable[[str], Caller], call: Caller) -> None:
    call("PATCH", f"{TENANT}/policies", ON)
    olga = caller("olga")
    assert olga("PATCH", f"{TENANT}/policies", OFF).status_code == 403
    refused(olga("DELETE", OF_TOPIC[0]))


def test_the_console_says_why_it_does_not_delete(caller: Callable[[str], Caller], world: World, call: Caller) -> None:
    call("PATCH", f"{NAMESPACE}/policies", ON)
    olga = caller("olga")
    answer = olga.client.post("/tenants/acme/namespaces/orders/delete", {"confirm": "acme/orders"}, headers=olga.headers)
    assert "protected from deletion" in answer.content.decode()
    assert TOPIC in world.broker.topics
