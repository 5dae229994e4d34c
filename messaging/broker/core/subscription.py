"""A subscription: its cursor, its consumers, and the strategy by which they are sent entries. Pure: no clock, no I/O, no tasks.

The owner (the topic) asks `next_due`, finds the block that holds it, and hands it to `assign`, until `assign` stops. It runs that
loop whenever a consumer gains permits or becomes writable, or an entry is confirmed or to be sent again; nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from messaging.broker.core import bitmaps
from messaging.broker.core.clients import client_usage
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors import ack_sets
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.cursors.cursor_deltas import of_entries, of_range
from messaging.broker.core.dead_letters.dead_entries import DeadLetters
from messaging.broker.core.dispatch.assignment import Assignment
from messaging.broker.core.dispatch.key_shared_mode import DEFAULT_SETTINGS, KeySharedSettings
from messaging.broker.core.dispatch.sources import EntrySource
from messaging.broker.core.dispatch.state import DispatchState, Due
from messaging.broker.core.dispatch.strategies import STRATEGIES
from messaging.broker.core.dispatch.strategy import DispatchStrategy
from messaging.broker.core.dispatch.unacked import UnackedMessages
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.refused_consumers import NONE_REFUSED
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription_type import DELAYING, TYPE_NAMES, SubscriptionType
from messaging.errors import ConsumerBusy, NotReady, QuotaExceeded
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList

ACK_SET_BYTES_MAX = 16 << 20  # of one subscription: some 50,000 batches of which some messages are acknowledged


def subscription_key(name: str, durable: bool) -> str:
    """Under what a topic keeps a subscription. A durable one and one that is not may have the same name, which is the key of the
    durable one; no name can end with a line break."""
    return name if durable else f"{name}\n"


class Subscription:
    strategies = STRATEGIES
    messages_dropped = 0  # counted only where nothing is stored
    created_ms = 0  # 0: it is not known

    def __init__(
        self,
        name: str,
        cursor: Cursor,
        ledger_list: LedgerList,
        *,
        subscription_id: int = 0,
        durable: bool = True,
        topic: str = "",
        partition: int = -1,
        unacked_max: int = 0,
        unacked_of_all_max: int = 0,
        key_shared: KeySharedSettings = DEFAULT_SETTINGS,
        properties: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.key = subscription_key(name, durable)
        self.subscription_id = subscription_id  # 0: not durable, nothing is stored
        self.durable = durable
        self.cursor = cursor
        self.ledger_list = ledger_list
        self.properties = properties or {}
        self.unacked = UnackedMessages(unacked_max, unacked_of_all_max)  # 0: no limit
        self.state = DispatchState(
            cursor, ledger_list, topic=topic, partition=partition, unacked=self.unacked, key_shared=key_shared
        )
        self.consumers = self.state.consumers
        self.strategy: DispatchStrategy = self.strategies[SubscriptionType.EXCLUSIVE](self.state)
        self.typed = False  # whether it has had a consumer
        self.fenced = False
        self.resets = 0  # by seeks: what was asked before one says nothing about what comes after it
        self.dead_letters: DeadLetters | None = None  # the dead-letter policy
        self.recovering = False  # whether its last move to the dead letters was made is being found out: nothing is sent
        self.messages_out = self.bytes_out = self.entries_expired = 0
        self.entries_lost = 0  # that storage could not give
        self.charged_bytes: int | None = 0  # of `cursor.memory_bytes`: see `cursor_memory.py`
        self.may_keep: Callable[[int], bool] = lambda size: True
        self.last_expired_ms = 0
        self.last_flow_ms = 0  # when a consumer that is gone last asked for messages
        self.last_advanced_ms = 0  # when an acknowledgement last moved mark-delete
        self.refused = NONE_REFUSED
        self.departed: client_usage.Totals | None = None  # what consumers that are gone were sent

    # --- consumers

    def admit(self, consumer: Consumer, kind: SubscriptionType) -> None:
        """Raises where `consumer` cannot attach now as one of `kind`: `ConsumerBusy`, `ConsumerAssign`, `NotReady`."""
        if self.fenced:
            raise NotReady(f"subscription {self.name!r} is being moved by another request: try again")
        if not self.consumers:
            (self.strategy if self.kind is kind else self.strategies[kind](self.state)).admit(consumer)
            return
        if self.kind is not kind:
            raise ConsumerBusy(
                f"subscription {self.name!r} is {TYPE_NAMES[self.kind]} while its consumers are connected: "
                f"subscribe with that type, or close them first"
            )
        self.strategy.admit(consumer)

    def blocking_consumers(self, kind: SubscriptionType) -> list[Consumer]:
        """The consumers because of which `admit` would refuse one of `kind` for being busy."""
        return list(self.consumers) if kind is SubscriptionType.EXCLUSIVE or self.kind is not kind else []

    def attach(self, consumer: Consumer, kind: SubscriptionType) -> None:
        """Call `admit` first."""
        if not self.consumers and self.kind is not kind:
            if kind not in DELAYING:
                self.state.stop_delays()
            self.state.set_aside.clear()  # the others do not follow whether they send it
            self.strategy = self.strategies[kind](self.state)
        self.typed = True
        self.consumers[consumer] = None
        consumer.unacked = self.unacked
        self.strategy.attach(consumer)

    def detach(self, consumer: Consumer) -> None:
        """Idempotent. What it has not acknowledged is sent again."""
        if consumer in self.consumers:
            del self.consumers[consumer]
            self.departed = client_usage.with_consumer(self.departed, consumer)
            self.last_flow_ms = max(self.last_flow_ms, consumer.last_flow_ms)
            self.strategy.detach(consumer)

    # --- sending

    def can_dispatch(self) -> bool:
        """Whether some consumer could take a message now."""
        return not self.fenced and not self.recovering and self.strategy.can_dispatch()

    @property
    def unsettled(self) -> bool:
        """Whether nothing can be sent only because `can_dispatch` has more to decide: it is to be asked again in another turn."""
        return self.strategy.unsettled and not self.fenced and not self.recovering

    def next_due(self) -> Due | None:
        """The next entry to send and where it comes from, or None when all that may be delivered were sent."""
        for source in self.state.sources:
            position = source.next_position()
            if position is not None:
                return source, position
        return None

    def skip_lost(self, ledger_id: int, stop: int) -> list[bytes]:
        """Storage cannot give what `next_due` asked for: this continues at entry `stop` of that ledger. What lies between counts as
        acknowledged, or it would hold mark-delete, and with it retention, forever. Returns the deltas to store."""
        due = self.next_due()
        stop = min(stop, self.ledger_list.last_of(ledger_id) + 1)
        if due is None or due[1].ledger_id != ledger_id or due[1].entry_id >= stop:
            return []
        ranges = due[0].unacked_ranges(ledger_id, due[1].entry_id, stop - 1)
        deltas = self._consume(ledger_id, ranges)
        due[0].advance(ledger_id, due[1].entry_id, stop)
        self.entries_lost += sum(last + 1 - first for first, last in ranges)
        return deltas

    def assign(
        self, source: EntrySource, block: EntryBlock, at: Position, last: int, expired_before_ms: int, now_ms: int
    ) -> Assignment:
        """Shares out the entries of `block` from `at` (what `next_due` named) to entry `last`, as far as permits go."""
        self.state.unsent.clear()  # of the last time: that was sent, and stored
        self.state.unstored.clear()
        ledger_id = block.ledger_id
        first, last = at.entry_id, last if block.compacted else min(last, self.ledger_list.deliverable_in(ledger_id))
        ranges = source.unacked_ranges(ledger_id, first, last)
        # A gathered block has the time of its oldest entry: whoever gathered it has looked.
        if block.marker or (block.broker_time_ms < expired_before_ms and not block.gathered):
            expired, deltas = self._expire(block, ranges, now_ms)
            source.advance(ledger_id, first, last + 1)
            return Assignment([], deltas, expired, True)
        if self.state.chunks and source is self.state.reading:
            self.state.chunks.newest_ms = block.broker_time_ms
        held_back = None
        if block.deliver_at_ms is not None and self.delays and source in (self.state.reading, self.state.delayed):
            held_back = self.state.hold_back(block, ranges)
            ranges = held_back.ranges
        deliveries, stopped_at = self.strategy.share(block, ranges)
        if held_back is not None:
            stopped_at = self.state.pass_over(ledger_id, held_back, stopped_at)
        source.advance(ledger_id, first, last + 1 if stopped_at is None else stopped_at)
        if block.chunked and self.state.chunks:
            self.state.chunks.settle()
        for delivery in deliveries:
            self.messages_out += delivery.messages
            delivery.consumer.last_consumed_ms = now_ms
        return Assignment(deliveries, [], 0, stopped_at is None or (block.chunked and bool(deliveries)))

    def _expire(self, block: EntryBlock, ranges: list[tuple[int, int]], now_ms: int) -> tuple[int, list[bytes]]:
        """Expired entries (and the broker's own markers) are never sent. Returns how many, and the deltas to store."""
        deltas = self._consume(block.ledger_id, ranges)
        expired = 0 if block.marker else sum(stop + 1 - start for start, stop in ranges)
        self.entries_expired += expired
        self.last_expired_ms = now_ms if expired else self.last_expired_ms
        return expired, deltas

    def _consume(self, ledger_id: int, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Acknowledges entries that nobody gets. Returns the deltas."""
        if not ranges:
            return []
        state = self.state
        several = bitmaps.bitmap_of_ranges(ranges) if len(ranges) > 1 else None  # often nearly as many ranges as entries
        first, last = ranges[0]
        try:
            if several is None:
                delta = self.cursor.acknowledge_range(ledger_id, first, last, self.ledger_list)
            else:
                delta = self.cursor.acknowledge_all(ledger_id, several, self.ledger_list)
        except Exception:
            # They may be acknowledged in memory by now, of which a restart would know nothing: nobody gets them either way.
            whole = of_range(ledger_id, first, last) if several is None else of_entries(ledger_id, several)
            state.unstored.append(whole)
            raise
        deltas = [delta] if delta else []
        state.unstored += deltas  # at once: they are stored even if something below raises
        if several is None:
            state.redeliveries.acknowledged_range(ledger_id, first, last)
        else:
            state.redeliveries.acknowledged(ledger_id, several)
        if state.delayed is not None:
            for first, last in ranges:
                state.delayed.advance(ledger_id, first, last + 1)
        return deltas

    # --- what comes back

    def acknowledge(self, consumer: Consumer | None, ledger_id: int, entries: Sequence[int], now_ms: int) -> bytes:
        """Acknowledges whole entries, also those that another consumer holds. Returns the delta, b"" if nothing changed."""
        chunks = self.state.chunks
        named = bitmaps.bitmap_of(chunks.acknowledged(consumer, ledger_id, entries) if chunks else entries)
        mark = self.cursor.mark_delete
        delta = self.cursor.acknowledge_all(ledger_id, named, self.ledger_list)
        if consumer is not None:
            consumer.last_acked_ms = now_ms
            if self.cursor.mark_delete is not mark:
                self.last_advanced_ms = now_ms
        self.strategy.acknowledged(consumer, ledger_id, named)
        return delta

    def acknowledge_batch(self, consumer: Consumer | None, position: Position, ack_set: Sequence[int], now_ms: int) -> bytes:
        """Some messages of one entry. Raises `QuotaExceeded` where too many are kept so; what completes one is always taken."""
        batches = self.cursor.batches
        if any(ack_set) and not batches.has(position) and not self.cursor.acknowledged(position):
            size = ack_sets.ENTRY_BYTES + 8 * len(ack_set)
            if batches.memory_bytes + size > ACK_SET_BYTES_MAX or not self.may_keep(size):
                raise QuotaExceeded(
                    f"{self.name!r} has {len(batches)} partly acknowledged batches, which is the limit: acknowledge the rest of "
                    f"them first"
                )
        delta, whole = self.cursor.acknowledge_batch(position, ack_set, self.ledger_list)
        if whole and delta:
            self.acknowledge(consumer, position.ledger_id, (position.entry_id,), now_ms)
        else:
            if delta:
                self.state.acknowledged_part(consumer, position)
            if consumer is not None:
                consumer.last_acked_ms = now_ms
        return delta

    def acknowledge_up_to(self, position: Position, now_ms: int) -> bytes:
        """Cumulative; also skipping and expiry from outside. Reading never goes back before it."""
        delta = self.cursor.acknowledge_up_to(position, self.ledger_list)
        if delta:
            self.state.acknowledged_up_to(self.cursor.mark_delete)
        return delta

    def follow_dead_letters(self, dead_letters: DeadLetters | None) -> None:
        """The dead-letter policy was set, changed or removed."""
        self.dead_letters = dead_letters
        self.state.redeliveries.limit_counts(None if dead_letters is None else dead_letters.policy.max_redeliver_count)

    def redeliver(self, consumer: Consumer, positions: Iterable[Position] | None) -> None:
        """The client wants these again; None: all that it has not acknowledged."""
        self.strategy.redeliver(consumer, positions)

    def recover(self, store: Callable[[bytes], object]) -> None:
        """Something raised while entries were shared out or sent: whatever was not sent is sent again. `store` gets the deltas of
        what was acknowledged for nobody meanwhile; those from which on it raises are kept for the next time."""
        self.strategy.recover()
        unstored = self.state.unstored
        while unstored:
            store(unstored[0])
            del unstored[0]

    def reset(self, target: SeekTarget) -> list[bytes]:
        """Seek. The owner has closed the consumers. Returns the deltas."""
        self.resets += 1
        mark_delete, ranges, batches = target.mark_delete, list(target.acknowledged), [(target.entry, target.words)]
        if target.replayed is not None:
            mark_delete, ranges, batches = self.cursor.acknowledged_outside(*target.replayed, self.ledger_list)
        deltas = [self.cursor.reset(mark_delete, self.ledger_list)]
        for entry, words in batches:
            if words:
                deltas.append(self.cursor.acknowledge_batch(entry, words, self.ledger_list)[0])
        for acknowledged in ranges:
            delta = self.cursor.acknowledge_range(*acknowledged, self.ledger_list)
            if delta:  # else they do not exist any more
                deltas.append(delta)
        self.state.rewind()
        self.state.unstored.clear()
        self.state.redeliveries.counts.clear()
        self.strategy.reset()
        return deltas

    # --- asking

    @property
    def kind(self) -> SubscriptionType:
        return self.strategy.kind

    @property
    def active(self) -> Consumer | None:
        """The consumer that gets everything, where only one does."""
        return self.strategy.active

    @property
    def delays(self) -> bool:
        """Whether delayed messages wait here until they are due; else they are delivered at once."""
        return self.kind in DELAYING

    @property
    def delayed_entries(self) -> int:
        """Unacknowledged entries that are known to be delivered later."""
        delayed = self.state.delayed
        return delayed.waiting_count if delayed is not None else 0

    @property
    def read_position(self) -> Position:
        return self.state.reading.position

    @property
    def backlog_entries(self) -> int:
        return self.cursor.backlog_entries(self.ledger_list)

    def unacked_of(self, consumer: Consumer) -> int:
        """What `consumer` was sent and has not acknowledged: messages for Shared, entries for the active consumer of the others."""
        return self.strategy.unacked_of(consumer)

    def acknowledged_messages(self, consumer: Consumer) -> int:
        """How many messages `consumer` has acknowledged: exact for Shared, elsewhere an estimate."""
        return self.strategy.acknowledged_messages(consumer)

    @property
    def unacked_messages(self) -> int:
        """What consumers hold, counted where several take turns: the active consumer of the other types holds nothing."""
        return sum(consumer.unacked_messages for consumer in self.consumers)
