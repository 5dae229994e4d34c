"""A loaded topic that keeps its messages: the sole owner of its managed ledger, its producers and its subscriptions."""

from __future__ import annotations

from dataclasses import replace

import structlog

from messaging.broker.core.delayed.overrides import Overrides
from messaging.broker.core.maintenance.inactivity import inactivity_policies
from messaging.broker.runtime.topics.delayed.delivery import DelayedDelivery
from messaging.broker.runtime.topics.dispatch.dispatcher import Dispatcher
from messaging.broker.runtime.topics.producers.deduplication import TopicDeduplication
from messaging.broker.runtime.topics.producers.publisher import PendingPublish, Publisher
from messaging.broker.runtime.topics.producers.stored_moves import StoredMoves
from messaging.broker.runtime.topics.services import TopicServices, refusal_of
from messaging.broker.runtime.topics.subscriptions.acknowledgements import Acknowledgements
from messaging.broker.runtime.topics.subscriptions.consumers import TopicConsumers
from messaging.broker.runtime.topics.subscriptions.persistent_subscriptions import PersistentSubscriptions
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import NotAllowed
from messaging.protocol.frames import message_id_tail
from messaging.protocol.hot import DELAYED
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Fenced, Position, StoreError
from messaging.storage.managed.ledger import ManagedLedger

log = structlog.get_logger("broker.topics")


class PersistentTopic(Topic):
    __slots__ = ("_stored_moves", "deduplication")
    keeps_messages = True
    acknowledgements: Acknowledgements
    subscriptions: PersistentSubscriptions
    publisher: Publisher

    def __init__(self, name: TopicName, services: TopicServices, ledger: ManagedLedger) -> None:
        super().__init__(name, services, ledger)
        self.id_tail = message_id_tail(name.partition)
        self.acknowledgements = Acknowledgements(self)
        self.subscriptions = PersistentSubscriptions(self)
        self.consumers = TopicConsumers(self, self.subscriptions)
        self.deduplication = TopicDeduplication(self)
        self.publisher = Publisher(self, ledger, self.deduplication)
        self._stored_moves: StoredMoves | None = None

    @property
    def entries_added(self) -> int:
        return self.ledger_list.added_entries

    @property
    def stored_moves(self) -> StoredMoves:
        """The moves of dead letters of which this is the target."""
        self._stored_moves = self._stored_moves or StoredMoves(self, self.ledger)
        return self._stored_moves

    # --- dispatching

    @property
    def dispatcher(self) -> Dispatcher:
        if self.started_dispatcher is None:
            self.started_dispatcher = Dispatcher(self)
            self.started_dispatcher.closed = self.closed is not None
        return self.started_dispatcher

    def stored(self, pending: PendingPublish) -> None:
        """A block is durable: dispatches it to the subscriptions that have consumers."""
        self.mark_active()
        if pending.summary.flags & DELAYED:
            (self.started_dispatcher or self.dispatcher).delays(pending)
        table = self.subscriptions.table
        if table:
            readers = [subscription for subscription in table.values() if subscription.consumers]
            if readers:  # without consumers nothing is cached: a later consumer reads from storage
                (self.started_dispatcher or self.dispatcher).publish(pending, readers)
        self.deduplication.stored()

    @property
    def delayed(self) -> DelayedDelivery:
        dispatcher = self.dispatcher
        return dispatcher.delayed or dispatcher.delay()

    @property
    def overrides(self) -> Overrides | None:
        """What was decided of delayed messages after they were published; None: nothing."""
        return None if self.started_dispatcher is None else self.started_dispatcher.overrides

    # --- changing

    def policies_changed(self) -> None:
        self.deduplication.policies_changed()
        super().policies_changed()

    async def terminate(self) -> Position:
        """Terminates the topic: it accepts no more messages. Returns the last position. Raises `NotReady`, `StorageFailed`; it is
        then not terminated."""
        self.check_open()
        self.producers.close_all()
        try:
            last = await self.ledger.terminate()
        except StoreError as error:
            raise refusal_of(error, f"topic {self.text} cannot be terminated") from error
        self.dispatcher.dispatch_all()
        return last

    # --- failures, and closing

    async def recover(self) -> bool:
        """Closes the producers, which reconnect."""
        self.producers.close_all()
        if self.deduplication.state is not None:  # it counted entries that were not stored
            return False
        if isinstance(self.ledger.failed, Fenced):  # another owner may have changed the stored state
            return False
        try:
            await self.ledger.recover()
        except StoreError:
            return False
        self.dispatcher.dispatch_all()
        return True

    async def _store(self) -> None:
        await self._store_idle_times()
        if self.started_dispatcher is not None and self.started_dispatcher.delayed is not None:
            await self.started_dispatcher.delayed.store()
        await super()._store()
        await self.deduplication.save()

    async def _store_idle_times(self) -> None:
        """Only where policies delete what is inactive. If storing fails, the time counts from the broker's start."""
        policies = self.services.policies
        if self.ledger.closed or not inactivity_policies(lambda name: policies.value(name, self.name)).in_force:
            return
        times = self.idle.to_store(each.name for each in self.subscriptions.table.values() if each.durable)
        try:
            await self.ledger.update(lambda record: replace(record, idle_since=times))
        except StoreError as error:
            log.warning("topic.idle_times_not_stored", topic=self.text, error=str(error))

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            self.deduplication.release()
            if self._stored_moves is not None:
                self._stored_moves.release()
            durable = [each.subscription_id for each in self.subscriptions.table.values() if each.durable]
            await self.services.stores.cursors.release(durable)


def persistent(topic: Topic) -> PersistentTopic:
    """Raises `NotAllowed` for a non-persistent topic."""
    if not isinstance(topic, PersistentTopic):
        raise NotAllowed(f"{topic.text} is a non-persistent topic: it keeps no messages")
    return topic
