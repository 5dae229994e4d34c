"""Limits the number of topics per tenant and namespace, and the rate at which clients auto-create them. Pure."""

from __future__ import annotations

from messaging.errors import MagnetarError, NotReady, PreconditionFailed
from messaging.settings import Settings
from messaging.token_bucket import TokenBucket

COUNTED_EVERY_MS = 1_000


class TopicQuota:
    """`per_second` and `burst`: topics that clients of one tenant make by using them. `tenant_max`, `namespace_max`: topics, each
    partition counted."""

    def __init__(self, *, per_second: int, burst: int, tenant_max: int, namespace_max: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tenant_max = tenant_max
        self._namespace_max = namespace_max
        self._buckets: dict[str, TokenBucket] = {}
        self._counts: dict[str, dict[str, int]] = {}  # tenant -> namespace -> topics
        self._counted_ms: dict[str, int] = {}

    @classmethod
    def of(cls, settings: Settings) -> TopicQuota:
        return cls(
            per_second=settings.auto_created_topics_per_second,
            burst=settings.auto_created_topics_burst,
            tenant_max=settings.topics_per_tenant_max,
            namespace_max=settings.topics_per_namespace_max,
        )

    def knows(self, tenant: str) -> bool:
        return tenant in self._counts

    def counted_of_late(self, tenant: str, now_ms: int) -> bool:
        return tenant in self._counts and now_ms - self._counted_ms[tenant] < COUNTED_EVERY_MS

    def learn(self, tenant: str, counts: dict[str, int], now_ms: int) -> None:
        self._counts[tenant] = counts
        self._counted_ms[tenant] = now_ms

    def refusal(self, tenant: str, namespace: str, count: int, policy_max: int = 0, tenant_max: int = 0) -> MagnetarError | None:
        """Why `count` more topics are too many. `policy_max` and `tenant_max`: of the policies of the namespace and the tenant; 0:
        none. Call `learn` before."""
        counts = self._counts[tenant]
        of_namespace, held_by_tenant = counts.get(namespace, 0), sum(counts.values())
        for what, now, limit, setting in (
            (f"namespace {namespace}", of_namespace, self._namespace_max, "topics_per_namespace_max"),
            (f"namespace {namespace}", of_namespace, policy_max or self._namespace_max, "max_topics_per_namespace"),
            (f"tenant {tenant}", held_by_tenant, self._tenant_max, "topics_per_tenant_max"),
            (f"tenant {tenant}", held_by_tenant, tenant_max or self._tenant_max, "max_topics_per_tenant"),
        ):
            if now + count > limit:
                return PreconditionFailed(
                    f"{what} has {now} topics; {count} more would exceed {setting} = {limit}: "
                    f"delete unused topics or raise the limit"
                )
        return None

    def too_fast(self, tenant: str, now_ms: int) -> MagnetarError | None:
        """Takes a token for a topic that a client is about to make; or why it is to try again later."""
        bucket = self._buckets.get(tenant)
        if bucket is None:
            bucket = self._buckets[tenant] = TokenBucket(self._per_second / 1000, self._burst, now_ms)
        wait_ms = bucket.take(now_ms)
        if not wait_ms:
            return None
        return NotReady(
            f"clients of tenant {tenant} create topics faster than auto_created_topics_per_second = {self._per_second}: "
            f"try again in {max(1, round(wait_ms))} ms"
        )

    def add(self, tenant: str, namespace: str, count: int) -> None:
        """`count` topics were, or are about to be, made; below 0: they are gone, or were not made."""
        counts = self._counts.get(tenant)
        if counts is not None:
            counts[namespace] = max(0, counts.get(namespace, 0) + count)
