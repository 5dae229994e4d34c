"""Admin RPC: what a tenant uses of the ceilings that the broker enforces. Only reads."""

from __future__ import annotations

import asyncio

from messaging.adminrpc.ceilings import CeilingsAsked, CeilingsUsed
from messaging.adminrpc.methods import CEILINGS_USED
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker

SLICE_TOPICS = 1_000


class CeilingHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(CEILINGS_USED)
    async def used(self, request: CeilingsAsked) -> CeilingsUsed:
        return CeilingsUsed(used={**await counts_of_tenant(self._broker, request.tenant), **await self._rates(request.tenant)})

    async def _rates(self, tenant: str) -> dict[str, int]:
        """Means over the last seconds. Topics without rates are quiet."""
        topics = self._broker.topics
        sums, looked_at = [0.0, 0.0, 0.0, 0.0], 0
        for namespace in topics.namespaces_with_loaded(tenant):
            for topic in topics.loaded_of(namespace):
                if topic.rates is not None:
                    sums = [total + rate.a_second for total, rate in zip(sums, topic.rates.all(), strict=True)]
                looked_at += 1
                if not looked_at % SLICE_TOPICS:
                    await asyncio.sleep(0)
        names = (f"tenant_{kind}_rate_{things}" for kind in ("publish", "dispatch") for things in ("messages", "bytes"))
        return {name: round(total) for name, total in zip(names, sums, strict=True)}


async def counts_of_tenant(broker: Broker, tenant: str) -> dict[str, int]:
    """By the policy that limits it."""
    meta, services = broker.storage.meta, broker.topics.services
    return {
        "max_topics_per_tenant": (await broker.topics.reservations.count(tenant)).total(),
        "max_partitions_per_tenant": sum((await meta.count_partitions(tenant)).values()),
        "max_subscriptions_per_tenant": sum((await meta.count_subscriptions(tenant)).values()),
        "max_schemas_per_tenant": sum((await meta.count_schemas(tenant)).values()),
        "max_producers_per_tenant": services.limits.producers.of(tenant),
        "max_consumers_per_tenant": services.limits.consumers.of(tenant),
        "max_connections_per_tenant": broker.peers.shares.by_tenant[tenant] + broker.peers.shares.elsewhere.get(tenant, 0),
        "max_stored_bytes_per_tenant": await broker.stored_bytes_of(tenant),
        "max_delayed_messages_per_tenant": services.memory.delayed_counts.waiting(tenant),
    }
