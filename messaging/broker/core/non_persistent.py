"""Subscriptions of non-persistent topics: messages go to consumers that can take them now, and are dropped for the others. Pure."""

from __future__ import annotations

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.dispatch.assignment import Assignment
from messaging.broker.core.dispatch.key_shared_mode import DEFAULT_SETTINGS, KeySharedSettings
from messaging.broker.core.dispatch.sources import EntrySource
from messaging.broker.core.dispatch.strategies import DROPPING
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.managed.ledger_list import LedgerList

MESSAGE_ID = Position(0, 0)  # of every message, as in Pulsar
NO_LEDGERS = LedgerList()  # shared by all; never changed


class NonPersistentSubscription(Subscription):
    """Ends with its last consumer, whatever was asked for: there is nothing that it could keep. Its cursor never moves."""

    strategies = DROPPING

    def __init__(
        self,
        name: str,
        *,
        topic: str,
        partition: int = -1,
        key_shared: KeySharedSettings = DEFAULT_SETTINGS,
        properties: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            name,
            Cursor(EARLIEST),
            NO_LEDGERS,
            durable=False,
            topic=topic,
            partition=partition,
            key_shared=key_shared,
            properties=properties,
        )
        self.messages_dropped = 0

    def assign(
        self, source: EntrySource, block: EntryBlock, at: Position, last: int, expired_before_ms: int, now_ms: int
    ) -> Assignment:
        """Shares out the entries of `block` from `at` to entry `last`. What nobody takes is dropped."""
        self.state.unsent.clear()
        deliveries, _ = self.strategy.share(block, ((at.entry_id, last),))
        sent = sum(delivery.messages for delivery in deliveries)
        self.messages_out += sent
        self.messages_dropped += _messages(block, at.entry_id, last) - sent
        for delivery in deliveries:
            delivery.consumer.last_consumed_ms = now_ms
        return Assignment(deliveries, [], 0, False)

    def drop(self, block: EntryBlock, at: Position) -> None:
        """Nobody is sent the entries of `block` from `at` on."""
        self.messages_dropped += _messages(block, at.entry_id, block.last_entry)

    def unacked_of(self, consumer: Consumer) -> int:
        return 0

    def acknowledged_messages(self, consumer: Consumer) -> int:
        return 0


def _messages(block: EntryBlock, first: int, last: int) -> int:
    """Of entries `first` to `last`."""
    begin, stop = first - block.first_entry, last + 1 - block.first_entry
    return block.message_count if stop - begin == len(block.end_offsets) else block.messages_in(begin, stop)
