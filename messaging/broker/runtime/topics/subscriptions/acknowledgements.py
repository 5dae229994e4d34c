"""Acknowledgements: checked, applied to the subscription, stored, and what they made possible dispatched. Those of consumers, also
negative ones, and those that administrators and maintenance make for nobody.

If the size of a batch is unknown, the entry is read first and the request completes afterwards. Such requests may overtake each
other: acknowledgements only ever add to what is acknowledged, so their order does not matter.

A topic that is being closed takes none: its cursors may be saved by then, and whoever has it next, here or at another broker, goes
on from there. Consumers of one that moves stay attached until it is known where to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.ack_validation import (
    CumulativeAck,
    IndividualAcks,
    MessageAck,
    check_cumulative,
    check_individual,
)
from messaging.broker.core.diagnosis.trace import DeliveryEvent
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.dispatch.dispatcher import Dispatcher
from messaging.broker.runtime.topics.subscriptions.topic_subscriptions import TopicSubscriptions
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.errors import InvalidValue, MagnetarError, NotReady, QuotaExceeded, StorageFailed
from messaging.storage.ledger_store import Position, StoreError

# Called once, when everything is durable: with the failure of the store, or why the first id that was refused was.
AckDone = Callable[[MagnetarError | None], None]
AfterReading = Coroutine[Any, Any, None] | None  # the remaining work if batch sizes must be read first

EXPIRED_AT_ONCE = 100  # subscriptions whose changes share a commit


class AcknowledgedTopic(TopicContext, Protocol):
    """The interface of the topic that acknowledgements need."""

    @property
    def dispatcher(self) -> Dispatcher: ...

    @property
    def subscriptions(self) -> TopicSubscriptions: ...


def subscription_gone() -> NotReady:
    """The refusal of what comes after the consumer was closed or while its topic moves."""
    return NotReady("the subscription was closed or moved meanwhile: acknowledge again")


class AckRequest(NamedTuple):
    """The consumer that acknowledges. `sizes`: the batch sizes that the consumer itself remembers."""

    topic: TopicContext
    subscription: Subscription
    consumer: Consumer
    now_ms: int
    sizes: dict[Position, int]
    resets: int  # of the subscription when the consumer asked

    @property
    def gone(self) -> bool:
        gone = self.topic.closed is not None or not self.topic.subscriptions.holds(self.subscription)
        return gone or self.subscription.resets != self.resets

    def size_of(self, position: Position) -> int | None:
        """The number of messages in an existing entry if the consumer or memory has it; reads nothing from disk."""
        if position in self.sizes:
            return self.sizes[position]
        if position.entry_id in self.consumer.held.get(position.ledger_id, ()):
            return self.consumer.held_batches.get(position, 1)
        block = self.topic.entries.in_memory(position)
        return block.messages_of(position.entry_id) if block is not None else None

    async def read_sizes(self, asked: Sequence[MessageAck]) -> tuple[list[MessageAck], str]:
        """Reads the batch sizes. Returns those that could be read, and the reason for the first one that could not."""
        known, unread = [], ""
        for ack in asked:
            try:
                block = await self.topic.entries.block_at(ack.position)
            except StorageFailed as error:
                unread = unread or error.message
                continue
            if block is None:
                unread = unread or f"entry {ack.position.ledger_id}:{ack.position.entry_id} does not exist any more"
                continue
            self.sizes[ack.position] = block.messages_of(ack.position.entry_id)
            known.append(ack)
        return known, unread

    def apply(self, acks: IndividualAcks) -> tuple[list[bytes], str]:
        """Returns the deltas, and the reason for the first acknowledgement that was refused."""
        deltas, refused = [], acks.refused
        for position, words in acks.partial.items():
            delta, why = self._apply_part(position, words)
            deltas.append(delta)
            refused = refused or why
        for ledger_id, entries in acks.whole.items():
            deltas.append(self.subscription.acknowledge(self.consumer, ledger_id, entries, self.now_ms))
            for entry_id in entries if self.sizes else ():
                self.sizes.pop(Position(ledger_id, entry_id), None)
        return deltas, refused

    def apply_up_to(self, ack: CumulativeAck) -> tuple[list[bytes], str]:
        self.consumer.last_acked_ms = self.now_ms
        deltas = [self.subscription.acknowledge_up_to(ack.position, self.now_ms)]
        if deltas[0]:
            self.subscription.last_advanced_ms = self.now_ms
        if ack.entry is None:
            return deltas, ""
        delta, refused = self._apply_part(ack.entry, ack.words)
        return [*deltas, delta], refused

    def _apply_part(self, position: Position, words: Sequence[int]) -> tuple[bytes, str]:
        if not self.topic.services.limits.acknowledges_parts:  # as in Pulsar, which says nothing: the whole entry stays
            return b"", ""
        try:
            return self.subscription.acknowledge_batch(self.consumer, position, words, self.now_ms), ""
        except QuotaExceeded as error:
            return b"", error.message


class Acknowledgements:
    """Of one topic."""

    __slots__ = ("_topic",)

    def __init__(self, topic: AcknowledgedTopic) -> None:
        self._topic = topic

    def acknowledge(self, subscription: Subscription, consumer: Consumer, ledger_id: int, entries: Sequence[int]) -> None:
        """Acknowledges whole entries of one ledger, without a response: the common case."""
        if self._topic.closed is not None:
            return
        try:
            delta = subscription.acknowledge(consumer, ledger_id, entries, self._topic.services.clock_ms())
        except Exception as error:
            self._topic.dispatcher.failed(subscription, error)
            raise
        self._topic.cursor_changes.finish(subscription, delta)

    def acknowledge_each(
        self,
        subscription: Subscription,
        consumer: Consumer,
        asked: Sequence[MessageAck],
        done: AckDone,
        sizes: dict[Position, int] | None = None,
    ) -> AfterReading:
        """Acknowledges each of `asked` on its own and skips those that cannot be acknowledged. What can be done immediately is
        done; if the size of a batch is unknown, the rest is returned as a coroutine that reads it first.
        """
        if self._topic.closed is not None:
            done(subscription_gone())
            return None
        request = AckRequest(
            self._topic,
            subscription,
            consumer,
            self._topic.services.clock_ms(),
            {} if sizes is None else sizes,
            subscription.resets,
        )
        checked = check_individual(asked, self._topic.ledger_list, subscription.cursor, request.size_of)
        deltas, refused = request.apply(checked)
        if checked.unknown:
            self._topic.cursor_changes.finish_all(subscription, deltas, None)
            return self._acknowledge_after_reading(request, checked.unknown, refused, done)
        self._topic.cursor_changes.finish_all(subscription, deltas, lambda error: done(_outcome(error, refused)))
        return None

    async def _acknowledge_after_reading(
        self, request: AckRequest, unknown: Sequence[MessageAck], refused_before: str, done: AckDone
    ) -> None:
        asked, unread = await request.read_sizes(unknown)
        if request.gone:
            done(subscription_gone())
            return
        subscription = request.subscription
        deltas, refused = request.apply(check_individual(asked, self._topic.ledger_list, subscription.cursor, request.size_of))
        why = refused_before or refused or unread
        self._topic.cursor_changes.finish_all(subscription, deltas, lambda error: done(_outcome(error, why)))

    def acknowledge_up_to(self, subscription: Subscription, consumer: Consumer, asked: MessageAck, done: AckDone) -> AfterReading:
        """Cumulative: acknowledges everything before the entry, and the messages of the entry that `asked` names."""
        if self._topic.closed is not None:
            done(subscription_gone())
            return None
        request = AckRequest(self._topic, subscription, consumer, self._topic.services.clock_ms(), {}, subscription.resets)
        return self._acknowledge_up_to(request, asked, done)

    def _acknowledge_up_to(self, request: AckRequest, asked: MessageAck, done: AckDone) -> AfterReading:
        checked = check_cumulative(asked, self._topic.ledger_list, request.subscription.cursor, request.size_of)
        if checked is None:
            return self._acknowledge_up_to_after_reading(request, asked, done)
        if isinstance(checked, str):
            done(InvalidValue(checked))
            return None
        deltas, refused = request.apply_up_to(checked)
        self._topic.cursor_changes.finish_all(request.subscription, deltas, lambda error: done(_outcome(error, refused)))
        return None

    async def _acknowledge_up_to_after_reading(self, request: AckRequest, asked: MessageAck, done: AckDone) -> None:
        known, unread = await request.read_sizes([asked])
        if request.gone:
            done(subscription_gone())
        elif not known:
            done(InvalidValue(unread))
        else:
            self._acknowledge_up_to(request, asked, done)

    def redeliver(self, subscription: Subscription, consumer: Consumer, positions: Iterable[Position] | None) -> None:
        """Redelivers `positions`, or, if None, everything the consumer has not acknowledged."""
        topic = self._topic
        redeliveries, cursor_memory = subscription.state.redeliveries, topic.services.memory.cursor_memory
        uncounted_before = redeliveries.uncounted
        try:
            subscription.redeliver(consumer, positions)
        except Exception as error:  # what it gave back is sent again all the same
            topic.dispatcher.failed(subscription, error)
        cursor_memory.uncounted_redeliveries += redeliveries.uncounted - uncounted_before
        cursor_memory.changed(topic.name.tenant, subscription)
        if subscription.dead_letters is not None:
            topic.services.events.dead_letters_due(topic, subscription)
        topic.dispatcher.dispatch_soon(subscription)

    # --- for nobody, by administrators and maintenance; durable when these return

    async def acknowledge_entries(self, subscription: Subscription, positions: Iterable[Position], why: DeliveryEvent) -> None:
        """Acknowledges entries that no consumer gets any more, such as moved dead letters. Raises `StorageFailed`."""
        topic = self._topic
        now_ms = topic.services.clock_ms()
        for position in positions:
            delta = subscription.acknowledge(None, position.ledger_id, (position.entry_id,), now_ms)
            topic.cursor_changes.store(subscription, delta)
            topic.dispatcher.log.record(why, subscription, position)
        await topic.cursor_changes.finish_durably(subscription, b"", "the change")

    async def skip_to(self, subscription: Subscription, last: Position) -> None:
        """Acknowledges everything up to `last`. Raises `StorageFailed`, and `NotReady` or `SubscriptionNotFound` if the topic or
        subscription is gone and the change would be lost.
        """
        self._topic.subscriptions.check_current(subscription)
        delta = subscription.acknowledge_up_to(last, self._topic.services.clock_ms())
        await self._topic.cursor_changes.finish_durably(subscription, delta, "the change")

    async def expire_each_up_to(self, subscriptions: Iterable[Subscription], last: Position) -> int:
        """`expire_up_to` for several; those that were deleted meanwhile are passed over. Some share a commit."""
        expired = 0
        waiting = iter(subscriptions)
        while some := [each for each in islice(waiting, EXPIRED_AT_ONCE) if self._topic.subscriptions.holds(each)]:
            for outcome in await asyncio.gather(*(self.expire_up_to(each, last) for each in some), return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                expired += outcome
        return expired

    async def expire_up_to(self, subscription: Subscription, last: Position) -> int:
        """Like `skip_to`, for expired messages. Returns the number of expired entries."""
        topic = self._topic
        now_ms, before, mark_delete = topic.services.clock_ms(), subscription.backlog_entries, subscription.cursor.mark_delete
        delta = subscription.acknowledge_up_to(last, now_ms)
        subscription.last_expired_ms = now_ms  # also where nothing was old enough: it tells when that was found out
        if not delta:
            return 0
        topic.mark_active()
        expired = before - subscription.backlog_entries
        subscription.entries_expired += expired
        topic.dispatcher.log.record_expired(subscription, mark_delete, expired)
        await topic.cursor_changes.finish_durably(subscription, delta, "the change")
        return expired

    async def expire_chunks(self, subscription: Subscription, silent_ms: int) -> int:
        """Acknowledges chunks of messages that nobody completed for `silent_ms`, such as those of a producer that ended in the
        middle of a message. Returns how many. Raises `StorageFailed`."""
        chunks = subscription.state.unfinished_chunks(self._topic.services.stores.storage.safe_expiry_ms(), silent_ms)
        if chunks:
            self._topic.mark_active()
            subscription.entries_expired += len(chunks)
            await self.acknowledge_entries(subscription, chunks, DeliveryEvent.EXPIRED)
        return len(chunks)


def _outcome(error: StoreError | None, refused: str) -> MagnetarError | None:
    if error is not None:
        return StorageFailed(f"the acknowledgement could not be stored: {error}")
    return InvalidValue(refused) if refused else None


class NoAcknowledgements:
    """Of a topic that keeps no messages: an acknowledgement means nothing and is answered at once."""

    __slots__ = ()

    def acknowledge(self, subscription: Subscription, consumer: Consumer, ledger_id: int, entries: Sequence[int]) -> None:
        pass

    def acknowledge_each(
        self,
        subscription: Subscription,
        consumer: Consumer,
        asked: Sequence[MessageAck],
        done: AckDone,
        sizes: dict[Position, int] | None = None,
    ) -> AfterReading:
        done(None)
        return None

    def acknowledge_up_to(self, subscription: Subscription, consumer: Consumer, asked: MessageAck, done: AckDone) -> AfterReading:
        done(None)
        return None

    def redeliver(self, subscription: Subscription, consumer: Consumer, positions: Iterable[Position] | None) -> None:
        pass
