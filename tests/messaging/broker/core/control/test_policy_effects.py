"""What a change of policies would do: nothing where nothing changes, and the sentence and the number where something does."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.core.control.policy_effects import (
    DELAYED,
    EFFECTS,
    OF_TENANTS,
    SharedFacts,
    SubscriptionFacts,
    TopicFacts,
    effects,
    shared_effects,
)
from messaging.policies.registry import POLICIES
from messaging.policies.resolution import defaults
from messaging.settings import Settings

BEFORE = defaults(Settings()) | {"deduplication": True}
SLOW = SubscriptionFacts("slow", "Shared", True, [10, 3], 13, 3 << 30, 5)
READER = SubscriptionFacts("reader", "Exclusive", False, [900], 900, 0, 0)
FACTS = TopicFacts(
    "persistent://acme/orders/t",
    5,
    2,
    [SLOW, READER],
    trimmed_bytes=1 << 30,
    stored_bytes=3 << 30,
    oldest_age_s=7200,
    publish_rate=500.0,
    dispatch_rate=90.0,
)


def found(facts: TopicFacts = FACTS, **changes: Any) -> list[tuple[str, int, str]]:
    return [(effect.subscription, effect.affected, effect.sentence) for effect in effects(facts, BEFORE, {**BEFORE, **changes})]


def test_an_unchanged_policy_has_no_effect() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"backlog_quota_bytes": 4 << 30}, "publishing, which is refused now, would be accepted again"),
        ({"backlog_quota_bytes": -1}, "publishing, which is refused now, would be accepted again"),
        ({"backlog_quota_bytes_policy": "consumer_backlog_eviction"}, "publishing, which is refused now, would be accepted again"),
        ({"backlog_quota_bytes": 2 << 30}, "publishing would be refused: the backlog is 3.0 GiB"),
        ({"backlog_quota_bytes_policy": "producer_exception"}, "publishing would be refused: the backlog is 3.0 GiB"),
        (
            {"backlog_quota_bytes": -1, "backlog_quota_age_s": 60},
            "publishing would be refused: the oldest unacknowledged message is 7,200 s old",
        ),
    ],
)
def test_a_quota_that_is_reached_already_says_what_becomes_of_publishing(changes: dict[str, Any], told: str) -> None:
    """Raising it had no effect, by the preview."""
    held = FACTS._replace(producers=0)
    before = {**BEFORE, "backlog_quota_bytes": 3 << 30}
    assert told in [effect.sentence for effect in effects(held, before, {**before, **changes})]


def test_every_policy_named_here_exists() -> None:
    assert set(EFFECTS) <= set(POLICIES)


@pytest.mark.parametrize(
    ("changes", "effect"),
    [
        ({"max_producers_per_topic": 2}, ("", 3, "3 producers of 5 would be refused when connecting again")),
        ({"max_producers_per_topic": 5}, None),
        ({"max_consumers_per_topic": 2}, ("", 1, "1 consumer of 3 would be refused when connecting again")),
        (
            {"max_consumers_per_subscription": 1},
            ("slow", 1, "1 consumer of 2 would be refused when connecting again to subscription slow"),
        ),
        ({"subscription_types": ["Exclusive"]}, ("slow", 2, "2 Shared consumers of subscription slow would be refused")),
        ({"subscription_types": ["Exclusive", "Shared"]}, None),
        ({"encryption_required": True}, ("", 2, "2 producers that do not encrypt would be closed and refused")),
        ({"max_unacked_per_consumer": 10}, ("slow", 1, "1 consumer of subscription slow would be sent nothing")),
        ({"max_unacked_per_consumer": 11}, None),
        ({"max_unacked_per_subscription": 13}, ("slow", 13, "subscription slow has 13 unacknowledged messages")),
        ({"backlog_quota_bytes": 1 << 30}, ("", 5, "publishing would be refused: the backlog is 3.0 GiB; 5 connected producers")),
        (
            {"backlog_quota_bytes": 1 << 30, "backlog_quota_bytes_policy": "consumer_backlog_eviction"},
            ("slow", (3 << 30) - int(0.9 * (1 << 30)), "about 2.1 GiB of the backlog of subscription slow would be evicted"),
        ),
        ({"backlog_quota_bytes": 3 << 30}, ("", 5, "publishing would be refused: the backlog is 3.0 GiB")),  # reached
        ({"backlog_quota_bytes": (3 << 30) + 1}, None),
        ({"backlog_quota_age_s": 3600}, ("", 5, "publishing would be refused: the oldest unacknowledged message is 7,200 s old")),
        (
            {"backlog_quota_age_s": 3600, "backlog_quota_age_policy": "consumer_backlog_eviction"},
            ("", 1, "unacknowledged messages older than 3,600 s would be evicted"),
        ),
        ({"backlog_quota_age_s": 7200}, ("", 5, "publishing would be refused: the oldest unacknowledged message is 7,200 s old")),
        ({"backlog_quota_age_s": 7201}, None),
        (
            {"retention_time_min": 5},
            ("", 1 << 30, "1.0 GiB of the 3.0 GiB stored, acknowledged by all, would be deleted at the next retention run"),
        ),
        (
            {"retention_time_min": 5, "retention_size_mb": 9},
            ("", 1 << 30, "1.0 GiB of the 3.0 GiB stored, acknowledged by all, would be deleted at the next retention run"),
        ),
        ({"delayed_delivery": False}, ("slow", 5, "5 delayed messages of slow would be sent now")),
        (
            {"delayed_delivery_default_ms": 5000},
            ("", 5, "what 5 connected producers would publish without a delivery time would wait"),
        ),
        (
            {"delayed_delivery_default_ms": 5000, "delayed_delivery": False},
            ("slow", 5, "5 delayed messages of slow would be sent now"),
        ),
        ({"delayed_delivery_fixed_ms": 5000}, ("", 5, "what 5 connected producers would publish would wait 5,000 ms")),
        (
            {"delayed_delivery_fixed_ms": 5000, "delayed_delivery_default_ms": 1},
            ("", 5, "what 5 connected producers would publish would"),
        ),
        ({"deduplication": False}, ("", 1, "what is known of sequence ids would be forgotten")),
        ({"dispatch_rate_messages": 50}, ("", 40, "90 messages a second are delivered now; 50 would be")),
        ({"dispatch_rate_messages": 100}, None),
    ],
)
def test_an_effect(changes: dict[str, Any], effect: tuple[str, int, str] | None) -> None:
    told = found(**changes)
    if effect is None:
        assert told == []
    else:
        assert [each[:2] for each in told] == [effect[:2]]
        assert told[0][2].startswith(effect[2])


def test_subscriptions_beyond_the_limit_stay() -> None:
    both = [SLOW, SLOW._replace(name="other")]
    assert found(FACTS._replace(subscriptions=both), max_subscriptions_per_topic=1) == [
        ("", 1, "2 subscriptions would stay, and no other could be created")
    ]


def test_a_ttl_tells_how_many_messages_would_expire() -> None:
    expiring = FACTS._replace(subscriptions=[SLOW._replace(expired_entries=1)])
    assert found(expiring, message_ttl_s=60) == [("slow", 1, "1 unacknowledged entry of subscription slow would expire")]


@pytest.mark.parametrize(("limit", "affected"), [(0, None), (2, 1), (3, 0), (4, None)])
def test_delayed_messages_of_a_tenant(limit: int, affected: int | None) -> None:
    facts = SharedFacts("tenant", "acme", dict.fromkeys(OF_TENANTS, 0) | {DELAYED: 3})
    after = {**BEFORE, "max_delayed_messages_per_tenant": limit}
    effect = shared_effects(facts, {**BEFORE, "max_delayed_messages_per_tenant": 9}, after)
    assert [told.affected for told in effect] == ([] if affected is None else [affected])
    assert all(
        told.sentence.startswith("3 delayed messages of tenant acme would stay, and another would be refused") for told in effect
    )
