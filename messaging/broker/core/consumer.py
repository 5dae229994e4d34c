"""One consumer of a subscription: its permits and its unacknowledged entries. Pure state, owned by the subscription."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyroaring import BitMap

from messaging.broker.core.bitmaps import bitmap_bytes
from messaging.broker.core.clients.client_info import LOCAL_CLIENT
from messaging.broker.core.clients.open_sessions import OpenSession
from messaging.broker.core.dispatch.key_shared_mode import AUTO_SPLIT
from messaging.broker.core.dispatch.unacked import UnackedMessages, stays_blocked
from messaging.broker.core.entries import EntryBlock
from messaging.limits.sizes import PERMITS_MAX
from messaging.storage.ledger_store import Position

HELD_BATCH_BYTES = 200  # memory for a batch that is held


class ConsumerSink(Protocol):
    """Where a consumer's messages go: a connection, or a session inside the process. Never blocks, never raises."""

    @property
    def writable(self) -> bool:
        """False while the peer does not read: then nothing is sent to it."""

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, redelivery_counts: list[int] | None) -> int:
        """Sends entries `first` to ``last - 1`` of `block`; returns the bytes sent. `redelivery_counts`: one for each, or None."""

    def deliver_picked(self, consumer: Consumer, block: EntryBlock, picked: list[int], redelivery_counts: list[int] | None) -> int:
        """The same for single entries of `block`, whose indexes are `picked`, in order."""

    def active_changed(self, consumer: Consumer, active: bool) -> None:
        """Failover: this consumer became the active one, or no longer is."""

    def end_of_topic(self, consumer: Consumer) -> None:
        """The topic is terminated and this subscription has acknowledged everything in it. Called once for each consumer."""

    def closed(self, consumer: Consumer) -> None:
        """The broker closed this consumer (unload, delete, seek); it has to connect again."""


