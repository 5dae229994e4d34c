"""A consumer inside the broker's process: only here does the broker open batches, because these clients take single messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from itertools import islice

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.ack_sets import bits_of
from messaging.broker.core.cursors.ack_validation import MessageAck
from messaging.broker.core.delayed.gathered_block import GatheredBlock
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.non_persistent import MESSAGE_ID
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.client_subscriptions import delete_subscription
from messaging.broker.runtime.local.messages import (
    ConsumerListener,
    DeliveredMessage,
    InitialPosition,
    MessagePosition,
)
from messaging.broker.runtime.local.open_batches import OpenBatches, words
from messaging.broker.runtime.local.shared_permits import SharedPermits
from messaging.broker.runtime.local.unpacking import Packed, Unpacker
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import MagnetarError, NotReady, PreconditionFailed
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol.batch import UNPACKED_TIMES_MAX
from messaging.storage.ledger_store import EARLIEST, Position

PRUNE_AT = 1024  # batches held before those that others acknowledged are looked for


class LocalConsumer:
    """A `ConsumerHandle` to its client, a `messaging.broker.core.consumer.ConsumerSink` to the subscription, and an `OpenSession`
    to the permission checks.

    `shared`: it is one of several consumers of a client, which has asked for that much together; without it, `flow` asks.
    `wanted`: of batches of which the client had a part before it was opened, a bit for each message that it did not have."""

    action = Action.CONSUME
    remote = False

    def __init__(
        self,
        service: Broker,
        topic: Topic,
        subscription: Subscription,
        sink: ConsumerListener,
        principal: Principal,
        name: str = "",
        priority: int = 0,
        *,
        shared: SharedPermits | None = None,
        wanted: Mapping[Position, int] | None = None,
    ) -> None:
        self.service = service
        self.topic = topic
        self.subscription = subscription
        self.principal = principal
        self.open = True
        self._stopped = self._leaves = False
        self._sink = sink
        self.consumer = Consumer(0, name or service.new_producer_name(), self, priority=priority, now_ms=service.now_ms())
        self.consumer.session = None if principal.service else self
        self._batches = OpenBatches(self._charge)
        self._shared = shared
        self._asked_for = shared or SharedPermits()
        self._wanted = wanted or {}
        self._prune_at = PRUNE_AT
        self._unpacker = Unpacker(
            service.memory_limiter.egress,
            principal.tenant,
            service.settings.message_bytes_max * UNPACKED_TIMES_MAX,
            topic.name.partition,
            asked_for=self._asked_for,
            turns=service.unpacking,
            deliver=self._hand_over,
            open_bits=self._open_bits,
            finished=self._entry_finished,
        )

    @property
    def resource(self) -> Resource:
        return self.topic.resource(self.subscription.name)

    def flow(self, permits: int) -> None:
        if self.open and not self._stopped:
            self._asked_for.ask(permits)
            self.topic.consumers.flow(self.subscription, self.consumer, permits)

    def serve(self, permits: int) -> None:
        missing = permits - self.consumer.permits
        if not self.open or self._stopped:
            return
        if missing > 0:
            self.topic.consumers.flow(self.subscription, self.consumer, missing)
        else:
            self.topic.consumers.wake(self.subscription, self.consumer)

    def ack(self, positions: Sequence[MessagePosition]) -> Awaitable[None]:
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._stopped:
            stored.set_exception(_closed())
            stored.exception()  # whoever does not wait for it need not hear of it
            return stored
        parts: dict[Position, list[int]] = {}
        asked: list[MessageAck] = []
        sizes: dict[Position, int] = {}
        for acked in positions:
            if acked.batch_index < 0:
                asked.append(MessageAck(Position(acked.ledger_id, acked.entry_id)))
            else:
                parts.setdefault(Position(acked.ledger_id, acked.entry_id), []).append(acked.batch_index)
        for position, indexes in parts.items():
            size = self._batches.size_of(position)
            left = self._batches.acknowledge(position, indexes)
            if size is not None and left is not None:
                asked.append(MessageAck(position, words(left)))
                sizes[position] = size
        self.service.acknowledgements += len(asked)

        def done(error: MagnetarError | None) -> None:
            if stored.done():
                return
            if error is None:
                stored.set_result(None)
                return
            stored.set_exception(error)
            stored.exception()  # whoever does not wait for it need not hear of it

        rest = self.topic.acknowledgements.acknowledge_each(self.subscription, self.consumer, asked, done, sizes)
        assert rest is None, "the sizes of all batches are known: this consumer opened them"
        return stored

    def nack(self, positions: Sequence[MessagePosition]) -> None:
        if self.open and not self._stopped:
            self.topic.acknowledgements.redeliver(
                self.subscription, self.consumer, [Position(position.ledger_id, position.entry_id) for position in positions]
            )

    async def unsubscribe(self) -> None:
        if self._stopped:
            raise _closed()
        self.check_alone()
        self.close()
        await delete_subscription(self.service, self.principal, self.topic, self.subscription)

    def check_alone(self) -> None:
        """Raises `PreconditionFailed` if its subscription has other consumers."""
        if len(self.subscription.consumers) > 1:
            raise PreconditionFailed(f"subscription {self.subscription.name!r} has other consumers: close them first")

    @property
    def continues(self) -> bool:
        """Without a durable subscription nobody else knows how far it was."""
        return not self.subscription.durable and self.topic.keeps_messages

    def continue_from(self, batches_max: int) -> tuple[InitialPosition, MessagePosition | None, dict[Position, int]]:
        """For one that takes its place: after what is acknowledged without a gap, and of up to so many batches behind it a bit for
        each message that is not."""
        cursor = self.subscription.cursor
        start = None if cursor.mark_delete == EARLIEST else MessagePosition(*cursor.mark_delete)
        return "earliest", start, {position: bits_of(words) for position, words in islice(cursor.batches.items(), batches_max)}

    def unacknowledged_ledgers(self) -> Iterator[int]:
        """Those of which its subscription may have messages that were not acknowledged."""
        if self.topic.keeps_messages:
            done = self.subscription.cursor.mark_delete.ledger_id
            yield from (ledger_id for ledger_id in self.topic.ledger_list.ids if ledger_id >= done)

    def leave(self) -> None:
        """Its client is gone: nothing is taken or handed over, and whoever wants its place gets it. `close` follows."""
        self._stopped = self._leaves = True

    def answers(self) -> None:
        """Somebody is in want of its place."""
        if self._leaves:
            self.close()

    def close(self) -> None:
        if self.open:
            self.open = False
            self._asked_for.discard(self)
            self._unpacker.close()
            self._batches.clear()
            self.service.peers.sessions.discard(self)
            self.topic.consumers.detach(self.subscription, self.consumer)

    # --- from the subscription

    @property
    def writable(self) -> bool:
        """Not while it has been given as many batches as it may hold unacknowledged, nor while there is no room in what its client
        asked for. It is served when there is some."""
        if self._stopped:
            return False
        if self._shared is not None and self._shared.room <= 0:
            self._shared.due(self)
            return False
        return len(self._batches) < self.subscription.unacked.consumer_max

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, redelivery_counts: list[int] | None) -> int:
        size, keeps = 0, self.topic.keeps_messages
        for index in range(first, last):
            payload = block.payload(block.first_entry + index)
            size += len(payload)
            self._unpacker.add(
                Packed(
                    Position(block.ledger_id, block.first_entry + index) if keeps else MESSAGE_ID,
                    payload,
                    block.broker_time_ms,
                    redelivery_counts[index - first] if redelivery_counts else 0,
                    self.subscription.state.unacked_messages_in(block, index),
                )
            )
        if self._shared is not None:
            self._shared.due(self)
        return size

    def deliver_picked(self, consumer: Consumer, block: EntryBlock, picked: list[int], redelivery_counts: list[int] | None) -> int:
        counts = [None] * len(picked) if redelivery_counts is None else [[count] for count in redelivery_counts]
        if isinstance(block, GatheredBlock):
            return sum(self.deliver(consumer, block.single(at), 0, 1, count) for at, count in zip(picked, counts, strict=True))
        return sum(self.deliver(consumer, block, index, index + 1, count) for index, count in zip(picked, counts, strict=True))

    def _open_bits(self, position: Position, size: int) -> int:
        if not self.topic.keeps_messages:
            return (1 << size) - 1
        wanted = self._wanted.get(position, -1)
        if len(self._batches) >= self._prune_at:
            self._batches.discard_if(self.subscription.cursor.acknowledged)
            self._prune_at = max(PRUNE_AT, 2 * len(self._batches))
        bits = self._batches.add(position, size, self.subscription.cursor.batches.get(position), wanted)
        if not bits and wanted != -1:  # nobody will acknowledge it
            asyncio.get_running_loop().call_soon(self.ack, [MessagePosition(*position)])
        return bits

    def _entry_finished(self, unused_permits: int) -> None:
        """What was not handed over takes no permits."""
        if unused_permits and self.open:
            self.topic.consumers.return_permits(self.subscription, self.consumer, unused_permits)

    def _hand_over(self, messages: Sequence[DeliveredMessage]) -> None:
        if self.open and not self._stopped:
            self._sink.deliver(messages)

    def _charge(self, size: int) -> None:
        account, tenant = self.service.memory_limiter.sessions, self.principal.tenant
        if size > 0:
            account.take(tenant, size)
        else:
            account.give(tenant, -size)

    def active_changed(self, consumer: Consumer, active: bool) -> None:
        pass

    def end_of_topic(self, consumer: Consumer) -> None:
        asyncio.get_running_loop().call_soon(self._say_end)

    def _say_end(self) -> None:
        if self.open:
            self._sink.end_of_topic()

    def closed(self, consumer: Consumer) -> None:
        self.end(self.topic.closed or NotReady("the subscription was moved or closed: open the consumer again"))

    def stop(self) -> None:
        """From now on nothing is taken or handed over; `end` follows."""
        self._stopped = True

    def end(self, error: MagnetarError) -> None:
        if self.open:
            self.close()
            self._sink.closed(error)


def _closed() -> NotReady:
    return NotReady("the consumer is closed: open it again")
