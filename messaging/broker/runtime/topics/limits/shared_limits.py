"""Limits on all topics of a namespace or a tenant together: producers, consumers and subscriptions. 0 means no limit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from messaging.broker.runtime.topics.limits.tenant_ceilings import count_stored
from messaging.broker.runtime.topics.services import OWN_TENANT
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.clock import boottime_ms
from messaging.errors import ConsumerBusy, PreconditionFailed, ProducerBusy


def check_another_producer(topic: TopicContext, name: str) -> None:
    """Raises `ProducerBusy`. A producer that replaces another of the same name does not count twice."""
    if topic.producers.table.get(name) is None:
        count_of = topic.services.limits.producers.of
        refusal = _reached(topic, "producers", lambda level, whose: count_of(whose), "close some")
        if refusal:
            raise ProducerBusy(refusal)


def check_another_consumer(topic: TopicContext) -> None:
    """Raises `ConsumerBusy`."""
    count_of = topic.services.limits.consumers.of
    refusal = _reached(topic, "consumers", lambda level, whose: count_of(whose), "close some")
    if refusal:
        raise ConsumerBusy(refusal)


@asynccontextmanager
async def room_for_subscription(topic: TopicContext) -> AsyncIterator[None]:
    """A durable subscription is created in the `with` block. Raises `PreconditionFailed` if that is one too many."""
    services, tenant, namespace = topic.services, topic.name.tenant, str(topic.name.namespace)
    counts, limited = services.limits.subscription_counts, _limited(topic, "subscriptions")

    def refusal() -> str:
        return _reached(
            topic,
            "subscriptions",
            lambda level, whose: counts.of(tenant, namespace if level == "namespace" else ""),
            "delete unused ones",
        )

    if limited and (not counts.knows(tenant) or refusal()) and counts.may_be_less(tenant, boottime_ms()):
        await count_stored(counts, tenant, services.stores.storage.meta.count_subscriptions, "subscriptions")
    if limited and (why := refusal()):
        raise PreconditionFailed(why)
    counts.reserve(tenant, namespace)
    made = False
    try:
        yield
        made = True
    finally:
        counts.release(tenant, namespace, made=made)


def _limited(topic: TopicContext, things: str) -> bool:
    policy, name = topic.services.policies.value, topic.name
    return bool(policy(f"max_{things}_per_namespace", name) or policy(f"max_{things}_per_tenant", name))


def _reached(topic: TopicContext, things: str, count_of: Callable[[str, str], int], remedy: str) -> str:
    """Why one more is too many; "" where it is not."""
    name = topic.name
    if name.tenant == OWN_TENANT:  # it has to answer whatever clients do
        return ""
    for level, whose in (("namespace", str(name.namespace)), ("tenant", name.tenant)):
        policy = f"max_{things}_per_{level}"
        limit, set_at = topic.services.policies.resolved(policy, name)
        if limit and (count := count_of(level, whose)) >= limit:
            why = f"{level} {whose} has {count} {things}, which is {policy} = {limit}, set on the {set_at}"
            return f"{why}: {remedy}, or raise it there"
    return ""
