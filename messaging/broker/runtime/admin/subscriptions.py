"""Admin RPC: subscriptions. On a partitioned topic each call acts on every partition."""

from __future__ import annotations

from messaging.adminrpc.base import Empty
from messaging.adminrpc.methods import (
    SUBSCRIPTIONS_CREATE,
    SUBSCRIPTIONS_DELETE,
    SUBSCRIPTIONS_EXPIRE,
    SUBSCRIPTIONS_LIST,
    SUBSCRIPTIONS_PEEK,
    SUBSCRIPTIONS_PROPERTIES,
    SUBSCRIPTIONS_RESET,
    SUBSCRIPTIONS_SET_PROPERTIES,
    SUBSCRIPTIONS_SKIP,
)
from messaging.adminrpc.subscriptions import (
    MOVED_SHOWN,
    PeekAnswer,
    SubscriptionCreate,
    SubscriptionDelete,
    SubscriptionExpire,
    SubscriptionMoved,
    SubscriptionNames,
    SubscriptionPeek,
    SubscriptionProperties,
    SubscriptionPropertiesSet,
    SubscriptionRef,
    SubscriptionReset,
    SubscriptionSkip,
)
from messaging.adminrpc.topics import TopicRef
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.admin import positions
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import parts_of, stored_topic_name, topic_name
from messaging.broker.runtime.admin.peek import peek
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.persistent import persistent
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import Conflict, InvalidValue
from messaging.protocol.names import subscription_name
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.meta_store import MetaConflict

Held = tuple[Topic, Subscription]

_LATEST = 2**63 - 1


class SubscriptionHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(SUBSCRIPTIONS_LIST)
    async def list_names(self, request: TopicRef) -> SubscriptionNames:
        parts = await parts_of(self._broker, await topic_name(self._broker, request.topic))
        found: set[str] = set()
        for name in parts.names:
            topic = await self._broker.topics.get(name, create=parts.partitioned)
            found.update(held.name for held in topic.subscriptions.table.values())
        return SubscriptionNames(subscriptions=sorted(found))

    @answers(SUBSCRIPTIONS_CREATE)
    async def create(self, request: SubscriptionCreate) -> SubscriptionMoved:
        name = await stored_topic_name(self._broker, request.topic, "creating a subscription without a consumer on", InvalidValue)
        subscription = subscription_name(request.subscription)
        create = self._broker.policies.auto_creates_topics(name)
        if create:
            await self._broker.partition_count(name, auto_create=True)  # which creates a partitioned topic where that is the policy
        parts = await parts_of(self._broker, name)
        create = create or parts.partitioned
        targets = [await self._broker.topics.get(one, create=create) for one in parts.names]
        if all(subscription in topic.subscriptions.table for topic in targets):
            raise Conflict(f"subscription {subscription!r} already exists on {name}")
        start = EARLIEST if request.ledger_id < 0 else Position(request.ledger_id, request.entry_id)
        made = []
        for topic in targets:
            if subscription in topic.subscriptions.table:
                continue
            try:
                made.append((topic, await topic.subscriptions.create(subscription, start, request.properties)))
            except MetaConflict:
                continue  # a client was faster
        places = _places(made)
        return _answer(made, [""] * len(places), places)

    @answers(SUBSCRIPTIONS_DELETE)
    async def delete(self, request: SubscriptionDelete) -> SubscriptionMoved:
        pairs = await self._each(request.topic, request.subscription)
        before = _places(pairs)
        for topic, subscription in pairs:
            await topic.subscriptions.delete(subscription.key, force=request.force)
        return _answer(pairs, before, [""] * len(before))

    @answers(SUBSCRIPTIONS_SKIP)
    async def skip(self, request: SubscriptionSkip) -> SubscriptionMoved:
        await stored_topic_name(self._broker, request.topic, "skipping messages of")
        pairs = await self._each(request.topic, request.subscription)
        before = _places(pairs)
        for topic, subscription in pairs:
            target = topic.ledger_list.last if request.entries is None else positions.position_ahead(subscription, request.entries)
            await persistent(topic).acknowledgements.skip_to(subscription, target)
        return _moved(pairs, before)

    @answers(SUBSCRIPTIONS_RESET)
    async def reset(self, request: SubscriptionReset) -> SubscriptionMoved:
        pairs = await self._each(request.topic, request.subscription)
        before = _places(pairs)
        for topic, subscription in pairs:
            if request.timestamp_ms is not None:
                mark_delete = await topic.entries.mark_delete_at_time(request.timestamp_ms)
            elif request.ledger_id is not None and request.entry_id is not None:
                entry_id = request.entry_id + (1 if request.excluded and request.entry_id < _LATEST else 0)
                start = EARLIEST if request.ledger_id < 0 else Position(request.ledger_id, entry_id)
                mark_delete = topic.ledger_list.mark_for(start)
            else:
                raise InvalidValue("a reset needs timestamp_ms, or ledger_id and entry_id")
            await topic.subscriptions.seek(subscription, SeekTarget(mark_delete))
        return _moved(pairs, before)

    @answers(SUBSCRIPTIONS_EXPIRE)
    async def expire(self, request: SubscriptionExpire) -> SubscriptionMoved:
        await stored_topic_name(self._broker, request.topic, "expiring messages of")
        cutoff_ms = self._broker.storage.safe_expiry_ms() - request.older_than_s * 1000
        if request.subscription:
            pairs = await self._each(request.topic, request.subscription)
        else:
            parts = await parts_of(self._broker, await topic_name(self._broker, request.topic))
            topics = [await self._broker.topics.get(name, create=False) for name in parts.names]
            pairs = [(topic, one) for topic in topics for one in topic.subscriptions.table.values()]
        before = _places(pairs)
        issued = not request.subscription
        by_topic: dict[Topic, list[Subscription]] = {}
        for topic, subscription in pairs:
            by_topic.setdefault(topic, []).append(subscription)
        for topic, subscriptions in by_topic.items():
            if request.ledger_id is not None and request.entry_id is not None:
                issued = True
                last = Position(request.ledger_id, request.entry_id - int(request.excluded))
                await persistent(topic).acknowledgements.expire_each_up_to(subscriptions, min(last, topic.ledger_list.last))
            else:
                issued |= any(map(positions.may_expire, subscriptions))
                issued |= await positions.expire(persistent(topic), subscriptions, cutoff_ms) > 0
        if not issued:
            raise Conflict(
                f"no message of {request.topic} expired for subscription {request.subscription!r}: "
                "it has no backlog, or a small one that its consumers are about to receive"
            )
        return _moved(pairs, before) if request.subscription else SubscriptionMoved()

    @answers(SUBSCRIPTIONS_PROPERTIES)
    async def properties(self, request: SubscriptionRef) -> SubscriptionProperties:
        properties: dict[str, str] = {}
        for _, subscription in await self._each(request.topic, request.subscription):
            properties |= subscription.properties
        return SubscriptionProperties(properties=properties)

    @answers(SUBSCRIPTIONS_SET_PROPERTIES)
    async def set_properties(self, request: SubscriptionPropertiesSet) -> Empty:
        for topic, subscription in await self._each(request.topic, request.subscription):
            await topic.subscriptions.set_properties(subscription, request.properties)
        return Empty()

    @answers(SUBSCRIPTIONS_PEEK)
    async def peek(self, request: SubscriptionPeek) -> PeekAnswer:
        return await peek(self._broker, request)

    async def _each(self, topic_text: str, subscription: str) -> list[Held]:
        """The subscription on the topic, or on each partition. Raises `SubscriptionNotFound` where none has it."""
        parts = await parts_of(self._broker, await topic_name(self._broker, topic_text))
        topics = [await self._broker.topics.get(name, create=parts.partitioned) for name in parts.names]
        pairs = [(topic, held) for topic in topics if (held := topic.subscriptions.find(subscription)) is not None]
        if not pairs:
            topics[0].subscriptions.named(subscription)
        return pairs


def _places(pairs: list[Held]) -> list[str]:
    """Mark-delete positions, of as many as are shown."""
    marks = [subscription.cursor.mark_delete for _, subscription in pairs[:MOVED_SHOWN]]
    return [f"{position.ledger_id}:{position.entry_id}" for position in marks]


def _moved(pairs: list[Held], before: list[str]) -> SubscriptionMoved:
    return _answer(pairs, before, _places(pairs))


def _answer(pairs: list[Held], before: list[str], after: list[str]) -> SubscriptionMoved:
    topics = [topic.text for topic, _ in pairs]
    return SubscriptionMoved(moved=dict(zip(topics, zip(before, after, strict=True), strict=False)))
