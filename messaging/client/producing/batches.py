"""Stage: messages wait for company. Pure.

A batch is one entry for the broker: one write, one receipt, and all the better compressed the larger it is. It ends when it has
enough messages or bytes, or when the oldest message has waited for long enough, which `flushing` watches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from messaging.client.message import Key, MessageId, OutgoingMessage
from messaging.client.producing.options import BatchLimits
from messaging.client.producing.receipts import Receipt

OVERHEAD_BYTES = 16  # of a message in a batch, about: its size, and the numbers of its metadata


@dataclass(slots=True, eq=False)
class Outgoing:
    """A message that was admitted. `size_bytes` counts against the memory limit until the receipt came."""

    message: OutgoingMessage
    partition: int
    size_bytes: int
    receipt: Receipt[MessageId]
    serialized: bool = False


@dataclass(slots=True, eq=False)
class Batch:
    messages: list[Outgoing] = field(default_factory=list)


class BatchContainer:
    """The open batch of a partition, or those of its keys. All of them end together, as in Pulsar's clients."""

    def __init__(self, limits: BatchLimits) -> None:
        self.delay_s = limits.delay_ms / 1000
        self._by_key = limits.by_key
        self._messages_max = limits.messages_max
        self._bytes_max = limits.bytes_max
        self._batches: dict[Key, Batch] = {}
        self._messages = 0
        self._bytes = 0
        self._last_sequence_id = -1

    def __len__(self) -> int:
        return self._messages

    def accepts(self, outgoing: Outgoing) -> bool:
        """False: what is in here has to leave first."""
        sequence_id = outgoing.message.sequence_id
        if sequence_id is not None and sequence_id <= self._last_sequence_id:
            return False  # the ids of a batch are its first and its last
        return not self._messages or self._bytes + outgoing.size_bytes + OVERHEAD_BYTES <= self._bytes_max

    def add(self, outgoing: Outgoing) -> bool:
        """Returns whether the batch is complete."""
        message = outgoing.message
        key = (message.ordering_key or message.key) if self._by_key else None
        batch = self._batches.get(key)
        if batch is None:
            batch = self._batches[key] = Batch()
        batch.messages.append(outgoing)
        self._messages += 1
        self._bytes += outgoing.size_bytes + OVERHEAD_BYTES
        if message.sequence_id is not None:
            self._last_sequence_id = message.sequence_id
        return self._messages >= self._messages_max or self._bytes >= self._bytes_max

    def withdraw(self, outgoing: Outgoing) -> bool:
        """Takes back a message that has not left."""
        for key, batch in self._batches.items():
            if outgoing in batch.messages:
                batch.messages.remove(outgoing)
                self._messages -= 1
                self._bytes -= outgoing.size_bytes + OVERHEAD_BYTES
                if not batch.messages:
                    del self._batches[key]
                return True
        return False

    def take(self) -> list[Batch]:
        """In the order of their first messages."""
        batches, self._batches = list(self._batches.values()), {}
        self._messages = self._bytes = 0
        self._last_sequence_id = -1
        return batches
