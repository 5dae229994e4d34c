"""Changes of a topic's subscriptions by consumers and administrators. Each method makes the change, stores it, and dispatches what
became possible; the caller has nothing left to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.explain import DeliveryState
from messaging.broker.core.subscription import Subscription, subscription_key
from messaging.broker.core.trace import DeliveryEvent, DeliveryRecord
from messaging.broker.runtime.topics.dispatch.dispatcher import Dispatcher
from messaging.broker.runtime.topics.services import TopicServices
from messaging.broker.runtime.topics.subscriptions.acknowledgements import Acknowledgements, NoAcknowledgements
from messaging.broker.runtime.topics.subscriptions.cursor_changes import CursorChanges
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.broker.runtime.topics.topic_rates import TopicRates
from messaging.errors import MagnetarError, NotReady, SubscriptionNotFound
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.managed.ledger_list import LedgerList

NO_SUBSCRIPTIONS: dict[str, Subscription] = {}  # shared by idle topics; never written to

EXPIRED_AT_ONCE = 100  # subscriptions whose changes share a commit


class SubscriptionEffects(TopicContext):
    __slots__ = (
        "_dispatcher",
        "acknowledgements",
        "closed",
        "cursor_changes",
        "ledger",
        "name",
        "rates",
        "services",
        "subscriptions",
        "tenant_uid",
        "text",
    )

    def __init__(self, name: TopicName, services: TopicServices, ledger: ManagedLedger) -> None:
        self.name = name
        self.text = ledger.record.name
        self.services = services
        self.ledger = ledger
        self.tenant_uid = services.tenant_uid(name.tenant)  # the tenant charged for usage, even if its name is reused later
        self.subscriptions: dict[str, Subscription] = NO_SUBSCRIPTIONS
        self.closed: MagnetarError | None = None  # the reason for closing, set when closing begins
        self.rates: TopicRates | None = None  # None while the topic is idle
        self._dispatcher: Dispatcher | None = None  # created for the first consumer
        self.cursor_changes = CursorChanges(self)
        self.acknowledgements: Acknowledgements | NoAcknowledgements = Acknowledgements(self)

    @property
    def ledger_list(self) -> LedgerList:
        return self.ledger.ledger_list

    def mark_active(self) -> None:
        if self.rates is None:
            self.services.active(self)

    def check_open(self) -> None:
        """Raises `NotReady` once the topic has begun to close."""
        if self.closed is not None:
            raise NotReady(f"topic {self.text} is being closed: try again")

    def find(self, name: str) -> Subscription | None:
        """The subscription that `name` means to an administrator: the durable one where there are two."""
        durable = self.subscriptions.get(name)
        return durable if durable is not None else self.subscriptions.get(subscription_key(name, durable=False))

    def subscription(self, name: str) -> Subscription:
        found = self.find(name)
        if found is None:
            raise SubscriptionNotFound(f"topic {self.text} has no subscription {name!r}")
        return found

    def holds(self, subscription: Subscription) -> bool:
        """Whether it is a subscription of this topic still."""
        return self.subscriptions.get(subscription.key) is subscription

    def check_current(self, subscription: Subscription) -> None:
        """Raises if the target of a change is gone: `NotReady` if its topic is closing, `SubscriptionNotFound` if only the
        subscription is.
        """
        self.check_open()
        if not self.holds(subscription):
            raise SubscriptionNotFound(f"subscription {subscription.name!r} of {self.text} was deleted")

    def policies_changed(self) -> None:
        """Policies of the topic or its namespace changed."""
        self.cursor_changes.policies_changed()
        if self._dispatcher is not None:
            self._dispatcher.policies_changed()

    def dispatch_soon(self, subscription: Subscription) -> None:
        (self._dispatcher or self._ensure_dispatcher()).dispatch_soon(subscription)

    def _ensure_dispatcher(self) -> Dispatcher:
        if self._dispatcher is None:
            self._dispatcher = Dispatcher(self)
            self._dispatcher.closed = self.closed is not None
        return self._dispatcher

    def dispatch_failed(self, subscription: Subscription, error: Exception) -> None:
        """A change of `subscription` raised: what it was to be sent is sent later."""
        self._ensure_dispatcher().failed(subscription, error)

    def block_in_memory(self, position: Position) -> EntryBlock | None:
        return None if self._dispatcher is None else self._dispatcher.block_in_memory(position)

    def pending_reads(self, subscription: Subscription) -> int:
        """The number of reads from storage queued or in progress for this subscription."""
        return 0 if self._dispatcher is None else self._dispatcher.pending_reads(subscription)

    def delivery_state(self, subscription: Subscription) -> DeliveryState:
        if self._dispatcher is None:
            return DeliveryState(closing=self.closed is not None, now_ms=self.services.clock_ms())
        return self._dispatcher.delivery_state(subscription)

    def delivery_records(self) -> list[DeliveryRecord]:
        return self._ensure_dispatcher().delivery_records()

    # --- requests of a consumer

    def flow(self, subscription: Subscription, consumer: Consumer, permits: int) -> None:
        consumer.flow(permits, self.services.clock_ms())
        self.dispatch_soon(subscription)

    def return_permits(self, subscription: Subscription, consumer: Consumer, permits: int) -> None:
        """Returns the permits of messages that were not delivered."""
        consumer.give_back(permits)
        self.dispatch_soon(subscription)

    def consumer_writable(self, subscription: Subscription, consumer: Consumer) -> None:
        """The consumer's connection can be written to again."""
        consumer.wake()
        self.dispatch_soon(subscription)

    def redeliver(self, subscription: Subscription, consumer: Consumer, positions: Iterable[Position] | None) -> None:
        """Redelivers `positions`, or, if None, everything the consumer has not acknowledged."""
        redeliveries, cursor_memory = subscription.state.redeliveries, self.services.memory.cursor_memory
        uncounted_before = redeliveries.uncounted
        try:
            subscription.redeliver(consumer, positions)
        except Exception as error:  # what it gave back is sent again all the same
            self.dispatch_failed(subscription, error)
        cursor_memory.uncounted_redeliveries += redeliveries.uncounted - uncounted_before
        cursor_memory.changed(self.name.tenant, subscription)
        if subscription.dead_letters is not None:
            self.services.dead_letters_due(self, subscription)
        self.dispatch_soon(subscription)

    # --- dead letters

    def follow_dead_letters(self, subscription: Subscription) -> None:
        """The dead-letter policy was set or removed: entries that waited to be moved may have to be sent again."""
        subscription.follow_dead_letters(subscription.dead_letters)
        self.dispatch_soon(subscription)

    async def acknowledge_entries(self, subscription: Subscription, positions: Iterable[Position], why: DeliveryEvent) -> None:
        """Acknowledges entries that no consumer gets any more, such as moved dead letters. Raises `StorageFailed`."""
        dispatcher = self._ensure_dispatcher()
        now_ms = self.services.clock_ms()
        for position in positions:
            delta = subscription.acknowledge(None, position.ledger_id, (position.entry_id,), now_ms)
            self.cursor_changes.store(subscription, delta)
            dispatcher.record(why, subscription, position)
        await self.cursor_changes.finish_durably(subscription, b"", "the change")

    def resume(self, subscription: Subscription) -> None:
        """After a recovery of dead letters: it is known what was moved, and consumers are sent the rest."""
        subscription.recovering = False
        self.dispatch_soon(subscription)

    # --- policies

    def follow_unacked_limits(self) -> None:
        """A policy may have changed."""
        policy = self.services.policies.value
        limits = policy("max_unacked_per_consumer", self.name), policy("max_unacked_per_subscription", self.name)
        for subscription in self.subscriptions.values():
            subscription.state.limit_unacked(*limits)
            if subscription.consumers:
                self.dispatch_soon(subscription)

    # --- requests of administrators and maintenance; durable when these return

    async def skip_to(self, subscription: Subscription, last: Position) -> None:
        """Acknowledges everything up to `last`. Raises `StorageFailed`, and `NotReady` or `SubscriptionNotFound` if the topic or
        subscription is gone and the change would be lost.
        """
        self.check_current(subscription)
        delta = subscription.acknowledge_up_to(last, self.services.clock_ms())
        await self.cursor_changes.finish_durably(subscription, delta, "the change")

    async def expire_each_up_to(self, subscriptions: Iterable[Subscription], last: Position) -> int:
        """`expire_up_to` for several; those that were deleted meanwhile are passed over. Some share a commit."""
        expired = 0
        waiting = iter(subscriptions)
        while some := [one for one in islice(waiting, EXPIRED_AT_ONCE) if self.holds(one)]:
            for outcome in await asyncio.gather(*(self.expire_up_to(one, last) for one in some), return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                expired += outcome
        return expired

    async def expire_up_to(self, subscription: Subscription, last: Position) -> int:
        """Like `skip_to`, for expired messages. Returns the number of expired entries."""
        now_ms, before, mark_delete = self.services.clock_ms(), subscription.backlog_entries, subscription.cursor.mark_delete
        delta = subscription.acknowledge_up_to(last, now_ms)
        subscription.last_expired_ms = now_ms  # also where nothing was old enough: it tells when that was found out
        if not delta:
            return 0
        expired = before - subscription.backlog_entries
        subscription.entries_expired += expired
        self._ensure_dispatcher().record_expired(subscription, mark_delete, expired)
        await self.cursor_changes.finish_durably(subscription, delta, "the change")
        return expired
