"""Limits on all topics of a namespace or a tenant together: producers, consumers and subscriptions. 0 means no limit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from messaging.broker.runtime.topics.limits.tenant_ceilings import count_stored
from messaging.broker.runtime.topics.services import OWN_TENANT, TopicServices
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.clock import boottime_ms
from messaging.errors import ConsumerBusy, PreconditionFailed, ProducerBusy
from messaging.policies.texts import counted
from messaging.protocol.names import TopicName


def check_another_producer(topic: TopicContext, name: str) -> None:
    """Raises `ProducerBusy`. A producer that replaces another of the same name does not count twice."""
    if topic.producers.table.get(name) is None:
        count_of = topic.services.limits.producers.of
        refusal = _reached(topic.services, topic.name, "producers", lambda level, whose: count_of(whose), "close some")
        if refusal:
            raise ProducerBusy(refusal)


def check_another_consumer(topic: TopicContext) -> None:
    """Raises `ConsumerBusy`."""
    count_of = topic.services.limits.consumers.of
    refusal = _reached(topic.services, topic.name, "consumers", lambda level, whose: count_of(whose), "close some")
    if refusal:
        raise ConsumerBusy(refusal)


@asynccontextmanager
async def room_for_subscriptions(services: TopicServices, name: TopicName, more: int = 1) -> AsyncIterator[None]:
    """So many durable subscriptions of a topic are created in the `with` block. Raises `PreconditionFailed` if they are too
    many."""
    tenant, namespace, policy = name.tenant, str(name.namespace), services.policies.value
    counts = services.limits.subscription_counts
    limited = bool(policy("max_subscriptions_per_namespace", name) or policy("max_subscriptions_per_tenant", name)) and more > 0

    def refusal() -> str:
        return _reached(
            services,
            name,
            "subscriptions",
            lambda level, whose: counts.of(tenant, namespace if level == "namespace" else ""),
            "delete unused ones",
            more,
        )

    if limited and counts.is_to_be_counted(tenant, boottime_ms(), full=counts.knows(tenant) and bool(refusal())):
        await count_stored(counts, tenant, services.stores.storage.meta.count_subscriptions, "subscriptions")
    if limited and (why := refusal()):
        raise PreconditionFailed(why)
    counts.reserve(tenant, namespace, more)
    made = False
    try:
        yield
        made = True
    finally:
        counts.release(tenant, namespace, more, made=made)


def _reached(
    services: TopicServices, name: TopicName, things: str, count_of: Callable[[str, str], int], remedy: str, more: int = 1
) -> str:
    """Why so many more are too many; "" where they are not."""
    if name.tenant == OWN_TENANT:  # it has to answer whatever clients do
        return ""
    for level, whose in (("namespace", str(name.namespace)), ("tenant", name.tenant)):
        policy = f"max_{things}_per_{level}"
        limit, set_at = services.policies.resolved(policy, name)
        if limit and (count := count_of(level, whose)) + more > limit:
            there = counted(count, things.removesuffix("s"))
            why = f"{level} {whose} has {there}, which is {policy} = {limit}, set on the {set_at}"
            if more > 1:
                why = f"{level} {whose} has {there}, {more} more would exceed {policy} = {limit}, set on the {set_at}"
            return f"{why}: {remedy}, or raise it there"
    return ""
