"""One request of a client to acknowledge: checked, then applied to the subscription. What is stored and dispatched because of it is
the topic's to do (`subscription_effects.py`).

Where the size of a batch is not known, the request continues after it was read. Acknowledgements may overtake each other there,
because each only takes something away.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from messaging.broker.core.ack_validation import CumulativeAck, IndividualAcks, MessageAck
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.entry_lookup import block_at
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.errors import QuotaExceeded, StorageFailed
from messaging.storage.ledger_store import Position, StoreError

# Called once, when everything is durable: with why something was refused ("" if nothing was), and the error of the store.
AckDone = Callable[[str, StoreError | None], None]
AfterReading = Coroutine[Any, Any, None] | None  # what is left to do where the sizes of batches have to be read first

GONE = "the subscription was closed meanwhile: acknowledge again"


class AckRequest(NamedTuple):
    """Who acknowledges. `sizes`: of batches, as far as the consumer knows them itself."""

    topic: TopicContext
    subscription: Subscription
    consumer: Consumer
    now_ms: int
    sizes: dict[Position, int]

    @property
    def gone(self) -> bool:
        return self.topic.closed is not None or self.topic.subscriptions.get(self.subscription.name) is not self.subscription

    def size_of(self, position: Position) -> int | None:
        """Messages in an entry that exists, where that is known without reading: by the consumer it was sent to, or in memory."""
        if position in self.sizes:
            return self.sizes[position]
        if position.entry_id in self.consumer.held.get(position.ledger_id, ()):
            return self.consumer.held_batches.get(position, 1)
        block = self.topic.block_in_memory(position)
        return block.messages_of(position.entry_id) if block is not None else None

    async def read_sizes(self, asked: Sequence[MessageAck]) -> tuple[list[MessageAck], str]:
        """Reads the sizes of their batches; returns those whose batch can be read, and why the first other one cannot."""
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
        """Returns the deltas, and why the first that could not be taken was not."""
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
        if ack.entry is None:
            return deltas, ""
        delta, refused = self._apply_part(ack.entry, ack.words)
        return [*deltas, delta], refused

    def _apply_part(self, position: Position, words: Sequence[int]) -> tuple[bytes, str]:
        try:
            return self.subscription.acknowledge_batch(self.consumer, position, words, self.now_ms), ""
        except QuotaExceeded as error:
            return b"", error.message
