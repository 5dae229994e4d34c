"""Admin RPC: subscriptions."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable

from messaging.adminrpc import schema
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.entry_lookup import entry_at, mark_delete_at_time, mark_delete_before_broker_time
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import Conflict, InvalidValue, NotFound, NotReady, StorageFailed
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import UNPACKED_TIMES_MAX, unpack, unpacked_bytes
from messaging.protocol.frames import ProtocolError, Stored, as_text
from messaging.protocol.names import subscription_name
from messaging.storage.ledger_store import EARLIEST, Position, StoreError
from messaging.storage.meta_store import MetaConflict


class SubscriptionRpc(Broker):
    async def subscriptions_list(self, request: schema.TopicRef) -> schema.SubscriptionNames:
        name = await self.admin_name(request.topic)
        held = await self.topics.partitioned.get(name)
        found: set[str] = set()
        for one in [name.of_partition(index) for index in range(held.partitions)] if held else [name]:
            topic = await self.topics.get(one, create=held is not None)
            found.update(topic.subscriptions)
        return schema.SubscriptionNames(subscriptions=sorted(found))

    async def subscriptions_create(self, request: schema.SubscriptionCreate) -> schema.SubscriptionMoved:
        """On a partitioned topic: on every partition."""
        name = await self.admin_name(request.topic)
        subscription = subscription_name(request.subscription)
        held = await self.topics.partitioned.get(name)
        if held is None:
            targets = [await self.topics.get(name, create=self.auto_creates(name))]
        else:
            targets = [await self.topics.get(name.of_partition(index), create=True) for index in range(held.partitions)]
        if all(subscription in topic.subscriptions for topic in targets):
            raise Conflict(f"subscription {subscription!r} already exists on {name}")
        start = EARLIEST if request.ledger_id < 0 else Position(request.ledger_id, request.entry_id)
        made = []
        for topic in targets:
            if subscription in topic.subscriptions:
                continue
            try:
                made.append((topic, await topic.create_subscription(subscription, start, request.properties)))
            except MetaConflict:
                continue  # a client was faster
        places = _places(made)
        return _answer(made, [""] * len(places), places)

    async def subscriptions_delete(self, request: schema.SubscriptionDelete) -> schema.SubscriptionMoved:
        pairs = await self._each(request.topic, request.subscription)
        before = _places(pairs)
        for topic, subscription in pairs:
            await topic.delete_subscription(subscription.name, force=request.force)
        return _answer(pairs, before, [""] * len(before))

    async def subscriptions_skip(self, request: schema.SubscriptionSkip) -> schema.SubscriptionMoved:
        pairs = await self._each(request.topic, request.subscription)
        before = _places(pairs)
        for topic, subscription in pairs:
            target = topic.ledger_list.last if request.entries is None else _ahead(subscription, request.entries)
            await self._acknowledge_up_to(topic, subscription, target)
        return _moved(pairs, before)

    async def subscriptions_reset(self, request: schema.SubscriptionReset) -> schema.SubscriptionMoved:
        pairs = await self._each(request.topic, request.subscription)
        before = _places(pairs)
        for topic, subscription in pairs:
            if request.timestamp_ms is not None:
                mark_delete = await mark_delete_at_time(topic, request.timestamp_ms)
            elif request.ledger_id is not None and request.entry_id is not None:
                start = EARLIEST if request.ledger_id < 0 else Position(request.ledger_id, request.entry_id)
                mark_delete = topic.mark_delete_for(start)
            else:
                raise InvalidValue("a reset names timestamp_ms, or ledger_id and entry_id")
            await topic.seek(subscription, mark_delete)
        return _moved(pairs, before)

    async def subscriptions_expire(self, request: schema.SubscriptionExpire) -> schema.SubscriptionMoved:
        cutoff_ms = self.storage.safe_expiry_ms() - request.older_than_s * 1000
        if request.subscription:
            pairs = await self._each(request.topic, request.subscription)
        else:
            name = await self.admin_name(request.topic)
            held = await self.topics.partitioned.get(name)
            targets = [name.of_partition(index) for index in range(held.partitions)] if held else [name]
            topics = [await self.topics.get(one, create=False) for one in targets]
            pairs = [(topic, one) for topic in topics for one in topic.subscriptions.values()]
        before = _places(pairs)
        for topic, subscription in pairs:
            await self.expire(topic, subscription, cutoff_ms)
        return _moved(pairs, before) if request.subscription else schema.SubscriptionMoved()

    async def expire(self, topic: Topic, subscription: Subscription, cutoff_ms: int) -> int:
        """Counts what the broker stored before `cutoff_ms` as consumed. Returns how many entries that were."""
        if not subscription.backlog_entries:
            return 0
        last = await mark_delete_before_broker_time(topic, cutoff_ms)
        if topic.subscriptions.get(subscription.name) is not subscription:
            return 0  # deleted while the position was looked up
        topic.check_open()
        before = subscription.backlog_entries  # again: acknowledgements came in meanwhile
        delta = subscription.acknowledge_up_to(last, self.now_ms())
        if not delta:
            return 0
        expired = before - subscription.backlog_entries
        subscription.entries_expired += expired
        subscription.last_expired_ms = self.now_ms()
        await self._store(topic, subscription, delta)
        return expired

    async def subscriptions_peek(self, request: schema.SubscriptionPeek) -> schema.PeekAnswer:
        """The n-th unacknowledged entry, counted from 1."""
        topic = await self.admin_topic(request.topic)
        subscription = topic.subscription(request.subscription)
        if request.position < 1:
            raise InvalidValue("a position counts from 1")
        position = _nth_open(subscription, request.position)
        stored = await entry_at(topic, position) if position is not None else None
        if position is None or stored is None:
            raise NotFound(f"subscription {subscription.name!r} has no unacknowledged entry number {request.position}")
        headers = {"X-Pulsar-Message-ID": f"{position.ledger_id}:{position.entry_id}", **_peeked(stored, self.time_text)}
        try:
            payload = await self._unpacked(topic, stored)
        except ProtocolError as error:
            payload = stored.payload
            headers |= {"X-Magnetar-Unreadable": str(error), **_packed(stored.metadata)}
        return schema.PeekAnswer(
            ledger_id=position.ledger_id,
            entry_id=position.entry_id,
            payload=base64.b64encode(payload).decode(),
            headers=headers,
        )

    async def _unpacked(self, topic: Topic, stored: Stored) -> bytes:
        """The payload decompressed, on a thread, charged before it is made; an encrypted one as it is. Raises `ProtocolError`, and
        `NotReady` where there is no memory for it now."""
        size = unpacked_bytes(stored, self.settings.message_bytes_max * UNPACKED_TIMES_MAX)
        account, tenant = self.memory_limiter.egress, topic.name.tenant
        if size and not account.allows(tenant, size):
            raise NotReady(f"there is no memory for the {size} bytes of this message now: try again in a moment")
        account.take(tenant, size)
        try:
            return await asyncio.to_thread(unpack, stored, size)
        finally:
            account.give(tenant, size)

    async def _each(self, topic_text: str, subscription: str) -> list[tuple[Topic, Subscription]]:
        """The subscription on the topic, or on each partition. Raises `SubscriptionNotFound` where none has it."""
        name = await self.admin_name(topic_text)
        held = await self.topics.partitioned.get(name)
        if held is None:
            topic = await self.topics.get(name, create=False)
            return [(topic, topic.subscription(subscription))]
        topics = [await self.topics.get(name.of_partition(index), create=True) for index in range(held.partitions)]
        pairs = [(topic, topic.subscriptions[subscription]) for topic in topics if subscription in topic.subscriptions]
        if not pairs:
            topics[0].subscription(subscription)
        return pairs

    async def _acknowledge_up_to(self, topic: Topic, subscription: Subscription, last: Position) -> None:
        """Raises where there is nothing any more to acknowledge in: what a closed topic is told is not remembered."""
        topic.check_current(subscription)
        await self._store(topic, subscription, subscription.acknowledge_up_to(last, self.now_ms()))

    async def _store(self, topic: Topic, subscription: Subscription, delta: bytes) -> None:
        stored: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        topic.store(subscription, delta, lambda error: None if stored.done() else stored.set_result(error))
        error = await stored
        if error is not None:
            raise StorageFailed(f"the change of subscription {subscription.name!r} is not stored: {error}")
        topic.dispatcher.dispatch(subscription)


def _places(pairs: list[tuple[Topic, Subscription]]) -> list[str]:
    """Mark-delete positions, of as many as are shown."""
    found = [subscription.cursor.mark_delete for _, subscription in pairs[: schema.MOVED_SHOWN]]
    return [f"{position.ledger_id}:{position.entry_id}" for position in found]


def _moved(pairs: list[tuple[Topic, Subscription]], before: list[str]) -> schema.SubscriptionMoved:
    return _answer(pairs, before, _places(pairs))


def _answer(pairs: list[tuple[Topic, Subscription]], before: list[str], after: list[str]) -> schema.SubscriptionMoved:
    topics = [topic.text for topic, _ in pairs]
    return schema.SubscriptionMoved(moved=dict(zip(topics, zip(before, after, strict=True), strict=False)))


def _ahead(subscription: Subscription, entries: int) -> Position:
    """The position up to which `entries` more unacknowledged entries lie."""
    position = _nth_open(subscription, entries)
    return position if position is not None else subscription.ledger_list.last


def _nth_open(subscription: Subscription, number: int) -> Position | None:
    ledger_list, cursor = subscription.ledger_list, subscription.cursor
    position = ledger_list.resolve(ledger_list.next_after(cursor.mark_delete))
    left = number
    while ledger_list.holds(position):
        last = ledger_list.last_of(position.ledger_id)
        for first, stop in cursor.unacked_ranges(position.ledger_id, position.entry_id, last):
            if left <= stop - first + 1:
                return Position(position.ledger_id, first + left - 1)
            left -= stop - first + 1
        position = ledger_list.next_after(Position(position.ledger_id, last))
    return None


def _packed(metadata: pb.Metadata) -> dict[str, str]:
    """For a payload that comes as it is stored."""
    return {
        "X-Pulsar-compression": pb.Compression.Name(metadata.compression),
        "X-Pulsar-uncompressed-size": str(metadata.uncompressed_size),
    }


def _peeked(stored: Stored, time_text: Callable[[int], str]) -> dict[str, str]:
    """Pulsar's headers for a peeked entry; a batch is left for the client to split."""
    metadata = stored.metadata
    headers = {"X-Pulsar-publish-time": time_text(metadata.publish_time), "X-Pulsar-producer-name": as_text(metadata.producer_name)}
    headers["X-Pulsar-sequence-id"] = str(metadata.sequence_id)
    if metadata.event_time:
        headers["X-Pulsar-event-time"] = time_text(metadata.event_time)
    if metadata.HasField("partition_key"):
        headers["X-Pulsar-partition-key"] = as_text(metadata.partition_key)
        headers["X-Pulsar-partition-key-b64-encoded"] = str(metadata.partition_key_b64_encoded).lower()
    if metadata.HasField("num_messages_in_batch"):
        headers["X-Pulsar-num-batch-message"] = str(metadata.num_messages_in_batch)
        headers["X-Pulsar-batch-size"] = str(len(stored.payload))
    if metadata.null_value:
        headers["X-Pulsar-null-value"] = "true"
    properties = {as_text(pair.key): as_text(pair.value) for pair in metadata.properties}
    if properties:
        headers["X-Pulsar-PROPERTY"] = json.dumps(properties)
        headers.update({f"X-Pulsar-PROPERTY-{key}": value for key, value in properties.items()})
    if metadata.encryption_keys:
        headers |= _packed(metadata)
    return headers
