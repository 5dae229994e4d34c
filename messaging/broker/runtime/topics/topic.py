"""A loaded topic: the sole owner of its managed ledger, its producers and its subscriptions.

It lives on the event loop and has no task of its own, so an idle topic costs only memory. Messages come in through its publisher
and go out through its dispatcher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from messaging.broker.runtime.topics import idle_state
from messaging.broker.runtime.topics.backlog.quota import TopicBacklogQuota, quota_of
from messaging.broker.runtime.topics.delayed.delivery import DelayedDelivery
from messaging.broker.runtime.topics.limits import publish_limits
from messaging.broker.runtime.topics.loaded_topic import TopicCounters
from messaging.broker.runtime.topics.producers.deduplication import TopicDeduplication
from messaging.broker.runtime.topics.producers.publisher import PendingPublish, Publisher
from messaging.broker.runtime.topics.producers.stored_moves import StoredMoves
from messaging.broker.runtime.topics.producers.topic_producers import TopicProducers
from messaging.broker.runtime.topics.services import TopicServices, refusal_of
from messaging.broker.runtime.topics.subscriptions.subscriptions import LATEST, TopicSubscriptions
from messaging.errors import MagnetarError, NotReady, PreconditionFailed, StorageFailed, TopicTerminated
from messaging.permissions.model import Resource
from messaging.protocol.frames import message_id_tail
from messaging.protocol.hot import DELAYED
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Fenced, LedgerClosed, Position, StoreError
from messaging.storage.managed.ledger import ManagedLedger

__all__ = ["LATEST", "Topic"]

log = structlog.get_logger("broker.topics")


class Topic(TopicSubscriptions):
    __slots__ = ("_stored_moves", "backlog_quota", "deduplication", "id_tail", "producers", "publisher")
    keeps_messages = True  # and what its subscriptions have acknowledged

    def __init__(self, name: TopicName, services: TopicServices, ledger: ManagedLedger) -> None:
        super().__init__(name, services, ledger)
        self.id_tail = message_id_tail(name.partition)
        self.backlog_quota: TopicBacklogQuota | None = None
        self.producers = TopicProducers(self)
        self.deduplication = TopicDeduplication(self)
        self.publisher = Publisher(self, ledger)
        self._stored_moves: StoredMoves | None = None
        self._follow_publish_policies()

    @property
    def stored_moves(self) -> StoredMoves:
        """The moves of dead letters of which this is the target."""
        self._stored_moves = self._stored_moves or StoredMoves(self, self.ledger)
        return self._stored_moves

    @property
    def entries_added(self) -> int:
        """Since the topic was loaded."""
        return self.ledger_list.added_entries

    @property
    def created_ms(self) -> int:
        return self.ledger.record.created_ms

    @property
    def recorded(self) -> bool:
        """Whether its existence is stored. A non-persistent topic exists while it is loaded, unless it is a partition."""
        return self.ledger.record.version > 0

    @property
    def in_use(self) -> bool:
        """Whether it has clients, or one of its subscriptions is being created, moved or deleted."""
        return self.used or bool(self._changes)

    @property
    def never_used(self) -> bool:
        """Whether it has no messages and no clients."""
        return not (self.ledger.stored_bytes or self.used)

    @property
    def used(self) -> bool:
        """Whether producers or consumers are connected."""
        return len(self.producers) > 0 or any(one.consumers for one in self.subscriptions.values())

    def resource(self, subscription: str = "") -> Resource:
        """This topic as a resource of the permission table."""
        return Resource(self.name.tenant, str(self.name.namespace), self.text, subscription)

    # --- admitting: nothing is awaited between check and attach, so that nothing is attached to a topic that closes

    def check_writable(self) -> None:
        self.check_open()
        if self.ledger.terminated:
            raise TopicTerminated(
                f"topic {self.text} was terminated at {self.ledger.record.terminated_at}: it accepts no more messages"
            )
        if self.ledger.ended:
            raise NotReady(f"topic {self.text} is being terminated: try again")

    def policies_changed(self) -> None:
        self.producers.close_unencrypted()
        self.follow_unacked_limits()
        self.deduplication.policies_changed()
        super().policies_changed()
        self._follow_publish_policies()
        self.publisher.limits = publish_limits.following(self.publisher.limits, self.publisher)

    def _follow_publish_policies(self) -> None:
        self.publisher.follow_policies()
        self._follow_backlog_quota()

    def _follow_backlog_quota(self) -> None:
        quota, current = quota_of(self.services.policies.value, self.name), self.backlog_quota
        if current is not None and current.closing is not None:
            return  # what producers publish is refused until it has closed them, or they would not know what was stored
        if current is None or current.quota != quota:
            self.backlog_quota = None if quota.unlimited else TopicBacklogQuota(self, quota)

    def refuse_publishing(self, why: MagnetarError) -> None:
        """Closes the producers: their next tries to open get the error."""
        log.info("topic.publishing_refused", topic=self.text, why=why.message)
        self.producers.close_all()
        self._follow_backlog_quota()

    async def writable(self) -> None:
        """Returns when the log accepts messages. While the disk is full or cannot be written, producers retry and consumers are not
        affected. Raises `TopicTerminated`, `NotReady`, `StorageFailed`, `QuotaExceeded`.
        """
        self.check_writable()
        try:
            await self.ledger.writable()
        except LedgerClosed:
            raise NotReady(f"topic {self.text} is being reloaded: try again") from None
        except StoreError as error:
            refused = StorageFailed(f"topic {self.text} cannot accept messages: {error}")
            if self.ledger.failed is not None:
                self.services.failed(self, refused)
            raise refused from error
        if self.backlog_quota is not None:
            await self.backlog_quota.check(self.services.clock_ms())

    def delivery_time_max(self) -> int | None:
        """The latest delivery time that may be asked for now; None: any."""
        return self.publisher.delivery_time_max(self.services.clock_ms())

    # --- called by the publisher

    def stored(self, pending: PendingPublish) -> None:
        """A block is durable: dispatches it to the subscriptions that have consumers."""
        self.mark_active()
        if pending.summary.flags & DELAYED:
            (self._dispatcher or self._ensure_dispatcher()).delays(pending)
        if self.subscriptions:
            readers = [subscription for subscription in self.subscriptions.values() if subscription.consumers]
            if readers:  # without consumers nothing is cached: a later consumer reads from storage
                dispatcher = self._dispatcher or self._ensure_dispatcher()
                dispatcher.publish(pending, readers)
        self.deduplication.stored()

    @property
    def delayed(self) -> DelayedDelivery:
        dispatcher = self._ensure_dispatcher()
        return dispatcher.delayed or dispatcher.delay()

    def append_refused(self) -> None:
        self.services.failed(self, NotReady(f"topic {self.text} is being reloaded"))

    def append_failed(self, error: StoreError) -> None:
        if self.closed is None:
            self.services.failed(self, StorageFailed(f"topic {self.text} could not store messages: {error}"))

    @property
    def totals(self) -> TopicCounters:
        dispatcher = self._dispatcher
        messages_out, bytes_out = (dispatcher.messages_out, dispatcher.bytes_out) if dispatcher is not None else (0, 0)
        return TopicCounters(self.publisher.messages_in, self.publisher.bytes_in, messages_out, bytes_out)

    # --- failures, and closing

    async def recover(self) -> bool:
        """After the log refused a block: closes the producers, which reconnect. False: the topic must be loaded again instead."""
        self.producers.close_all()
        if self.deduplication.state is not None:  # it counted entries that were not stored
            return False
        if isinstance(self.ledger.failed, Fenced):  # another owner may have changed the stored state
            return False
        try:
            await self.ledger.recover()
        except StoreError:
            return False
        self.dispatch_all()
        return True

    def dispatch_all(self) -> None:
        dispatcher = self._ensure_dispatcher()
        for subscription in self.subscriptions.values():
            dispatcher.dispatch(subscription)

    def begin_close(self, why: MagnetarError) -> None:
        """Closes producers and consumers and admits no new ones. `close` does the rest."""
        if self.closed is not None:
            return
        self.closed = why
        self.producers.close_all()
        if self.publisher.limits is not None:
            self.publisher.limits.close()
        for subscription in list(self.subscriptions.values()):
            self.close_consumers(subscription)
        self.cursor_changes.close()
        if self._dispatcher is not None:
            self._dispatcher.close()

    async def close(self) -> None:
        """Called after `begin_close`: closes the ledger and saves every cursor. The topic must not be used afterwards. Raises
        `StoreError`.
        """
        if self._changes:
            await asyncio.wait(list(self._changes.values()))
        try:
            await idle_state.store(self)
            if self._dispatcher is not None and self._dispatcher.delayed is not None:
                await self._dispatcher.delayed.store()
            await self.ledger.close()
            await self.deduplication.save()
        finally:
            self.deduplication.release()
            if self._stored_moves is not None:
                self._stored_moves.release()
            for subscription in self.subscriptions.values():
                self.services.memory.cursor_memory.release(self.name.tenant, subscription)
            self.release_properties()
            await self.services.stores.cursors.release([one.subscription_id for one in self.subscriptions.values() if one.durable])

    async def change_properties(self, change: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, str]:
        """Raises whatever `change` raises, `NotReady`, `StorageFailed`; nothing is changed then."""
        self.check_open()
        try:
            await self.ledger.update(lambda record: replace(record, properties=change(record.properties)))
        except StoreError as error:
            raise refusal_of(error, f"the properties of topic {self.text} cannot be changed") from error
        return self.ledger.record.properties

    def check_unused(self) -> None:
        """Raises `PreconditionFailed` if the topic has producers or consumers."""
        if self.used:
            raise PreconditionFailed(f"topic {self.text} has connected producers or consumers: close them, or delete with force")

    async def terminate(self) -> Position:
        """Terminates the topic: it accepts no more messages. Returns the last position. Raises `NotReady`, `StorageFailed`; it is
        then not terminated."""
        self.check_open()
        self.producers.close_all()
        try:
            last = await self.ledger.terminate()
        except StoreError as error:
            raise refusal_of(error, f"topic {self.text} cannot be terminated") from error
        self.dispatch_all()
        return last
