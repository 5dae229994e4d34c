"""The history of policies: who changed what, which change a value is from, and taking a change back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.limits.sizes import PAIRS_COUNT_MAX
from tests.tenants.world import Caller, World

TOPIC = "persistent://acme/orders/t"
TENANT = "/api/v1/tenants/acme"
NAMESPACE = f"{TENANT}/namespaces/orders"
AT_TOPIC = f"{NAMESPACE}/topics/t"
AT_SUBSCRIPTION = f"{AT_TOPIC}/subscriptions/s"
FIRST, SECOND = {"message_ttl_s": 60}, {"message_ttl_s": 90, "deduplication": True}


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.broker.add(TOPIC, "s")


@pytest.fixture
def olga(caller: Callable[[str], Caller]) -> Caller:
    return caller("olga")


def history(who: Caller, at: str, query: str = "") -> list[Any]:
    answer = who("GET", f"{at}/policies/history{query}")
    assert answer.status_code == 200, answer.content
    return list(answer.json()["items"])


def blamed(who: Caller, at: str) -> dict[str, tuple[Any, str | None]]:
    return {row["name"]: (row["value"], row["record"]) for row in who("GET", f"{at}/policies/blame").json()["policies"]}


@pytest.mark.parametrize("at", [TENANT, NAMESPACE, AT_TOPIC])
def test_each_change_is_in_the_history_and_each_value_names_its_change(call: Caller, at: str) -> None:
    assert history(call, at) == []
    assert call("PATCH", f"{at}/policies", FIRST).status_code == 200
    assert call("PATCH", f"{at}/policies", {"deduplication": True}).status_code == 200
    newest, oldest = history(call, at)
    assert oldest["changes"] == [{"path": "policies.message_ttl_s", "before": None, "after": "60"}]
    assert oldest["role"] == "admin"
    assert blamed(call, at) == {"message_ttl_s": (60, oldest["id"]), "deduplication": (True, newest["id"])}
    following = call("GET", f"{at}/policies/history?limit=1").json()["next"]
    assert history(call, at, f"?limit=1&after={following}") == [oldest]


@pytest.mark.parametrize("at", [TENANT, NAMESPACE, AT_TOPIC])
def test_a_change_is_taken_back_and_so_is_taking_it_back(call: Caller, at: str) -> None:
    call("PATCH", f"{at}/policies", FIRST)
    call("PATCH", f"{at}/policies", SECOND)
    second = history(call, at)[0]["id"]
    tried = call("POST", f"{at}/policies/undo?dry_run=true", {"record": second})
    assert (tried.status_code, tried.json()["affected"]) == (200, {"policies": 2})
    assert call("GET", f"{at}/policies").json() == SECOND
    assert call("POST", f"{at}/policies/undo", {"record": second}).json() == FIRST
    third = history(call, at)[0]["id"]
    assert call("POST", f"{at}/policies/undo", {"record": third}).json() == SECOND


def test_what_was_changed_again_is_not_overwritten(olga: Caller) -> None:
    olga("PATCH", f"{NAMESPACE}/policies", FIRST)
    first = history(olga, NAMESPACE)[0]["id"]
    olga("PATCH", f"{NAMESPACE}/policies", SECOND)
    refused = olga("POST", f"{NAMESPACE}/policies/undo", {"record": first})
    assert refused.status_code == 409 and "message_ttl_s was changed again" in refused.json()["detail"]
    assert olga("POST", f"{NAMESPACE}/policies/undo?dry_run=true", {"record": first}).status_code == 409
    assert olga("GET", f"{NAMESPACE}/policies").json() == SECOND


def test_other_policies_stay_when_a_change_is_taken_back(olga: Caller) -> None:
    olga("PATCH", f"{NAMESPACE}/policies", FIRST)
    first = history(olga, NAMESPACE)[0]["id"]
    olga("PATCH", f"{NAMESPACE}/policies", {"deduplication": True})
    assert olga("POST", f"{NAMESPACE}/policies/undo", {"record": first}).json() == {"deduplication": True}


def test_a_subscription_has_a_history_of_its_own(olga: Caller) -> None:
    rate = {"subscription_dispatch_rate_messages": 7}
    olga("PATCH", f"{AT_SUBSCRIPTION}/policies", rate)
    assert history(olga, AT_TOPIC) == []
    (change,) = history(olga, AT_SUBSCRIPTION)
    assert blamed(olga, AT_SUBSCRIPTION) == {"subscription_dispatch_rate_messages": (7, change["id"])}
    assert olga("POST", f"{AT_SUBSCRIPTION}/policies/undo", {"record": change["id"]}).json() == {}


def test_a_later_namespace_of_the_name_begins_with_no_history(olga: Caller) -> None:
    olga("PATCH", f"{NAMESPACE}/policies", FIRST)
    former = history(olga, NAMESPACE)[0]["id"]
    assert olga("DELETE", f"{NAMESPACE}?force=true").status_code == 204
    assert olga("POST", f"{TENANT}/namespaces", {"name": "orders"}).status_code == 201
    assert history(olga, NAMESPACE) == []
    assert olga("POST", f"{NAMESPACE}/policies/undo", {"record": former}).status_code == 404


def test_a_value_that_the_audit_log_does_not_hold_is_not_made_up(olga: Caller) -> None:
    large = {"properties": {f"name-{index}": "x" * 100 for index in range(min(60, PAIRS_COUNT_MAX))}}
    olga("PATCH", f"{NAMESPACE}/policies", large)
    olga("PATCH", f"{NAMESPACE}/policies", {"properties": {"a": "b"}})
    second, first = history(olga, NAMESPACE)
    refused = olga("POST", f"{NAMESPACE}/policies/undo", {"record": second["id"]})
    assert refused.status_code == 412 and "too large for the audit log" in refused.json()["detail"]
    assert blamed(olga, NAMESPACE) == {"properties": ({"a": "b"}, second["id"])}
    assert first["after"]["policies"]["properties"] != large["properties"]


@pytest.mark.parametrize("record", ["0", "x", "999999999999"])
def test_what_is_no_change_is_not_undone(olga: Caller, record: str) -> None:
    assert olga("POST", f"{NAMESPACE}/policies/undo", {"record": record}).status_code == 404


def test_a_record_of_something_else_is_no_change_of_this(olga: Caller) -> None:
    olga("PATCH", f"{NAMESPACE}/policies", FIRST)
    of_namespace = history(olga, NAMESPACE)[0]["id"]
    assert olga("POST", f"{AT_TOPIC}/policies/undo", {"record": of_namespace}).status_code == 404


def test_who_may_not_read_the_audit_log_or_set_policies_gets_neither(olga: Caller, caller: Any) -> None:
    olga("PATCH", f"{NAMESPACE}/policies", FIRST)
    record = history(olga, NAMESPACE)[0]["id"]
    tom, sam = caller("tom"), caller("sam")
    for at in (NAMESPACE, AT_TOPIC, AT_SUBSCRIPTION):
        for what in ("history", "blame"):
            assert tom("GET", f"{at}/policies/{what}").status_code == 403
            assert sam("GET", f"{at}/policies/{what}").status_code == 404
        assert tom("POST", f"{at}/policies/undo", {"record": record}).status_code == 403
        assert sam("POST", f"{at}/policies/undo", {"record": record}).status_code == 404
    assert olga("POST", f"{TENANT}/policies/undo", {"record": record}).status_code == 403
    assert olga("GET", f"{NAMESPACE}/policies").json() == FIRST
