"""Changes that clients make to durable subscriptions, with their audit records, for the binary protocol and WebSockets alike."""

from __future__ import annotations

from messaging.broker.core.limits.subscribe_rates import ConsumerIdentity
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.limits.admission import check_creation_by_use, check_subscribe_rate
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import NotReady
from messaging.permissions.model import Principal
from messaging.storage.ledger_store import Position
from messaging.storage.meta_store import MetaConflict


def count_subscribe(topic: Topic, consumer: ConsumerIdentity) -> None:
    """A client subscribes. Raises `NotAllowed` if it does so too often."""
    services = topic.services
    check_subscribe_rate(services.policies.value, topic, services.limits.rate_limits.subscribes, consumer, services.clock_ms())


async def open_subscription(
    service: Broker, principal: Principal, topic: Topic, name: str, *, start: Position, properties: dict[str, str] | None = None
) -> Subscription:
    """The durable subscription, made where there is none: its first entry is at `start`."""
    known = topic.subscriptions.table.get(name)
    if known is not None:
        return known
    check_creation_by_use(topic.services.policies.value, topic, name)
    try:
        made = await topic.subscriptions.create(name, start, properties)
    except MetaConflict:
        known = topic.subscriptions.table.get(name)
        if known is None:
            raise NotReady(f"subscription {name!r} was deleted meanwhile: subscribe again") from None
        return known
    service.audit.created(principal, topic, made)
    return made


async def delete_subscription(service: Broker, principal: Principal, topic: Topic, subscription: Subscription) -> None:
    mark_delete, there = subscription.cursor.mark_delete, topic.subscriptions.holds(subscription)
    await topic.subscriptions.delete(subscription.key)
    if there and subscription.durable:
        service.audit.deleted(principal, topic, subscription.name, mark_delete)


async def seek_subscription(
    service: Broker, principal: Principal, topic: Topic, subscription: Subscription, target: SeekTarget
) -> None:
    before = subscription.cursor.mark_delete
    await topic.subscriptions.seek(subscription, target)
    if subscription.durable:
        service.audit.sought(principal, topic, subscription, before)
