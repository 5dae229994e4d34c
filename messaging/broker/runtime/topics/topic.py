"""A loaded topic: who it is, its life, and its parts. Both kinds of topics are made of these; see `persistent.py` and
`non_persistent.py`.

It lives on the event loop and has no task of its own, so an idle topic costs only memory. Messages come in through its publisher
and go out through its dispatcher.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from messaging.broker.core.maintenance.inactivity import IdleTimes
from messaging.broker.runtime.topics.backlog.stored_entries import StoredEntries
from messaging.broker.runtime.topics.dispatch.dispatcher import Dispatcher
from messaging.broker.runtime.topics.loaded_topic import TopicCounters
from messaging.broker.runtime.topics.producers.topic_producers import TopicProducers
from messaging.broker.runtime.topics.producers.topic_publisher import TopicPublisher
from messaging.broker.runtime.topics.services import TopicServices, refusal_of
from messaging.broker.runtime.topics.subscriptions.acknowledgements import Acknowledgements, NoAcknowledgements
from messaging.broker.runtime.topics.subscriptions.consumers import TopicConsumers
from messaging.broker.runtime.topics.subscriptions.cursor_changes import CursorChanges
from messaging.broker.runtime.topics.subscriptions.topic_subscriptions import TopicSubscriptions
from messaging.broker.runtime.topics.topic_rates import TopicRates
from messaging.errors import MagnetarError, NotReady, PreconditionFailed, StorageFailed, TopicTerminated
from messaging.permissions.model import Resource
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import LedgerClosed, StoreError
from messaging.storage.managed.ledger import ManagedLedger


class Topic(ABC):
    __slots__ = (
        "acknowledgements",
        "closed",
        "consumers",
        "cursor_changes",
        "id_tail",
        "idle",
        "ledger",
        "ledger_list",
        "name",
        "producers",
        "publisher",
        "rates",
        "services",
        "started_dispatcher",
        "subscriptions",
        "tenant_uid",
        "text",
    )
    keeps_messages: bool  # and what its subscriptions have acknowledged
    id_tail: bytes  # the end of every message id, as it is on the wire
    acknowledgements: Acknowledgements | NoAcknowledgements
    subscriptions: TopicSubscriptions
    consumers: TopicConsumers
    publisher: TopicPublisher

    def __init__(self, name: TopicName, services: TopicServices, ledger: ManagedLedger) -> None:
        """The kinds of topics make the parts that are missing here."""
        self.name = name
        self.text = ledger.record.name
        self.services = services
        self.ledger = ledger
        self.ledger_list = ledger.ledger_list
        self.tenant_uid = services.tenant_uid(name.tenant)  # the tenant charged for usage, even if its name is reused later
        self.closed: MagnetarError | None = None  # the reason for closing, set when closing begins
        self.rates: TopicRates | None = None  # None while the topic is idle
        self.idle = IdleTimes(ledger.record.idle_since, ledger.record.created_ms)
        self.started_dispatcher: Dispatcher | None = None  # None until there is something to dispatch
        self.cursor_changes = CursorChanges(self)
        self.producers = TopicProducers(self)

    # --- asking

    @property
    def in_use(self) -> bool:
        """Whether it has clients, or one of its subscriptions is being created, moved or deleted."""
        return self.used or bool(self.subscriptions.changes)

    @property
    def used(self) -> bool:
        """Whether producers or consumers are connected."""
        return len(self.producers) > 0 or any(each.consumers for each in self.subscriptions.table.values())

    def check_unused(self) -> None:
        """Raises `PreconditionFailed` if the topic has producers or consumers."""
        if self.used:
            raise PreconditionFailed(f"topic {self.text} has connected producers or consumers: close them, or delete with force")

    def resource(self, subscription: str = "") -> Resource:
        """This topic as a resource of the permission table."""
        return Resource(self.name.tenant, str(self.name.namespace), self.text, subscription)

    @property
    @abstractmethod
    def entries_added(self) -> int:
        """Since the topic was loaded."""

    @property
    def totals(self) -> TopicCounters:
        dispatcher = self.started_dispatcher
        messages_out, bytes_out = (dispatcher.messages_out, dispatcher.bytes_out) if dispatcher is not None else (0, 0)
        return TopicCounters(self.publisher.messages_in, self.publisher.bytes_in, messages_out, bytes_out)

    @property
    def entries(self) -> StoredEntries:
        """What is stored, or in memory of it, entry by entry."""
        return StoredEntries(self.ledger, self.started_dispatcher)

    # --- admitting: nothing is awaited between check and attach, so that nothing is attached to a topic that closes

    def check_open(self) -> None:
        """Raises `NotReady` once the topic has begun to close."""
        if self.closed is not None:
            raise NotReady(f"topic {self.text} is being closed: try again")

    def check_writable(self) -> None:
        """Raises `NotReady` or `TopicTerminated` if the topic accepts no messages."""
        self.check_open()
        if self.ledger.terminated:
            raise TopicTerminated(f"topic {self.text} was terminated: it accepts no more messages")
        if self.ledger.ended:
            raise NotReady(f"topic {self.text} is being terminated: try again")

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
                self.services.events.failed(self, refused)
            raise refused from error
        if self.publisher.quota is not None:
            await self.publisher.quota.check(self.services.clock_ms())
        if self.publisher.stored_limit is not None:
            await self.publisher.stored_limit.check()

    # --- living

    @property
    @abstractmethod
    def dispatcher(self) -> Dispatcher:
        """Started on first use."""

    def mark_active(self) -> None:
        """Called on every publish, dispatch and acknowledgement: rates are sampled while the topic is active."""
        if self.rates is None:
            self.services.active(self)

    def policies_changed(self) -> None:
        """Policies of the topic or its namespace changed."""
        if self.services.policies.publishing_stopped(self.name):
            self.publisher.run_after_pending(self._stop_publishing)
        self.producers.close_unencrypted()
        self.subscriptions.policies_changed()
        self.cursor_changes.policies_changed()
        if self.started_dispatcher is not None:
            self.started_dispatcher.policies_changed()
        self.publisher.policies_changed()

    def _stop_publishing(self, stored: bool) -> None:
        """What producers had published before they were to stop has its receipts. What they try next tells them why."""
        if self.closed is None and self.services.policies.publishing_stopped(self.name):
            self.producers.close_all()

    async def change_properties(self, change: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, str]:
        """Raises whatever `change` raises, `NotReady`, `StorageFailed`; nothing is changed then."""
        self.check_open()
        try:
            await self.ledger.update(lambda record: replace(record, properties=change(record.properties)))
        except StoreError as error:
            raise refusal_of(error, f"the properties of topic {self.text} cannot be changed") from error
        return self.ledger.record.properties

    async def recover(self) -> bool:
        """Called after the log refused a block. Returns False if the topic must be loaded again instead."""
        return False

    # --- closing

    def begin_close(self, why: MagnetarError) -> None:
        """Closes producers and consumers and admits no new ones. `close` does the rest."""
        if self.closed is not None:
            return
        self.closed = why
        self.producers.close_all()
        self.publisher.close()
        for subscription in list(self.subscriptions.table.values()):
            self.consumers.close(subscription)
        self.cursor_changes.close()
        if self.started_dispatcher is not None:
            self.started_dispatcher.close()

    async def close(self) -> None:
        """Called after `begin_close`: closes the ledger and saves every cursor. The topic must not be used afterwards. Raises
        `StoreError`.
        """
        if self.subscriptions.changes:
            await asyncio.wait(list(self.subscriptions.changes.values()))
        try:
            await self._store()
        finally:
            self.subscriptions.release()

    async def _store(self) -> None:
        """What is known in memory alone. Raises `StoreError`."""
        await self.ledger.close()
