"""How many topics there may be, and how fast clients may create them: checked before each is created."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from messaging.broker.runtime.topics.limits.tenant_ceilings import count_stored, reserved
from messaging.broker.runtime.topics.services import TopicServices
from messaging.clock import boottime_ms
from messaging.protocol.names import TopicName


class TopicReservations:
    def __init__(self, services: TopicServices) -> None:
        self._services = services
        self._unrecorded: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by tenant and namespace

    def check_rate(self, name: TopicName) -> None:
        """Raises `NotReady` if clients of the tenant create topics too fast."""
        refusal = self._services.limits.quota.too_fast(name.tenant, boottime_ms())
        if refusal is not None:
            raise refusal

    @asynccontextmanager
    async def reserved(self, name: TopicName, count: int, *, limited: bool = True) -> AsyncIterator[None]:
        """Reserves room for `count` topics created in the `with` block; released if it raises. Raises `PreconditionFailed`."""
        quota, tenant, namespace = self._services.limits.quota, name.tenant, str(name.namespace)
        limits = (
            self._services.policies.value("max_topics_per_namespace", name),
            self._services.policies.value("max_topics_per_tenant", name),
        )
        counts = quota.counts
        if limited:
            refused = counts.knows(tenant) and quota.refusal(tenant, namespace, count, *limits) is not None
            if counts.is_to_be_counted(tenant, boottime_ms(), full=refused):
                await count_stored(counts, tenant, self.count, "topics")
            if refusal := quota.refusal(tenant, namespace, count, *limits):
                raise refusal
        async with reserved(counts, tenant, namespace, count):
            yield

    async def count(self, tenant: str) -> Counter[str]:
        """By namespace, those included of which no record is stored."""
        stored = await self._services.stores.storage.meta.count_topics(tenant)
        return Counter(stored) + self._unrecorded[tenant]

    def made_unrecorded(self, name: TopicName) -> None:
        """A topic was made of which no record is stored, in room that was reserved."""
        self._unrecorded[name.tenant][str(name.namespace)] += 1

    def gone(self, name: TopicName, *, recorded: bool) -> None:
        """A topic exists no longer."""
        if not recorded:
            self._unrecorded[name.tenant][str(name.namespace)] -= 1
        self._services.limits.quota.counts.gone(name.tenant, str(name.namespace))
