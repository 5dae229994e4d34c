"""Alert rules over our API: a rule that could never say anything is refused when it is made."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.protocol.names import parse_topic
from tests.tenants.world import World
from workers.alerts.actions import PARTITIONS_MAX
from workers.alerts.models import AlertRule

TOPIC = "persistent://acme/orders/t"
RULES = "/api/v1/tenants/acme/alert-rules"


def rule(topic: str = TOPIC) -> dict[str, Any]:
    return {"name": "n", "kind": "backlog_entries", "topic": topic}


def partitioned(world: World, topic: str, partitions: int) -> None:
    world.broker.run(world.broker.service.topics.partitioned.create(parse_topic(topic), partitions, {}))


@pytest.mark.parametrize(
    ("topic", "status", "words"),
    [
        (TOPIC, 404, f"topic {TOPIC} does not exist"),
        (f"{TOPIC}-partition-9", 404, f"{TOPIC}-partition-9"),
        ("persistent://acme/gone/t", 404, "acme/gone"),
        ("persistent://acme/orders/.*", 400, "patterns are not supported: make a rule for each topic"),
        ("persistent://acme/orders/t*", 400, "patterns are not supported"),
        ("persistent://acme/.*/t", 400, "namespace name '.*' is not valid"),
        ("persistent://other/things/t", 400, "is not a topic of tenant acme"),
        ("t", 400, "is not a topic of tenant acme"),
    ],
)
def test_a_rule_is_about_a_topic_that_exists(world: World, caller: Any, topic: str, status: int, words: str) -> None:
    response = caller("olga")("POST", RULES, rule(topic))
    assert (response.status_code, words in response.json()["detail"]) == (status, True), response.json()
    assert not AlertRule.unscoped.exists()


def test_a_rule_may_be_about_a_topic_a_partitioned_one_or_a_partition(world: World, caller: Any) -> None:
    world.broker.add(TOPIC, "s")
    world.broker.add("persistent://acme/orders/a+b", "s")  # a name, however much it looks like a pattern
    partitioned(world, "persistent://acme/orders/p", 2)
    world.broker.add("persistent://acme/orders/p-partition-1", "s")
    for topic in (TOPIC, "persistent://acme/orders/a+b", "persistent://acme/orders/p", "persistent://acme/orders/p-partition-1"):
        response = caller("olga")("POST", RULES, rule(topic))
        assert (response.status_code, response.json()["partitions"]) == (201, []), response.json()


def test_partitions_of_a_rule_are_limited(world: World, caller: Any) -> None:
    partitioned(world, TOPIC, PARTITIONS_MAX + 1)
    response = caller("olga")("POST", RULES, rule())
    assert response.status_code == 412
    assert f"{PARTITIONS_MAX + 1} partitions" in response.json()["detail"]


def test_somebody_without_the_right_does_not_learn_whether_a_topic_exists(world: World, caller: Any) -> None:
    world.broker.add(TOPIC, "s")
    for topic in (TOPIC, "persistent://acme/orders/gone"):
        assert caller("tom")("POST", RULES, rule(topic)).status_code == 403
