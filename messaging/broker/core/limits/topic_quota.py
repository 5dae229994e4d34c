"""Limits the number of topics per tenant and namespace, and the rate at which clients auto-create them. Pure."""

from __future__ import annotations

from messaging.broker.core.limits.limit_counts import StoredCounts
from messaging.errors import MagnetarError, NotReady, PreconditionFailed
from messaging.settings import Settings
from messaging.token_bucket import TokenBucket


class TopicQuota:
    """`counts` says how many there are. `per_second` and `burst`: topics that clients of one tenant make by using them.
    `tenant_max`, `namespace_max`: topics, each partition counted."""

    def __init__(self, *, per_second: int, burst: int, tenant_max: int, namespace_max: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tenant_max = tenant_max
        self._namespace_max = namespace_max
        self._buckets: dict[str, TokenBucket] = {}
        self.counts = StoredCounts()

    @classmethod
    def of(cls, settings: Settings) -> TopicQuota:
        return cls(
            per_second=settings.auto_created_topics_per_second,
            burst=settings.auto_created_topics_burst,
            tenant_max=settings.topics_per_tenant_max,
            namespace_max=settings.topics_per_namespace_max,
        )

    def refusal(self, tenant: str, namespace: str, count: int, policy_max: int = 0, tenant_max: int = 0) -> MagnetarError | None:
        """Why `count` more topics are too many. `policy_max` and `tenant_max`: of the policies of the namespace and the tenant; 0:
        none. Only of a tenant that `counts` knows."""
        of_namespace, of_tenant = self.counts.of(tenant, namespace), self.counts.of(tenant)
        for what, now, limit, setting in (
            (f"namespace {namespace}", of_namespace, self._namespace_max, "topics_per_namespace_max"),
            (f"namespace {namespace}", of_namespace, policy_max or self._namespace_max, "max_topics_per_namespace"),
            (f"tenant {tenant}", of_tenant, self._tenant_max, "topics_per_tenant_max"),
            (f"tenant {tenant}", of_tenant, tenant_max or self._tenant_max, "max_topics_per_tenant"),
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
