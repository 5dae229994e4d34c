"""Log to consumers: sends the entries of a topic to its subscriptions, from the entry cache if possible, else from storage.

Dispatching starts here whenever something may have become possible: `dispatch` runs immediately when a block is durable;
`dispatch_soon` runs once per turn of the event loop, however many consumers gained permits, acknowledged or became writable in it.
Both send from memory, one slice at a time, in turn with all other subscriptions (`core/turns/turn_budget.py`). Subscriptions behind
the cache are sent blocks from storage by `dispatch_backlog`, in turn with all others that are behind (`backlog/scheduler.py`).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from messaging.broker.core.delayed.overrides import Overrides
from messaging.broker.core.diagnosis.trace import DeliveryEvent
from messaging.broker.core.dispatch.sources import EntrySource
from messaging.broker.core.dispatch.state import Due
from messaging.broker.core.entries import EntryBlock, delivery_times
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.turns.command_costs import BLOCK, CHUNK, OWN_HEAD, SEND_BYTES_A_UNIT
from messaging.broker.runtime.topics.backlog.scheduler import TURN_BYTES
from messaging.broker.runtime.topics.backlog.stored_blocks import StoredBlocks
from messaging.broker.runtime.topics.delayed.delivery import DelayedDelivery
from messaging.broker.runtime.topics.dispatch.delivery_log import DeliveryLog
from messaging.broker.runtime.topics.dispatch.entry_cache import EntryCache
from messaging.broker.runtime.topics.dispatch.retries import DispatchRetries
from messaging.broker.runtime.topics.dispatch.topic_end import send_end_of_topic
from messaging.broker.runtime.topics.limits.dispatch_limits import DispatchLimits, following
from messaging.broker.runtime.topics.producers.publisher import PendingPublish
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.errors import TopicNotFound
from messaging.storage.ledger_store import Position

SENT, EXPIRED = DeliveryEvent.SENT, DeliveryEvent.EXPIRED  # looked up for each block
DISPATCH_COST = 4096  # the size of a slice, after which other topics get their turn: entries, bytes and deliveries as cost units
DISPATCH_ENTRIES_MAX = 2048  # entries of one block per delivery
CHUNKED_ENTRIES_MAX = 64  # the same of a block with chunks, each of which may be a delivery of its own: a slice
OWN_HEADS_MAX = 128  # the same of entries that are sent with a redelivery count or an ack set
OWN_HEAD_BYTES = 512  # such an entry costs as much as sending so many bytes of a backlog
DELIVERY_BYTES = 1024  # a delivery, or a chunk, costs as much as sending so many bytes
READERS_AT_ONCE = 16  # subscriptions sent a block as soon as it is durable; the others follow in later turns of the event loop


class Dispatcher:
    __slots__ = ("bytes_out", "cache", "closed", "delayed", "limits", "log", "messages_out", "retries", "stored", "topic")

    def __init__(self, topic: TopicContext) -> None:
        self.topic = topic
        self.cache = EntryCache()
        self.stored: StoredBlocks | None = None  # None while nothing is read from storage
        self.delayed: DelayedDelivery | None = None  # None until a message has to wait
        self.limits: DispatchLimits | None = following(None, topic, self._go_on)  # None: unlimited
        self.messages_out = 0
        self.bytes_out = 0
        self.closed = False
        self.retries: DispatchRetries | None = None  # None until a dispatch raises
        self.log = DeliveryLog(topic)

    @property
    def overrides(self) -> Overrides | None:
        return None if self.delayed is None else self.delayed.delays.overrides

    @property
    def tenant(self) -> str:
        return self.topic.name.tenant

    @property
    def topic_name(self) -> str:
        return self.topic.text

    def publish(self, pending: PendingPublish, readers: list[Subscription]) -> None:
        """A block is durable: caches it if one of `readers`, the subscriptions with consumers, may need it soon, and sends it."""
        if self.stored is None or not self.stored.all_far_behind(len(readers)):
            self.cache.add(pending.block(), self.topic.services.memory.entry_caches)
        cost = 0
        for number, subscription in enumerate(readers):
            if number < READERS_AT_ONCE and cost < DISPATCH_COST:
                cost += self.dispatch(subscription)
            else:
                self.dispatch_soon(subscription)

    def delays(self, pending: PendingPublish) -> bool:
        """Some of a block that is durable is to be delivered later. Returns whether none of it can be sent now."""
        at = pending.first
        return (self.delayed or self.delay()).published(at.ledger_id, at.entry_id, delivery_times(pending.sent))

    def dispatch(self, subscription: Subscription) -> int:
        """Sends a slice of what can be sent now; the rest follows in its turn. Safe to call at any time; never raises. Returns the
        cost."""
        cost, more = self.dispatch_slice(subscription, DISPATCH_COST)
        if more:
            self.dispatch_soon(subscription)
        return cost

    def dispatch_all(self) -> None:
        for subscription in self.topic.subscriptions.table.values():
            self.dispatch(subscription)

    def dispatch_soon(self, subscription: Subscription) -> None:
        """Dispatches in the next turn of the event loop, once however often it is called. Does nothing if everything was sent.
        Never raises."""
        try:
            if subscription.next_due() is None and not (subscription.unsettled or self.topic.ledger.terminated):
                return
        except Exception as error:
            self.failed(subscription, error)
            return
        self.topic.services.loops.dispatch_turns.wait(self.topic.name.tenant, DueDispatch(self, subscription))

    def dispatch_slice(self, subscription: Subscription, cost_max: int) -> tuple[int, bool]:
        """Returns the part of `cost_max` that was spent, and whether there is more to send. Never raises."""
        if self.retries and self.retries.waits(subscription):
            return 0, False
        try:
            spent = self._dispatch_slice(subscription, cost_max)
        except Exception as error:  # the failure must not affect other subscriptions or the caller
            self.failed(subscription, error)
            return cost_max, False
        if self.retries:
            self.retries.succeeded(subscription)
        return spent

    def _dispatch_slice(self, subscription: Subscription, cost_max: int) -> tuple[int, bool]:
        cost = 0
        while cost < cost_max:
            due = self._next_due(subscription)
            if due is None:
                return (DISPATCH_COST, True) if subscription.unsettled and not self.closed else (cost, False)
            source, position = due
            block = self.cache.find(position)
            if block is None:
                self.topic.services.loops.backlog_scheduler.schedule(self, subscription)
                return cost, False
            if source.sequential and self.stored is not None:
                self.stored.forget(subscription)
            entries_max = CHUNKED_ENTRIES_MAX if block.chunked else DISPATCH_ENTRIES_MAX
            last = min(block.last_entry, position.entry_id + entries_max - 1)
            last, own_heads = _within_own_heads(subscription, block, position, last)
            size, more, deliveries = self._send(subscription, source, block, position, last)
            entries = last + 1 - position.entry_id
            cost += size // SEND_BYTES_A_UNIT + BLOCK * (1 + deliveries) + OWN_HEAD * own_heads
            cost += CHUNK * entries if block.chunked else 0
            if not more:
                return cost, False
            cost += entries
        return cost, True

    def dispatch_backlog(self, subscription: Subscription, bytes_max: int) -> bool:
        """Sends about `bytes_max` of blocks read from storage. Returns whether more can be sent now. Never raises."""
        if self.retries and self.retries.waits(subscription):
            return False
        try:
            more = self._dispatch_backlog(subscription, bytes_max)
        except Exception as error:
            self.failed(subscription, error)
            return False
        if self.retries:
            self.retries.succeeded(subscription)
        return more

    def _dispatch_backlog(self, subscription: Subscription, bytes_max: int) -> bool:
        sent_bytes = 0
        while sent_bytes < bytes_max:
            due = self._next_due(subscription)
            if due is None:
                if subscription.unsettled and not self.closed:
                    self.dispatch_soon(subscription)
                return False
            source, position = due
            if self.cache.find(position) is not None:
                self.dispatch(subscription)
                return False
            if self.stored is None:
                self.stored = StoredBlocks(self)
            entry = self.stored.find(subscription, source, position)
            if entry is None:
                return False
            block, position = entry
            last = block.last_within(position.entry_id, bytes_max - sent_bytes)
            chunks = 0
            if block.chunked:
                first = block.index_of(position.entry_id)
                chunks = min(block.index_of(last) + 1 - first, CHUNKED_ENTRIES_MAX)
                last = block.entry_at(first + chunks - 1)
            last, own_heads = _within_own_heads(subscription, block, position, last)
            size, more, deliveries = self._send(subscription, source, block, position, last)
            if not more:
                return False
            skipped = block.bytes_in(block.index_of(position.entry_id), block.index_of(last) + 1)
            work_bytes = max(deliveries, chunks) * DELIVERY_BYTES, own_heads * OWN_HEAD_BYTES
            sent_bytes += max(size, *work_bytes) or skipped  # which costs work too
        return True

    def failed(self, subscription: Subscription, error: Exception) -> None:
        """A change of `subscription`, or a dispatch, raised `error`: what was to be done is done later."""
        if self.closed or not self.recover(subscription, error):
            return
        if self.retries is None:
            self.retries = DispatchRetries(self._try_again)
        self.retries.failed(subscription, error)

    def recover(self, subscription: Subscription, error: Exception) -> bool:
        """`error` was raised: it is counted, and nothing that `subscription` was to be sent is forgotten. Returns whether it is one
        of this topic still. Never raises."""
        topic = self.topic
        topic.services.loops.dispatching.failed(error, topic=topic.text, subscription=subscription.name)
        try:
            subscription.recover(partial(topic.cursor_changes.store, subscription))
        except Exception as another:  # when it is tried again, it begins with this
            topic.services.loops.dispatching.failed(another, topic=topic.text, subscription=subscription.name)
        return topic.subscriptions.table.get(subscription.key) is subscription

    def _try_again(self, subscription: Subscription) -> None:
        try:
            subscription.recover(partial(self.topic.cursor_changes.store, subscription))
        except Exception as error:
            self.failed(subscription, error)
        else:
            self.dispatch(subscription)

    def _next_due(self, subscription: Subscription) -> Due | None:
        """The next entry that some consumer can be sent."""
        if self.topic.ledger.terminated:
            send_end_of_topic(subscription)
        if not subscription.can_dispatch() or self.closed:
            return None
        if self.delayed is not None and subscription.state.delays is None and subscription.delays:
            self.delayed.join(subscription)
        due = subscription.next_due()
        if due is None or self.limits is None or self.limits.allows(subscription, self.cache, due[1]):
            return due
        return None

    def _go_on(self, subscription: Subscription) -> None:
        """The rate limits allow to send more: sends what is in memory at once. Never raises."""
        with self.topic.services.loops.dispatching.guard(topic=self.topic.text, subscription=subscription.name):
            if self.dispatch_backlog(subscription, TURN_BYTES):
                self.topic.services.loops.backlog_scheduler.schedule(self, subscription)

    def _send(
        self, subscription: Subscription, source: EntrySource, block: EntryBlock, position: Position, last: int
    ) -> tuple[int, bool, int]:
        """Sends the entries of `block` from `position` to entry `last`. Returns (bytes, whether to continue, deliveries)."""
        topic = self.topic
        services = topic.services
        now_ms = services.clock_ms()
        ttl_s = services.policies.message_ttl_s(topic.name)
        expired_before_ms = services.stores.storage.safe_expiry_ms() - ttl_s * 1000 if ttl_s and not block.compacted else 0
        topic.mark_active()
        limits, messages_before = self.limits, self.messages_out
        if limits is not None and block.broker_time_ms >= expired_before_ms:
            last = limits.last_within(block, position, last)
        delayed = None
        if block.deliver_at_ms is not None and subscription.delays:
            delayed = self.delayed or self.delay()
            if delayed.join(subscription):
                return 0, True, 0  # it reads in another way now
            delayed.begin()
        assignment = subscription.assign(source, block, position, last, expired_before_ms, now_ms)
        if delayed is not None:
            delayed.end(subscription)
        if block.chunked:
            services.memory.cursor_memory.chunks_sent(topic.name.tenant, subscription)
        if block.chunked or subscription.active is None:  # they hold more now
            services.memory.cursor_memory.changed(topic.name.tenant, subscription)
        total = 0
        records, name, ledger_id = self.log.records, subscription.name, block.ledger_id
        unsent = subscription.state.unsent
        for consumer, given, first, stop, redelivery_counts, _, picked in assignment.deliveries:
            if picked is None:
                size = consumer.sink.deliver(consumer, given, first, stop, redelivery_counts)
                self.messages_out += given.messages_in(first, stop)
            else:
                size = consumer.sink.deliver_picked(consumer, given, picked, redelivery_counts)
                self.messages_out += given.messages_among(picked)
            if unsent:  # unless a sink had something else dispatched meanwhile
                unsent.popleft()
            consumer.bytes_out += size
            total += size
            if records is not None:
                ends = given.entry_at(first), given.entry_at(stop - 1), picked is None
                records.append((now_ms, SENT, name, consumer.name, ledger_id, *ends))
        if assignment.expired_entries and records is not None:
            whole = assignment.expired_entries == last + 1 - position.entry_id
            records.append((now_ms, EXPIRED, name, "", ledger_id, position.entry_id, last, whole))
        subscription.bytes_out += total
        self.bytes_out += total
        if limits is not None:
            limits.sent(subscription, assignment.deliveries, self.messages_out - messages_before, total)
        for delta in assignment.deltas:
            topic.cursor_changes.store(subscription, delta)
        subscription.state.unstored.clear()
        return total, assignment.more, len(assignment.deliveries)

    def delay(self) -> DelayedDelivery:
        """The topic has its first delayed messages."""
        self.delayed = delayed = DelayedDelivery(self.topic, self.cache, self.dispatch_soon, self.failed)
        self.topic.services.memory.delayed_counts.loaded(self.topic.text, self.tenant, delayed.index.pending)
        return delayed

    def block_in_memory(self, position: Position) -> EntryBlock | None:
        """The block that holds `position` if it is cached or was read from storage for any subscription."""
        block = self.cache.find(position)
        return block if block is not None or self.stored is None else self.stored.in_memory(position)

    def forget(self, subscription: Subscription) -> None:
        """Releases the blocks that were read for this subscription."""
        if self.stored is not None:
            self.stored.forget(subscription)

    def removed(self, subscription: Subscription) -> None:
        """It is deleted."""
        if self.delayed is not None:
            self.delayed.forget(subscription)
        if self.limits is not None:
            self.limits.forget(subscription)
        if self.retries is not None:
            self.retries.forget(subscription)

    def policies_changed(self) -> None:
        if self.delayed is not None:
            self.delayed.policies_changed()
        before = self.limits
        self.limits = following(before, self.topic, self._go_on)
        if before is not None:
            for subscription in self.topic.subscriptions.table.values():
                self.dispatch_soon(subscription)

    def close(self) -> None:
        self.closed = True
        self.log.close()
        if self.delayed is not None:
            self.delayed.close()
            self.topic.services.memory.delayed_counts.closed(self.topic.text, deleted=isinstance(self.topic.closed, TopicNotFound))
        if self.limits is not None:
            self.limits.close()
        if self.retries is not None:
            self.retries.close()
        if self.stored is not None:
            self.stored.close()
        self.topic.services.memory.entry_caches.clear(self.cache)


def _within_own_heads(subscription: Subscription, block: EntryBlock, position: Position, last: int) -> tuple[int, int]:
    """The last entry to send now, and how many may need a head of their own."""
    state, first = subscription.state, position.entry_id
    own_heads = state.own_heads_in(block.ledger_id, first, last)
    if own_heads > OWN_HEADS_MAX:
        index = min(block.index_of(first) + OWN_HEADS_MAX - 1, block.index_of(last))
        last = block.entry_at(index)
        own_heads = min(OWN_HEADS_MAX, state.own_heads_in(block.ledger_id, first, last))
    return last, own_heads


class DueDispatch(NamedTuple):
    """A subscription that may have something to send. Instances for the same subscription are equal."""

    dispatcher: Dispatcher
    subscription: Subscription

    def run(self) -> str | None:
        """Sends one slice. Returns the tenant to queue under for the rest, or None."""
        dispatcher, subscription = self
        turns = dispatcher.topic.services.loops.dispatch_turns.turns
        cost, more = dispatcher.dispatch_slice(subscription, min(DISPATCH_COST, turns.left_to_waiting))
        turns.left -= cost + BLOCK
        return dispatcher.topic.name.tenant if more else None
