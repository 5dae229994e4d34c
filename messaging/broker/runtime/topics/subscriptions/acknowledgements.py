"""Checks one acknowledgement request of a client and applies it to the subscription. The topic stores the change and dispatches
(`subscriptions/effects.py`).

If the size of a batch is unknown, the entry is read first and the request completes afterwards. Such requests may overtake each
other: acknowledgements only ever add to what is acknowledged, so their order does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from messaging.broker.core.ack_validation import CumulativeAck, IndividualAcks, MessageAck
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.backlog.entry_lookup import block_at
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.errors import QuotaExceeded, StorageFailed
from messaging.storage.ledger_store import Position, StoreError

# Called once, when everything is durable: the reason for a refusal ("" if nothing was refused), and the error of the store.
AckDone = Callable[[str, StoreError | None], None]
AfterReading = Coroutine[Any, Any, None] | None  # the remaining work if batch sizes must be read first

GONE = "the subscription was closed or moved meanwhile: acknowledge again"


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
        held = self.topic.closed is None and self.topic.holds(self.subscription)
        return not held or self.subscription.resets != self.resets

    def size_of(self, position: Position) -> int | None:
        """The number of messages in an existing entry if the consumer or memory has it; reads nothing from disk."""
        if position in self.sizes:
            return self.sizes[position]
        if position.entry_id in self.consumer.held.get(position.ledger_id, ()):
            return self.consumer.held_batches.get(position, 1)
        block = self.topic.block_in_memory(position)
        return block.messages_of(position.entry_id) if block is not None else None

    async def read_sizes(self, asked: Sequence[MessageAck]) -> tuple[list[MessageAck], str]:
        """Reads the batch sizes. Returns those that could be read, and the reason for the first one that could not."""
        known, unread = [], ""
        for one in asked:
            try:
                block = await block_at(self.topic, one.position)
            except StorageFailed as error:
                unread = unread or error.message
                continue
            if block is None:
                unread = unread or f"entry {one.position.ledger_id}:{one.position.entry_id} does not exist any more"
                continue
            self.sizes[one.position] = block.messages_of(one.position.entry_id)
            known.append(one)
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
