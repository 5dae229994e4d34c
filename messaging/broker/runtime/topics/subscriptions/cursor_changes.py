"""Changes of the cursors of one topic: each is made durable, and what it made possible is dispatched.

Every change of a cursor ends here, whoever asked for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from messaging.broker.core.cursors.dropped_ledgers import forget
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.loaded_topic import KnownSubscriptions
from messaging.broker.runtime.topics.services import TopicServices
from messaging.broker.runtime.topics.subscriptions.cursor_writes import CursorWrites, following
from messaging.errors import StorageFailed
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import StoreError
from messaging.storage.meta_store import LedgerRecord

Stored = Callable[[StoreError | None], None]


class ChangeDispatcher(Protocol):
    def dispatch_soon(self, subscription: Subscription) -> None: ...


class ChangedTopic(Protocol):
    """The interface of the topic that changes of its cursors need."""

    name: TopicName
    services: TopicServices

    def mark_active(self) -> None: ...

    @property
    def dispatcher(self) -> ChangeDispatcher: ...

    @property
    def subscriptions(self) -> KnownSubscriptions: ...


class CursorChanges:
    __slots__ = ("_topic", "writes")

    def __init__(self, topic: ChangedTopic) -> None:
        self._topic = topic
        self.writes: CursorWrites | None = following(None, topic.services, topic.name)  # None: cursors are written at any rate

    def finish(self, subscription: Subscription, delta: bytes, stored: Stored | None = None) -> None:
        """A cursor was changed. Dispatches to all consumers: any of them may have been held at its limit."""
        self.store(subscription, delta, stored)
        self._topic.dispatcher.dispatch_soon(subscription)

    def finish_all(self, subscription: Subscription, deltas: Sequence[bytes], stored: Stored | None) -> None:
        """Calls `stored` when the last change is durable; the log keeps their order."""
        changes = [delta for delta in deltas if delta]
        for delta in changes[:-1]:
            self.store(subscription, delta)
        if changes or stored is not None:
            self.finish(subscription, changes[-1] if changes else b"", stored)
        else:
            self._topic.dispatcher.dispatch_soon(subscription)

    async def finish_durably(self, subscription: Subscription, delta: bytes, what: str) -> None:
        """Returns when the change is durable. Raises `StorageFailed`."""
        answer: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        self.finish(subscription, delta, lambda error: None if answer.done() else answer.set_result(error))
        if self.writes is not None:
            self.writes.write_now(subscription.subscription_id)
        error = await answer
        if error is not None:
            raise StorageFailed(f"{what} of subscription {subscription.name!r} is not stored: {error}")

    def store(self, subscription: Subscription, delta: bytes, stored: Stored | None = None) -> None:
        """Makes a change durable and then calls `stored`, if given. With nothing to store (a repeated request), it still waits for
        earlier changes that are not durable yet.
        """
        topic = self._topic
        if delta:
            topic.mark_active()
            topic.services.memory.cursor_memory.changed(topic.name.tenant, subscription)
        if self.writes is not None and subscription.durable:
            self.writes.append(subscription.subscription_id, delta, stored)
        elif delta and subscription.durable:
            topic.services.stores.cursors.append(subscription.subscription_id, delta, stored)
        elif stored is not None and subscription.durable:
            topic.services.stores.cursors.when_durable(subscription.subscription_id, stored)
        elif stored is not None:
            stored(None)

    def forget_ledgers(self, gone: Sequence[LedgerRecord]) -> None:
        """They were deleted, and are not in the ledger list any more."""
        topic = self._topic
        for subscription in topic.subscriptions.table.values():
            if forget(subscription, gone):
                topic.services.memory.cursor_memory.changed(topic.name.tenant, subscription)

    def policies_changed(self) -> None:
        self.writes = following(self.writes, self._topic.services, self._topic.name)

    def close(self) -> None:
        """Writes what waits for its turn."""
        if self.writes is not None:
            self.writes.close()
