"""The interface of a topic for its own parts: publisher, dispatcher, backlog reader, deduplication."""

from __future__ import annotations

from typing import Protocol

from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.loaded_topic import LoadedTopic
from messaging.broker.runtime.topics.services import TopicServices
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList


class TopicContext(LoadedTopic, Protocol):
    __slots__ = ()

    services: TopicServices

    @property
    def ledger_list(self) -> LedgerList: ...

    def mark_active(self) -> None:
        """Something is published, dispatched or acknowledged: rates are sampled while that continues."""

    def store(self, subscription: Subscription, delta: bytes) -> None:
        """Makes a change of a cursor durable that dispatching itself made: expired and lost entries."""

    def block_in_memory(self, position: Position) -> EntryBlock | None:
        """The block that holds `position`, if it need not be read."""
