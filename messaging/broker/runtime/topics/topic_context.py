"""The interface of a topic that its own parts use."""

from __future__ import annotations

from typing import Protocol

from messaging.broker.runtime.topics.backlog.stored_entries import StoredEntries
from messaging.broker.runtime.topics.loaded_topic import LoadedTopic
from messaging.broker.runtime.topics.services import TopicServices
from messaging.broker.runtime.topics.subscriptions.cursor_changes import CursorChanges
from messaging.storage.managed.ledger_list import LedgerList


class TopicContext(LoadedTopic, Protocol):
    services: TopicServices
    ledger_list: LedgerList
    cursor_changes: CursorChanges

    @property
    def keeps_messages(self) -> bool:
        """What is published is stored."""

    def mark_active(self) -> None:
        """Called on every publish, dispatch and acknowledgement: rates are sampled while the topic is active."""

    @property
    def entries(self) -> StoredEntries: ...
