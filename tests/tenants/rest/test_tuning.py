"""Settings for producers over REST. That strangers get nothing of a topic, `test_table.py` tests for every address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.adminrpc.methods import (
    TOPICS_INTERNAL_STATS,
    TOPICS_PARTITIONED_INTERNAL_STATS,
    TOPICS_PARTITIONED_STATS,
    TOPICS_STATS,
)
from messaging.adminrpc.topics import Stats
from tenants.models import Membership
from tests.tenants.world import Caller, World

N = "/api/v1/tenants/acme/namespaces/orders"
TRAFFIC: dict[str, Any] = {"message_bytes": 200, "messages_per_s": 20_000, "partitions": 8}


def test_settings_come_with_reasons_and_with_what_they_save(world: World, caller: Callable[[str], Caller]) -> None:
    answer = caller("sam")("POST", "/api/v1/tune", {**TRAFFIC, "gib_price": 0.1}).json()
    settings = {setting["name"]: setting for setting in answer["settings"]}
    assert settings["batch_messages_max"]["value"] == 500 and settings["compression"]["value"] == "zstd"
    assert all(setting["reason"] for setting in answer["settings"])
    assert (answer["compared_with"], answer["messages_per_entry"], answer["contradictions"]) == ("unbatched", 1.0, [])
    saved = answer["saved_a_day"]
    assert saved["messages_per_entry"] == 200 and min(saved["entries"], saved["traffic_bytes"], saved["money"]) > 0
    assert caller("sam")("POST", "/api/v1/tune", TRAFFIC).json()["saved_a_day"]["money"] is None


def test_own_settings_that_contradict_each_other_are_said(world: World, call: Callable[..., Any]) -> None:
    answer = call("POST", "/api/v1/tune", {**TRAFFIC, "batch_messages_max": 2000, "pending_max": 1000}).json()
    assert answer["compared_with"] == "own_settings"
    assert ["can never have batch_messages_max = 2000" in text for text in answer["contradictions"]] == [True]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"message_bytes": 200}, "messages_per_s is missing"),
        ({**TRAFFIC, "messages_per_s": 0}, "positive"),
        ({**TRAFFIC, "latency_ms": 0}, "positive"),
        ({**TRAFFIC, "queue": 1}, "'queue' is unknown"),
    ],
)
def test_what_cannot_be_answered_is_refused(world: World, call: Callable[..., Any], body: dict[str, Any], why: str) -> None:
    answer = call("POST", "/api/v1/tune", body)
    assert answer.status_code == 400 and why in answer.json()["detail"]


@pytest.fixture
def busy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every topic is published to: 10,000 messages a second of 200 bytes, four to an entry."""
    perform = world.line.perform
    figures: dict[str, Any] = {"msgRateIn": 10_000.0, "msgThroughputIn": 2e6, "msgInCounter": 400, "publishers": [{}, {}]}
    added = {"entriesAddedCounter": 50}
    said: dict[str, dict[str, Any]] = {
        TOPICS_STATS.name: figures,
        TOPICS_PARTITIONED_STATS.name: figures,
        TOPICS_INTERNAL_STATS.name: {"entriesAddedCounter": 100},
        TOPICS_PARTITIONED_INTERNAL_STATS.name: {"partitions": {"a": added, "b": added}},
    }

    def answer(method: Any, request: Any) -> Any:
        return Stats(stats=said[method.name]) if method.name in said else perform(method, request)

    monkeypatch.setattr(world.line, "perform", answer)


@pytest.mark.parametrize("partitions", [0, 2])
def test_the_traffic_of_a_topic_is_measured(world: World, busy: None, caller: Callable[[str], Caller], partitions: int) -> None:
    olga = caller("olga")
    assert olga("POST", f"{N}/topics", {"name": "t", "partitions": partitions}).status_code == 201
    answer = olga("POST", f"{N}/topics/t/tune", {}).json()
    assert answer["traffic"] == {
        "messages_per_s": 10_000.0,
        "message_bytes": 200.0,
        "messages_per_entry": 4.0,
        "partitions": max(1, partitions),
        "producers": 2,
    }
    assert answer["compared_with"] == "messages_per_entry" and answer["saved_a_day"]["messages_per_entry"] == 50


def test_a_topic_that_nothing_is_published_to_is_said(world: World, caller: Callable[[str], Caller]) -> None:
    olga = caller("olga")
    assert olga("POST", f"{N}/topics", {"name": "t"}).status_code == 201
    answer = olga("POST", f"{N}/topics/t/tune", {})
    assert answer.status_code == 412 and "nothing is published to persistent://acme/orders/t now" in answer.json()["detail"]
    answer = olga("POST", f"{N}/non-persistent/t/tune", {})
    assert answer.status_code in (404, 412)


def test_who_may_neither_produce_nor_consume_learns_nothing(world: World, caller: Callable[[str], Caller]) -> None:
    assert caller("olga")("POST", f"{N}/topics", {"name": "t"}).status_code == 201
    Membership.unscoped.filter(tenant_id="acme", user__username="tom").update(role="billing")
    assert caller("tom")("POST", f"{N}/topics/t/tune", {}).status_code == 403
    assert caller("sam")("POST", f"{N}/topics/t/tune", {}).status_code == 404
    assert Caller(world.token("app@other", tenant="other"))("POST", f"{N}/topics/t/tune", {}).status_code == 404
    assert caller("")("POST", "/api/v1/tune", TRAFFIC).status_code == 401
