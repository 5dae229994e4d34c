"""How many topics, and how fast."""

from __future__ import annotations

import pytest

from messaging.broker.core.limits.topic_quota import TopicQuota
from messaging.errors import NotReady, PreconditionFailed


def quota(**limits: int) -> TopicQuota:
    made = TopicQuota(**{"per_second": 10, "burst": 2, "tenant_max": 5, "namespace_max": 3} | limits)
    learn(made, {"acme/a": 2})
    return made


def learn(quota: TopicQuota, stored: dict[str, int]) -> None:
    counting = quota.counts.begin("acme")
    quota.counts.learn("acme", counting, stored, 0)
    quota.counts.end("acme", counting)


@pytest.mark.parametrize(
    ("namespace", "count", "names"),
    [
        ("acme/a", 1, None),
        ("acme/a", 2, "topics_per_namespace_max = 3"),
        ("acme/b", 3, None),
        ("acme/b", 4, "topics_per_namespace_max"),
    ],
)
def test_counts_of_a_namespace(namespace: str, count: int, names: str | None) -> None:
    refusal = quota().refusal("acme", namespace, count)
    assert (refusal is None) == (names is None)
    if names is not None:
        assert isinstance(refusal, PreconditionFailed) and names in refusal.message


def test_counts_of_a_tenant() -> None:
    topic_quota = quota()
    topic_quota.counts.reserve("acme", "acme/b", 3)
    refusal = topic_quota.refusal("acme", "acme/c", 1)
    assert isinstance(refusal, PreconditionFailed) and "topics_per_tenant_max = 5" in refusal.message
    topic_quota.counts.release("acme", "acme/b", 3, made=True)
    topic_quota.counts.gone("acme", "acme/b")
    assert topic_quota.refusal("acme", "acme/c", 1) is None
    topic_quota.counts.gone("acme", "acme/b", 100)
    assert topic_quota.refusal("acme", "acme/c", 3) is None  # never below none
    topic_quota.counts.reserve("unknown", "unknown/a", 1)
    assert not topic_quota.counts.knows("unknown")


def test_tenants_have_rates_of_their_own() -> None:
    topic_quota = quota()
    assert [topic_quota.too_fast("acme", 0), topic_quota.too_fast("acme", 0)] == [None, None]
    refusal = topic_quota.too_fast("acme", 0)
    assert isinstance(refusal, NotReady) and "try again in 100 ms" in refusal.message
    assert topic_quota.too_fast("other", 0) is None
    assert topic_quota.too_fast("acme", 100) is None