class Consumer:
    __slots__ = (
        "blocked",
        "bytes_out",
        "chunks_out",
        "client",
        "connected_ms",
        "consumer_id",
        "end_told",
        "entries_out",
        "entries_redelivered",
        "held",
        "held_batches",
        "key_shared",
        "last_acked_ms",
        "last_consumed_ms",
        "last_flow_ms",
        "messages_out",
        "messages_redelivered",
        "metadata",
        "name",
        "on_ready",
        "permits",
        "priority",
        "read_compacted",
        "schema_version",
        "session",
        "sink",
        "unacked",
        "unacked_messages",
        "uncounted",
    )

    def __init__(self, consumer_id: int, name: str, sink: ConsumerSink, *, priority: int = 0, now_ms: int = 0) -> None:
        self.consumer_id = consumer_id
        self.name = name
        self.sink = sink
        self.priority = priority
        self.read_compacted = False
        self.schema_version: int | None = None  # of its schema, where that is a version of the topic's
        self.session: OpenSession | None = None  # under which it was opened; None for the broker's own
        self.metadata: dict[str, str] = {}
        self.client = LOCAL_CLIENT
        self.key_shared = AUTO_SPLIT
        self.on_ready: Callable[[Consumer], None] | None = None  # set by a strategy that wants to know when it can take messages
        self.permits = 0  # messages that the client asked for and was not sent; may fall below zero by one batch
        self.held: dict[int, BitMap] = {}  # ledger -> entries sent and not acknowledged (Shared only)
        self.held_batches: dict[Position, int] = {}  # of those, the number of messages where it is not one
        self.unacked_messages = 0
        self.uncounted = 0  # of those, chunks of messages that are not whole: the limits are about the others
        self.unacked = UnackedMessages()  # of all consumers of the subscription, which it sets
        self.blocked = False  # it holds too many unacknowledged messages
        self.messages_out = 0
        self.entries_out = 0
        self.chunks_out = 0  # of those entries, chunks of larger messages
        self.bytes_out = 0
        self.messages_redelivered = 0  # messages sent that the client asked for again
        self.entries_redelivered = 0
        self.end_told = False
        self.connected_ms = now_ms
        self.last_flow_ms = 0
        self.last_acked_ms = 0
        self.last_consumed_ms = 0

    def flow(self, permits: int, now_ms: int) -> None:
        """The client asks for `permits` more messages. The sum is limited to `PERMITS_MAX`."""
        self.permits = min(self.permits + permits, PERMITS_MAX)
        self.last_flow_ms = now_ms
        self.wake()

    def give_back(self, permits: int) -> None:
        """Returns the permits of messages that were not delivered after all."""
        self.permits += permits
        self.wake()

    def wake(self) -> None:
        """It may be able to take messages again: it has permits, holds less, or its sink became writable."""
        if self.on_ready is not None:
            self.on_ready(self)

    def messages_of(self, entries: int) -> int:
        """How many messages that many of the entries sent contain: exact if all have the same size."""
        return entries * self.messages_out // self.entries_out if self.entries_out else 0

    def hold(self, block: EntryBlock, first: int, last: int, unacked: list[int] | None, picked: BitMap | None = None) -> None:
        """Entries `first` to ``last - 1`` of `block` were sent to this consumer, or of them those `picked`. `unacked`: how many
        messages of each are not acknowledged, or None for one each."""
        bitmap = self.held.get(block.ledger_id)
        if bitmap is None:
            bitmap = self.held[block.ledger_id] = BitMap()
        if picked is None:
            bitmap.add_range(block.first_entry + first, block.first_entry + last)
        else:
            bitmap |= picked
        messages = sum(unacked) if unacked is not None else last - first if picked is None else len(picked)
        self.unacked_messages += messages
        total = self.unacked
        total.messages += messages
        if self.unacked_messages - self.uncounted >= total.consumer_max:
            self.blocked = True
        if total.messages - total.uncounted >= total.subscription_max:
            total.blocked = True
        if unacked is None:
            return
        entries = range(block.first_entry + first, block.first_entry + last) if picked is None else picked
        for entry, count in zip(entries, unacked, strict=True):
            if count != 1:
                self.held_batches[Position(block.ledger_id, entry)] = count

    def release(self, ledger_id: int, entries: BitMap) -> BitMap:
        """Removes `entries` from what is held; returns those that were held."""
        bitmap = self.held.get(ledger_id)
        if bitmap is None:
            return BitMap()
        released = bitmap & entries
        if released:
            bitmap -= released
            if not bitmap:
                del self.held[ledger_id]
            else:
                self.held[ledger_id] = bitmap
            messages = len(released)
            if self.held_batches:
                for entry in released:
                    messages += self.held_batches.pop(Position(ledger_id, entry), 1) - 1
            self._hold_less(messages)
        return released

    def release_part(self, position: Position, unacked: int) -> bool:
        """Of the entry at `position` only `unacked` messages are left to acknowledge. Returns whether it is held."""
        if position.entry_id not in self.held.get(position.ledger_id, ()):
            return False
        unacked_before = self.held_batches.get(position, 1)
        if unacked < unacked_before:
            self.held_batches[position] = unacked
            self._hold_less(unacked_before - unacked)
        return True

    def _hold_less(self, messages: int) -> None:
        self.unacked_messages -= messages
        total = self.unacked
        total.messages -= messages
        if self.blocked:
            self.blocked = stays_blocked(self.unacked_messages - self.uncounted, total.consumer_max)
        if total.blocked:
            total.blocked = stays_blocked(total.messages - total.uncounted, total.subscription_max)
        self.wake()

    @property
    def held_bytes(self) -> int:
        """About how much memory knowing what it holds takes."""
        return sum(map(bitmap_bytes, self.held.values())) + HELD_BATCH_BYTES * len(self.held_batches)

    def recount(self) -> None:
        """What it holds is counted anew. The caller counts what all hold together."""
        self.unacked_messages = sum(map(len, self.held.values())) + sum(self.held_batches.values()) - len(self.held_batches)
        if self.blocked:
            self.blocked = stays_blocked(self.unacked_messages - self.uncounted, self.unacked.consumer_max)

    def leave_uncounted(self, chunks: int) -> None:
        """So many chunks more than before do not count towards the limits. What is sent or released next follows that."""
        self.uncounted += chunks
        self.unacked.uncounted += chunks

    @property
    def room(self) -> int:
        """Messages that it may still be sent; at least one while it is not `blocked`."""
        return min(self.permits, self.unacked.consumer_max - self.unacked_messages + self.uncounted)

    def follow_limit(self) -> None:
        """The limits changed."""
        self.blocked = self.unacked_messages - self.uncounted >= self.unacked.consumer_max
        self.wake()

    def release_up_to(self, mark: Position) -> None:
        for ledger_id in [held_ledger_id for held_ledger_id in self.held if held_ledger_id <= mark.ledger_id]:
            entries = self.held[ledger_id]
            self.release(ledger_id, entries if ledger_id < mark.ledger_id else entries & BitMap(range(mark.entry_id + 1)))

    def release_all(self) -> dict[int, BitMap]:
        released, self.held = self.held, {}
        self.held_batches.clear()
        self.leave_uncounted(-self.uncounted)
        self._hold_less(self.unacked_messages)
        return released
