"""Since when something is not used, and what policies make of it."""

from __future__ import annotations

import pytest

from messaging.broker.core.maintenance.inactivity import NEVER, TOPIC, IdleTimes, InactivityPolicies, inactivity_policies
from messaging.policies.resolution import defaults
from messaging.protocol.names import parse_topic
from messaging.protocol.system_topics import is_reserved, is_system_topic
from messaging.settings import Settings


def policies(**values: object) -> InactivityPolicies:
    merged = defaults(Settings()) | values
    return inactivity_policies(lambda name: merged[name])


@pytest.mark.parametrize(
    ("values", "topic_ms"),
    [
        ({}, NEVER),
        ({"inactive_topic_delete": True}, 60_000),
        ({"inactive_topic_delete": True, "inactive_topic_after_s": 5}, 5_000),
        ({"inactive_topic_delete": True, "retention_time_min": 2, "retention_size_mb": -1}, 120_000),
        ({"inactive_topic_delete": True, "retention_time_min": 2, "inactive_topic_after_s": 600}, 600_000),
        ({"inactive_topic_delete": True, "retention_time_min": -1}, NEVER),
        ({"inactive_topic_delete": True, "deletion_protected": True}, NEVER),
    ],
)
def test_how_long_topics_are_kept(values: dict[str, object], topic_ms: int) -> None:
    kept = policies(**values)
    assert (kept.topic_ms, kept.subscription_ms, kept.in_force) == (topic_ms, NEVER, topic_ms != NEVER)


def test_how_long_subscriptions_are_kept() -> None:
    kept = policies(subscription_expiration_min=3)
    assert (kept.topic_ms, kept.subscription_ms, kept.in_force) == (NEVER, 180_000, True)


def test_a_topic_is_kept_as_its_policies_say() -> None:
    kinds = [(subscriptions, backlog) for subscriptions in (0, 1) for backlog in (False, True)]
    assert [policies().keeps(*facts) for facts in kinds] == [False, False, True, True]
    caught_up = policies(inactive_topic_mode="delete_when_subscriptions_caught_up")
    assert [caught_up.keeps(*facts) for facts in kinds] == [False, True, False, True]


def test_times_of_a_topic_and_its_subscriptions() -> None:
    idle = IdleTimes({}, 100)
    assert (idle.topic_ms, idle.subscription_ms("a")) == (100, 100)
    idle.restored("a", 50)
    idle.restored("b", 150)
    idle.left("c", 200)
    assert [idle.subscription_ms(name) for name in "abc"] == [100, 150, 200]
    assert idle.topic_ms == 200
    idle.forget("c", 300)
    assert (idle.topic_ms, idle.subscription_ms("c")) == (300, 100)
    stored = idle.to_store("ab")
    assert stored == {TOPIC: 300, "a": 100, "b": 150}
    again = IdleTimes(stored, 1_000)
    again.restored("late", 2_000)
    assert (again.topic_ms, *(again.subscription_ms(name) for name in ("a", "b", "other", "late"))) == (300, 100, 150, 1_000, 2_000)


@pytest.mark.parametrize(
    ("local", "system", "reserved"),
    [
        ("t", False, False),
        ("__change_events", True, False),
        ("__change_events-partition-0", True, False),
        ("__change_events2", False, False),
        ("__transaction_buffer_snapshot", True, False),
        ("t-s__transaction_pending_ack", True, True),
        ("__transaction_log_0", False, False),
        ("transaction_coordinator_assign", False, False),
    ],
)
def test_system_topics_by_name(local: str, system: bool, reserved: bool) -> None:
    """As Pulsar 4.0 lists and refuses them."""
    name = parse_topic(f"acme/orders/{local}")
    assert (is_system_topic(name), is_reserved(name)) == (system, reserved)


def test_the_topic_of_the_health_check_is_one() -> None:
    assert is_system_topic(parse_topic("magnetar/system/health"))
