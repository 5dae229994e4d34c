"""Our REST API: non-persistent topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tenants.world import Caller, World

N = "/api/v1/tenants/acme/namespaces/orders"


def refused(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def test_topics_that_are_not_persistent(world: World, caller: Callable[[str], Caller]) -> None:
    """They have addresses of their own, here beside a persistent topic of the same name."""
    olga, topic = caller("olga"), "non-persistent://acme/orders/plain"
    at = f"{N}/non-persistent/plain"
    olga("POST", f"{N}/topics", {"name": "plain"})
    assert olga("POST", f"{N}/topics", {"name": "plain", "persistent": False}).json() == {"topic": topic, "partitions": 0}
    assert olga("POST", f"{N}/topics", {"name": "wide", "partitions": 2, "persistent": False}).status_code == 201
    assert olga("GET", at).json() == {"topic": topic, "partitions": 0}
    assert {one["topic"]: one["partitions"] for one in caller("tom")("GET", f"{N}/topics").json()["items"]} == {
        "persistent://acme/orders/plain": 0,
        topic: 0,
        "non-persistent://acme/orders/wide": 2,
    }
    world.broker.connect_consumer(topic, "s")
    world.broker.publish(topic, b"one")
    assert olga("GET", f"{at}/stats").json()["stats"]["msgDropCounter"] == 1
    assert "1 message was dropped" in str(olga("GET", f"{at}/subscriptions/s/explain").json())
    assert olga("PATCH", f"{at}/policies", {"dispatch_rate_messages": 5}).json() == {"dispatch_rate_messages": 5}
    assert olga("GET", f"{N}/topics/plain/policies").json() == {}
    assert refused(caller("tom")("DELETE", at)) == (403, "not_authorized")
    assert refused(caller("sam")("GET", at)) == (404, "not_found")
    assert olga("DELETE", f"{at}?force=true").status_code == 204
    assert olga("DELETE", f"{N}/non-persistent/wide").status_code == 204
    assert [one["topic"] for one in olga("GET", f"{N}/topics").json()["items"]] == ["persistent://acme/orders/plain"]
    assert refused(olga("GET", f"{N}/persistent/plain")) == (404, "not_found")
    assert refused(olga("POST", f"{N}/topics", {"name": "non-persistent://plain"})) == (400, "invalid_name")
