"""Changes that clients make to durable subscriptions, with their audit records, for the binary protocol and WebSockets alike."""

from __future__ import annotations

from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.admission import check_creation_by_use
from messaging.broker.runtime.topics.topic import LATEST, Topic
from messaging.errors import NotAllowed
from messaging.permissions.model import Principal
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.meta_store import MetaConflict


async def open_subscription(
    service: Broker, principal: Principal, topic: Topic, name: str, *, earliest: bool, properties: dict[str, str] | None = None
) -> Subscription:
    """The durable subscription, made where there is none."""
    held = topic.subscriptions.get(name)
    if held is not None:
        return held
    check_creation_by_use(topic.services.policy, topic, name)
    try:
        made = await topic.create_subscription(name, EARLIEST if earliest else LATEST, properties)
    except MetaConflict:
        held = topic.subscriptions.get(name)
        if held is None or not held.durable:
            raise NotAllowed(f"subscription {name!r} already exists and is not durable: use another name") from None
        return held
    service.audit.created(principal, topic, made)
    return made


async def delete_subscription(service: Broker, principal: Principal, topic: Topic, subscription: Subscription) -> None:
    mark_delete, there = subscription.cursor.mark_delete, topic.subscriptions.get(subscription.name) is subscription
    await topic.delete_subscription(subscription.name)
    if there and subscription.durable:
        service.audit.deleted(principal, topic, subscription.name, mark_delete)


async def seek_subscription(
    service: Broker, principal: Principal, topic: Topic, subscription: Subscription, mark_delete: Position
) -> None:
    before = subscription.cursor.mark_delete
    await topic.seek(subscription, mark_delete)
    if subscription.durable:
        service.audit.sought(principal, topic, subscription, before)
